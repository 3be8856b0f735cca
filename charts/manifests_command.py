"""`draftworth manifests` writes the Kubernetes objects as YAML files, for use without CDK.

It writes the run specification, which holds the prompts, as a further file. With `--winner` it
instead writes a run's winner, to be served in another cluster (`charts/winner`).
"""

import argparse
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from charts.benchmark_charts import benchmark_charts
from charts.bindings import Bindings
from charts.manifest_files import missing_variables, placeholder, write_files, yaml_text
from charts.manifests_next_steps import next_steps
from charts.manifests_options import option, refuse
from charts.run_spec_file import RunSpecFile, run_spec_file
from charts.winner import winner_command
from charts.winner.winner_objects import BUCKETS
from draftworth.errors import UserInputError
from draftworth.experiment.rules.aws_rules import PINNED_IMAGE_WORDS, is_pinned_image
from draftworth.planning.prices import with_looked_up_price
from draftworth.planning.resolved import ResolvedNeuron, load_neuron
from draftworth.untrusted import one_line

# Fields of Bindings that a user may give, and the environment variable that stands for each.
VARIABLES: Mapping[str, str] = {
    **BUCKETS,
    "results_bucket": "RESULTS_BUCKET",
    "llmperf_image": "LLMPERF_IMAGE",
}
RUN_SPEC_FILE = "run-specification.json"
_BUCKET = re.compile(r"(?!.*\.\.)(?![0-9]+(\.[0-9]+){3}\Z)[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
# The folder of run specifications in the results bucket, which the measuring Job may read.
RUN_SPEC_FOLDER = "run-specifications"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to the parser."""
    parser.add_argument("experiment", type=Path, help="experiment file")
    parser.add_argument("--out", required=True, type=Path, help="folder for the YAML files")
    parser.add_argument("--checkpoints-bucket", help="bucket with the models")
    parser.add_argument("--artifacts-bucket", help="bucket with compiled graphs")
    parser.add_argument("--results-bucket", help="bucket for run specification and result files")
    parser.add_argument(
        "--llmperf-image",
        help="the measuring Job's image; left out: the experiment's, if it has one",
    )
    winner_command.add_winner_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write the YAML files, print the next steps and return the exit code.

    It raises UserInputError if an option is wrong or has no effect.
    """
    _check_buckets(arguments)
    if arguments.winner is not None:
        unused = {name: getattr(arguments, name) for name in VARIABLES if name not in BUCKETS}
        refuse("--winner", "allowed: without it", **unused)
        sys.stdout.write(winner_command.write_winner(arguments))
        return 0
    options = {name: getattr(arguments, name) for name in winner_command.WINNER_OPTIONS}
    refuse("no --winner", "allowed: with it", **options)
    user_values = {field: value for field in VARIABLES if (value := getattr(arguments, field))}
    if arguments.llmperf_image and not is_pinned_image(arguments.llmperf_image):
        raise UserInputError(
            f"--llmperf-image: given {arguments.llmperf_image}; allowed: {PINNED_IMAGE_WORDS}, "
            "because under a tag that moves two runs measure with different clients and a changed "
            "Job keeps its name"
        )
    sys.stdout.write(write_manifests(arguments.experiment, arguments.out, user_values))
    return 0


def _check_buckets(arguments: argparse.Namespace) -> None:
    for name in VARIABLES:
        value = getattr(arguments, name)
        if name.endswith("_bucket") and value is not None and not _BUCKET.fullmatch(value):
            raise UserInputError(
                f"{option(name)}: given {one_line(value)!r}, allowed: a bucket's name by "
                "S3's rules: 3 to 63 lower-case letters, digits, hyphens and dots, a letter or "
                "digit first and last, no two dots together, no IP address"
            )


def write_manifests(
    experiment_path: Path, out: Path, user_values: Mapping[str, str] | None = None
) -> str:
    """Write a YAML file for each chart, numbered in the order to apply, and the run specification.

    It returns the next steps as text.
    user_values: {key of `VARIABLES`: value}; the files have a placeholder for a missing value.
    """
    experiment = with_looked_up_price(load_neuron(experiment_path))
    file = run_spec_file(experiment)
    bindings = _bindings(experiment, file, user_values or {})
    charts = benchmark_charts(experiment, bindings)
    texts = {
        f"{number:02}-{chart.node.id}.yaml": yaml_text(chart.to_json())
        for number, chart in enumerate(charts, start=1)
    }
    contents = {name: text.encode() for name, text in texts.items()}
    *manifests, run_spec = write_files(
        out, {**contents, RUN_SPEC_FILE: file.data}, private=(RUN_SPEC_FILE,)
    )
    return next_steps(
        manifests=manifests,
        run_spec=run_spec,
        run_spec_url=bindings.run_spec_url,
        missing=missing_variables("".join(texts.values()), VARIABLES.values()),
    )


def _bindings(
    experiment: ResolvedNeuron, file: RunSpecFile, user_values: Mapping[str, str]
) -> Bindings:
    values = {field: placeholder(variable) for field, variable in VARIABLES.items()}
    if experiment.spec.aws.load_generator_image:
        values["llmperf_image"] = experiment.spec.aws.load_generator_image
    values |= user_values
    return Bindings(
        region=experiment.spec.aws.region,
        run_spec_url=f"s3://{values['results_bucket']}/{RUN_SPEC_FOLDER}/{file.sha256}.json",
        run_spec_sha256=file.sha256,
        **values,
    )
