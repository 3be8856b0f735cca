"""The command `draftworth preflight`: its arguments.

The work is in `draftworth/account/preflight.py`, which needs boto3.
"""

import argparse
import re

from draftworth.cli.arguments import add_experiment
from draftworth.experiment.strict_model import PATTERNS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the experiment, and what to look for and how to print it."""
    add_experiment(parser)
    parser.add_argument(
        "--find",
        action="store_true",
        help="look through regions and zones for nodes that can be bought now; buys nothing",
    )
    parser.add_argument(
        "--regions",
        type=_regions,
        default=(),
        metavar="A,B",
        help="with --find: only these regions, e.g. us-east-2,sa-east-1",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print the checks as JSON, as docs/json.md describes them",
    )


def run(arguments: argparse.Namespace) -> int:
    """Check the account and return the exit code."""
    from draftworth.account import preflight

    return preflight.run(arguments)


def _regions(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if not re.fullmatch(PATTERNS["region"], name):
            raise argparse.ArgumentTypeError(f"given {name!r}, allowed: regions such as us-east-2")
    return names
