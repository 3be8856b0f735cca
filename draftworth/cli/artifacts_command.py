"""The command `draftworth artifacts`: its arguments.

The work is in `draftworth/account/artifacts.py`, which needs boto3.
"""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the experiments, `--run` and the bucket."""
    parser.add_argument(
        "experiments",
        nargs="+",
        type=Path,
        metavar="EXPERIMENT",
        help="experiment files; give every one whose compiled graphs are to be kept",
    )
    parser.add_argument(
        "--run",
        action="store_true",
        help="remove what the list says can go (without it nothing is changed)",
    )
    parser.add_argument(
        "--bucket", help="the artifacts bucket (default: that of the experiment's stack)"
    )


def run(arguments: argparse.Namespace) -> int:
    """List compiled graphs, or remove old ones, and return the exit code."""
    from draftworth.account import artifacts

    return artifacts.run(arguments)
