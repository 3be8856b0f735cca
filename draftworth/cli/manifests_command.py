"""The command `draftworth manifests`: its arguments.

The work is in `manifests.py`, which needs a checkout: `charts` is not in the package.
"""

import argparse
from pathlib import Path

from draftworth.cli.arguments import run_place
from draftworth.cli.manifests_options import DEFAULT_NAMESPACE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the experiment, the folder, and the values that the files get."""
    parser.add_argument("experiment", type=Path, help="experiment file")
    parser.add_argument("--out", required=True, type=Path, help="folder for the YAML files")
    parser.add_argument("--checkpoints-bucket", help="bucket with the models")
    parser.add_argument("--artifacts-bucket", help="bucket with compiled graphs")
    parser.add_argument("--results-bucket", help="bucket for run specification and result files")
    parser.add_argument(
        "--llmperf-image",
        help="the measuring Job's image (default: the experiment's, if it has one)",
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
        "--namespace", help=f"namespace of the winner's objects (default: {DEFAULT_NAMESPACE})"
    )
    parser.add_argument(
        "--image", help="for the winner of a local experiment: an image with its engine"
    )


def run(arguments: argparse.Namespace) -> int:
    """Write the YAML files and return the exit code."""
    from draftworth.cli import manifests

    return manifests.run(arguments)
