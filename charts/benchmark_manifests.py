"""The charts of an experiment as YAML files, for a cluster that exists.

The run specification, which holds the prompts, is a file of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from charts.benchmark_charts import benchmark_charts
from charts.bindings import Bindings
from charts.manifest_files import missing_variables, placeholder, write_files, yaml_text
from charts.run_spec_file import RunSpecFile, run_spec_file
from charts.winner.winner_objects import BUCKETS
from draftworth.planning.resolved import ResolvedNeuron

# The names of AWS resources that a user may give: {field of `Bindings`: the environment variable
# whose placeholder is in the files if the user does not give the name}.
VARIABLES: Mapping[str, str] = {
    **BUCKETS,
    "results_bucket": "RESULTS_BUCKET",
    "llmperf_image": "LLMPERF_IMAGE",
}
RUN_SPEC_FILE = "run-specification.json"
# The folder of run specifications in the results bucket, which the measuring Job may read.
RUN_SPEC_FOLDER = "run-specifications"


@dataclass(frozen=True, kw_only=True)
class BenchmarkManifests:
    """The files that were written for an experiment.

    manifests: the files with Kubernetes objects, in the order in which to apply them.
    run_spec: the file with the run specification. run_spec_url: the S3 address to copy it to.
    missing: the environment variables whose placeholders are in `manifests`.
    """

    manifests: Sequence[Path]
    run_spec: Path
    run_spec_url: str
    missing: Sequence[str]


def write_benchmark_manifests(
    experiment: ResolvedNeuron, out: Path, user_values: Mapping[str, str]
) -> BenchmarkManifests:
    """Write a YAML file for each chart, numbered in the order to apply, and the run specification.

    out: the folder for the files; DraftworthError if it cannot be written.
    user_values: names of AWS resources by key of `VARIABLES`, such as `results_bucket`. For a
        name that is not given, the files have a placeholder, such as `${RESULTS_BUCKET}`.
    """
    file = run_spec_file(experiment)
    bindings = _bindings(experiment, file, user_values)
    charts = benchmark_charts(experiment, bindings)
    texts = {
        f"{number:02}-{chart.node.id}.yaml": yaml_text(chart.to_json())
        for number, chart in enumerate(charts, start=1)
    }
    contents = {name: text.encode() for name, text in texts.items()}
    *manifests, run_spec = write_files(
        out, {**contents, RUN_SPEC_FILE: file.data}, private=(RUN_SPEC_FILE,)
    )
    return BenchmarkManifests(
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
