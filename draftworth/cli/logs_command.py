"""The command `draftworth logs`: its arguments.

The work is in `draftworth/account/logs.py`, which needs boto3.
"""

import argparse
import re
from functools import partial

from draftworth.cli.arguments import add_experiment, whole_number

_minutes_of_log = partial(whole_number, at_most=31 * 24 * 60)
_POD = r"[a-z0-9.-]*"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the experiment, and which of its log lines to print."""
    add_experiment(parser)
    parser.add_argument(
        "--pod",
        type=_pod,
        default="",
        metavar="PREFIX",
        help="only pods whose names begin with PREFIX: vllm-, slot1-vllm-, llmperf-, stage-, ...",
    )
    parser.add_argument(
        "--since-minutes",
        type=_minutes_of_log,
        default=30,
        metavar="N",
        help="lines of the last N minutes (%(default)s)",
    )
    parser.add_argument("--follow", action="store_true", help="go on with new lines until Ctrl-C")


def run(arguments: argparse.Namespace) -> int:
    """Print the pods' log lines and return the exit code."""
    from draftworth.account import logs

    return logs.run(arguments)


def _pod(text: str) -> str:
    if not re.fullmatch(_POD, text):
        raise argparse.ArgumentTypeError(
            f"given {text!r}, allowed: the beginning of a pod's name, of lower-case letters, "
            "digits, dots and hyphens, such as vllm-"
        )
    return text
