"""The command `draftworth leftovers`: its arguments.

The work is in `draftworth/account/leftovers.py`, which needs boto3.
"""

import argparse

from draftworth.cli.arguments import add_experiment


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the experiment."""
    add_experiment(parser)


def run(arguments: argparse.Namespace) -> int:
    """List what is left in the account and return the exit code."""
    from draftworth.account import leftovers

    return leftovers.run(arguments)
