"""The command `draftworth rehearse`: its arguments.

The work is in `rehearsal/rehearse.py`, which needs a checkout: `rehearsal` is not in the package.
"""

import argparse
from functools import partial
from pathlib import Path

from draftworth.cli import print_run
from draftworth.cli.arguments import whole_number
from draftworth.experiment.model import MAX_REPETITIONS
from draftworth.records.results import RUNS_FOLDER

# The names of the published models that a rehearsal can fetch (`rehearsal/trained/sources.toml`).
PAIRS = ("smollm2", "qwen")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what is measured, how often, and where its files go."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--experiment",
        type=Path,
        default=Path("experiments/rehearsal.yaml"),
        help="an experiment with a local release (%(default)s)",
    )
    which.add_argument(
        "--pair",
        choices=PAIRS,
        help="fetch published models and prompts, measure them, and check the run",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path(RUNS_FOLDER),
        help="folder for the run's files (%(default)s)",
    )
    parser.add_argument(
        "--engine",
        type=Path,
        default=Path(".engine-venv"),
        help="where the CPU engine is, or will be installed (%(default)s)",
    )
    parser.add_argument(
        "--repetitions",
        type=partial(whole_number, at_least=1, at_most=MAX_REPETITIONS),
        help="how often to measure, each time with servers started anew (default: the file's)",
    )
    parser.add_argument(
        "--control",
        action="store_true",
        help="measure the baseline against itself too, as `control: true` in the file",
    )
    print_run.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Rehearse the experiment and return the exit code."""
    from rehearsal import rehearse

    return rehearse.run(arguments)
