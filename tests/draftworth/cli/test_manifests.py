"""`draftworth manifests`: the YAML files that it writes for kubectl, and the steps it prints."""

import hashlib
import json
import re
import stat
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from draftworth.cli import main
from draftworth.measuring.run_specification import RunSpec
from draftworth.records.codec import load_record
from draftworth.records.prompt_files import Case
from tests.charts.rendering import all_objects
from tests.conftest import ROOT
from tests.support.experiments import put, resolved, write_experiment
from tests.support.rehearsals import short_rehearsal

pytestmark = pytest.mark.synth

FILES = [
    "01-foundation.yaml",
    "02-storage.yaml",
    "03-staging.yaml",
    "04-graph-scripts.yaml",
    "05-serving.yaml",
    "06-load-generator.yaml",
    "07-canary.yaml",
]
RUN_SPEC = "run-specification.json"
VALUES = [
    "--checkpoints-bucket=example-checkpoints",
    "--artifacts-bucket=example-artifacts",
    "--results-bucket=example-results",
    "--llmperf-image=111122223333.dkr.ecr.us-east-2.amazonaws.com/llmperf:1.0.0",
]


def test_files_hold_the_objects_and_prompts_apart(
    experiments: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["manifests", str(experiments / "qwen3-32b.yaml"), "--out", str(tmp_path), *VALUES]
    assert main(arguments) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [*FILES, RUN_SPEC]
    texts = [(tmp_path / name).read_text(encoding="utf-8") for name in FILES]
    written = [item for text in texts for item in yaml.load_all(text, Loader=yaml.CSafeLoader)]
    assert written == all_objects()
    output = capsys.readouterr().out
    assert re.search(r"cat \S+01-foundation.yaml .*07-canary.yaml \| kubectl apply", output)
    assert "Values to fill in" not in output
    accounts = {item["metadata"]["name"] for item in written if item["kind"] == "ServiceAccount"}
    check_address_of_run_specification(tmp_path, "example-results", output)
    cases = resolved().cases
    assert prompts_in("".join(texts), cases) == []
    run_spec = tmp_path / RUN_SPEC
    assert prompts_in(run_spec.read_text(encoding="utf-8"), cases)
    assert stat.S_IMODE(run_spec.stat().st_mode) == 0o600
    assert load_record(RunSpec, run_spec.read_bytes()).cases == cases
    # The listener's pods need no role.
    pods = {name for name in accounts if not name.startswith("vllm-")} - {"listener"}
    assert len(pods) == 2
    assert [name for name in pods if f"draftworth/{name}" not in output] == []


def check_address_of_run_specification(folder: Path, bucket: str, output: str) -> None:
    """Check that the printed S3 address of the run specification is where the Job reads it."""
    sha256 = hashlib.sha256((folder / RUN_SPEC).read_bytes()).hexdigest()
    url = f"s3://{bucket}/run-specifications/{sha256}.json"
    assert f"aws s3 cp {folder / RUN_SPEC} {url}\n" in output
    items = yaml.load_all(
        (folder / "06-load-generator.yaml").read_text(encoding="utf-8"), Loader=yaml.CSafeLoader
    )
    (job,) = (item for item in items if item["kind"] == "Job")
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["args"][:4] == ["--run-spec", url, "--run-spec-sha256", sha256]


def test_missing_values_are_listed_with_their_filling(
    experiments: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a folder that is not empty, only the command's own files are replaced."""
    (tmp_path / "kustomization.yaml").write_text("mine", encoding="utf-8")
    (tmp_path / FILES[0]).write_text("old", encoding="utf-8")
    arguments = ["manifests", str(experiments / "qwen3-32b.yaml"), "--out", str(tmp_path)]
    assert main([*arguments, VALUES[0]]) == 0
    output = capsys.readouterr().out
    assert "Values to fill in: ARTIFACTS_BUCKET, RESULTS_BUCKET, LLMPERF_IMAGE." in output
    # envsubst must replace these variables only: the programs in the files have $ signs too.
    assert "envsubst '${ARTIFACTS_BUCKET} ${RESULTS_BUCKET} ${LLMPERF_IMAGE}'" in output
    check_address_of_run_specification(tmp_path, "${RESULTS_BUCKET}", output)
    texts = {p.name: p.read_text(encoding="utf-8") for p in tmp_path.iterdir()}
    assert sorted(texts) == [*FILES, "kustomization.yaml", RUN_SPEC]
    assert texts["kustomization.yaml"] == "mine"
    assert "kind: Namespace" in texts[FILES[0]]
    assert "bucketName: example-checkpoints" in texts["02-storage.yaml"]
    assert "bucketName: ${ARTIFACTS_BUCKET}" in texts["02-storage.yaml"]


def prompts_in(text: str, cases: Sequence[Case]) -> list[str]:
    """Return the prompts of `cases` that are in `text`, as they are or escaped as JSON."""
    messages = [m["content"] for c in cases for p in c.prompts for m in p.messages]
    assert messages
    return [m for m in messages if m in text or json.dumps(m)[1:-1] in text]


def test_only_values_in_use_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with_image = put("aws", "load_generator_image", value="example.com/llmperf:1.0.0")
    path = str(write_experiment(tmp_path, with_image))
    assert main(["manifests", path, "--out", str(tmp_path)]) == 0
    missing = "Values to fill in: CHECKPOINTS_BUCKET, ARTIFACTS_BUCKET, RESULTS_BUCKET."
    assert missing in capsys.readouterr().out


def test_a_local_experiment_has_no_manifests(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["manifests", str(short_rehearsal(tmp_path)), "--out", str(tmp_path)]) == 2
    message = capsys.readouterr().err
    for part in ("given:   cpu-vllm-", "allowed: a release for Neuron devices"):
        assert part in message
    assert not (tmp_path / FILES[0]).exists()


def test_a_folder_that_cannot_be_written_is_named(
    experiments: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    assert main(["manifests", str(experiments / "qwen3-32b.yaml"), "--out", str(blocked)]) == 1
    message = capsys.readouterr().err
    assert "file: cannot write manifests: File exists; next: --out" in message


@pytest.mark.parametrize(
    "name", ["BAD_Bucket!", "", "ab", "a..b", "-ab", "10.0.0.1", "a" * 64, "${BUCKET}", "abc\n"]
)
@pytest.mark.parametrize("option", ["--checkpoints-bucket", "--results-bucket"])
def test_what_cannot_be_a_bucket_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, name: str
) -> None:
    path = str(ROOT / "experiments/qwen3-32b.yaml")
    assert main(["manifests", path, "--out", str(tmp_path), f"{option}={name}"]) == 2
    message = f"{option}: given {name.strip()!r}, allowed: a bucket's name by S3's rules"
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_an_image_that_may_change_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--out", str(tmp_path), "--llmperf-image", "example.com/llmperf:latest"]
    assert main(["manifests", str(ROOT / "experiments/qwen3-32b.yaml"), *options]) == 2
    assert "an image with a tag other than latest" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
