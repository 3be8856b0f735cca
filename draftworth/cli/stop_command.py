"""The command `draftworth stop`: its arguments.

The work is in `draftworth/account/stop.py`, which needs boto3.
"""

import argparse
from functools import partial

from draftworth.cli.arguments import add_experiment, whole_number

_DEFAULT_WAIT_MINUTES = 30
_minutes_to_wait = partial(whole_number, at_most=120)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the experiment, `--resume` and how long to wait."""
    add_experiment(parser)
    parser.add_argument(
        "--resume", action="store_true", help="let the nodes start again, if there is work"
    )
    parser.add_argument(
        "--wait-minutes",
        type=_minutes_to_wait,
        default=_DEFAULT_WAIT_MINUTES,
        metavar="N",
        help="how long to wait until the nodes are gone, "
        f"0 to {_minutes_to_wait.keywords['at_most']} (default: %(default)s)",
    )


def run(arguments: argparse.Namespace) -> int:
    """End the accelerator nodes, or let them start again, and return the exit code."""
    from draftworth.account import stop

    return stop.run(arguments)
