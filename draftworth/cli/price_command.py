"""The command `draftworth price`: its arguments.

The work is in `draftworth/account/price.py`, which needs boto3.
"""

import argparse

from draftworth.cli.arguments import add_experiment


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the experiment, and whether AWS is asked again."""
    add_experiment(parser)
    parser.add_argument(
        "--again", action="store_true", help="ask AWS even if a price was looked up before"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print a node's price and return the exit code."""
    from draftworth.account import price

    return price.run(arguments)
