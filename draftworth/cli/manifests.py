"""`draftworth manifests` writes the Kubernetes objects as YAML files, for use without CDK.

It writes the run specification, which holds the prompts, as a further file. With `--winner` it
instead writes a run's winner, to be served in another cluster (`manifests_winner.py`).
"""

import argparse
import re
import sys

from charts.benchmark_manifests import VARIABLES, write_benchmark_manifests
from charts.winner.winner_objects import BUCKETS
from draftworth.cli import manifests_winner
from draftworth.cli.manifests_next_steps import next_steps
from draftworth.cli.manifests_options import option, refuse
from draftworth.errors import UserInputError
from draftworth.experiment.rules.aws_rules import PINNED_IMAGE_WORDS, is_pinned_image
from draftworth.planning.prices import with_looked_up_price
from draftworth.planning.resolved import load_neuron
from draftworth.untrusted import one_line

_BUCKET = re.compile(r"(?!.*\.\.)(?![0-9]+(\.[0-9]+){3}\Z)[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


def run(arguments: argparse.Namespace) -> int:
    """Write the YAML files, print the next steps and return the exit code.

    It raises UserInputError if an option is wrong or has no effect.
    """
    _check_buckets(arguments)
    if arguments.winner is not None:
        unused = {name: getattr(arguments, name) for name in VARIABLES if name not in BUCKETS}
        refuse("--winner", "allowed: without it; next: leave it out", **unused)
        sys.stdout.write(manifests_winner.write_winner(arguments))
        return 0
    options = {name: getattr(arguments, name) for name in manifests_winner.WINNER_OPTIONS}
    refuse(
        "no --winner",
        "allowed: with it; next: add --winner RUN, or leave the option out",
        **options,
    )
    _check_image(arguments.llmperf_image)
    user_values = {field: value for field in VARIABLES if (value := getattr(arguments, field))}
    experiment = with_looked_up_price(load_neuron(arguments.experiment))
    written = write_benchmark_manifests(experiment, arguments.out, user_values)
    sys.stdout.write(next_steps(written))
    return 0


def _check_buckets(arguments: argparse.Namespace) -> None:
    for name in VARIABLES:
        value = getattr(arguments, name)
        if name.endswith("_bucket") and value is not None and not _BUCKET.fullmatch(value):
            raise UserInputError(
                f"{option(name)}: given {one_line(value)!r}, allowed: a bucket's name by "
                "S3's rules: 3 to 63 lower-case letters, digits, hyphens and dots, a letter or "
                "digit first and last, no two dots together, no IP address; next: give the "
                "name alone, without s3://"
            )


def _check_image(image: str | None) -> None:
    if image and not is_pinned_image(image):
        raise UserInputError(
            f"--llmperf-image: given {image}; allowed: {PINNED_IMAGE_WORDS}, "
            "because under a tag that moves two runs measure with different clients and a changed "
            "Job keeps its name; next: give a tag that stays, or the digest that the registry shows"
        )
