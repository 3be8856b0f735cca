"""The arguments of the commands whose own modules import what an installation may lack.

These modules need boto3, or the folders `charts` and `rehearsal` of a checkout. Their arguments are
declared here, so that `--help` and a shell's completion work in every installation.
"""

import argparse
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from draftworth.cli import print_run
from draftworth.cli.arguments import run_place, whole_number
from draftworth.experiment.model import MAX_REPETITIONS
from draftworth.experiment.strict_model import PATTERNS
from draftworth.records.results import RUNS_FOLDER

# The names of the published models that a rehearsal can fetch (`rehearsal/trained/sources.toml`).
PAIRS = ("smollm2", "qwen")
DEFAULT_NAMESPACE = "default"
_DEFAULT_WAIT_MINUTES = 30
_minutes_to_wait = partial(whole_number, at_most=120)
_minutes_of_log = partial(whole_number, at_most=31 * 24 * 60)
_POD = r"[a-z0-9.-]*"


def add_arguments(command: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of one of the commands in `ARGUMENTS`."""
    ARGUMENTS[command](parser)


def _experiment(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("experiment", type=Path, help="experiment file, YAML")


def _preflight(parser: argparse.ArgumentParser) -> None:
    _experiment(parser)
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
        "--json", action="store_true", help="print the results as JSON, as docs/json.md has them"
    )


def _regions(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if not re.fullmatch(PATTERNS["region"], name):
            raise argparse.ArgumentTypeError(f"given {name!r}, allowed: regions such as us-east-2")
    return names


def _price(parser: argparse.ArgumentParser) -> None:
    _experiment(parser)
    parser.add_argument(
        "--again", action="store_true", help="ask AWS even if a price was looked up before"
    )


def _logs(parser: argparse.ArgumentParser) -> None:
    _experiment(parser)
    parser.add_argument(
        "--pod",
        type=_pod,
        default="",
        metavar="PREFIX",
        help="only pods whose names begin so: vllm-, slot1-vllm-, llmperf-, stage-, ...",
    )
    parser.add_argument(
        "--since-minutes",
        type=_minutes_of_log,
        default=30,
        metavar="N",
        help="lines of the last N minutes (%(default)s)",
    )
    parser.add_argument("--follow", action="store_true", help="go on until Ctrl-C")


def _pod(text: str) -> str:
    if not re.fullmatch(_POD, text):
        raise argparse.ArgumentTypeError(
            f"given {text!r}, allowed: the beginning of a pod's name, of lower-case letters, "
            "digits, dots and hyphens, such as vllm-"
        )
    return text


def _stop(parser: argparse.ArgumentParser) -> None:
    _experiment(parser)
    parser.add_argument(
        "--resume", action="store_true", help="let the nodes start again, if there is work"
    )
    parser.add_argument(
        "--wait-minutes",
        type=_minutes_to_wait,
        default=_DEFAULT_WAIT_MINUTES,
        help=f"0 to {_minutes_to_wait.keywords['at_most']}, for the nodes to go "
        "(default: %(default)s)",
    )


def _artifacts(parser: argparse.ArgumentParser) -> None:
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
        "--bucket", help="the artifacts bucket; left out: that of the experiment's stack"
    )


def _manifests(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("experiment", type=Path, help="experiment file")
    parser.add_argument("--out", required=True, type=Path, help="folder for the YAML files")
    parser.add_argument("--checkpoints-bucket", help="bucket with the models")
    parser.add_argument("--artifacts-bucket", help="bucket with compiled graphs")
    parser.add_argument("--results-bucket", help="bucket for run specification and result files")
    parser.add_argument(
        "--llmperf-image",
        help="the measuring Job's image; left out: the experiment's, if it has one",
    )
    parser.add_argument(
        "--winner",
        metavar="RUN",
        type=run_place,
        help="write only what serves this run's winner elsewhere, in all forms: "
        "as plain objects, for KServe, for the vLLM production-stack chart; folder or s3:// "
        "address of one run",
    )
    parser.add_argument(
        "--namespace", help=f"of the winner's objects (default: {DEFAULT_NAMESPACE})"
    )
    parser.add_argument(
        "--image", help="of a local experiment's winner: an image with the engine it ran on"
    )


def _rehearse(parser: argparse.ArgumentParser) -> None:
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
        help="measure published models and prompts, which are fetched first, and check the run",
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
        help="where the CPU engine is, or gets installed (%(default)s)",
    )
    parser.add_argument(
        "--repetitions",
        type=partial(whole_number, at_least=1, at_most=MAX_REPETITIONS),
        help="times to measure, each with servers that are started anew (default: the file's)",
    )
    parser.add_argument(
        "--control",
        action="store_true",
        help="measure the baseline against itself too, as `control: true` in the file",
    )
    print_run.add_arguments(parser)


ARGUMENTS: Mapping[str, Callable[[argparse.ArgumentParser], None]] = {
    "preflight": _preflight,
    "price": _price,
    "stop": _stop,
    "logs": _logs,
    "artifacts": _artifacts,
    "leftovers": _experiment,
    "delete-assets": _experiment,
    "manifests": _manifests,
    "rehearse": _rehearse,
}
