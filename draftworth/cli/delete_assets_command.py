"""The command `draftworth delete-assets`: its arguments.

The work is in `draftworth/account/delete_assets.py`, which needs boto3.
"""

import argparse

from draftworth.cli.arguments import add_experiment


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the experiment."""
    add_experiment(parser)


def run(arguments: argparse.Namespace) -> int:
    """Delete the uploads and return the exit code."""
    from draftworth.account import delete_assets

    return delete_assets.run(arguments)
