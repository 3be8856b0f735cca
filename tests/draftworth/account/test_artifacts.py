"""The artifacts command, with real calls to an emulated account."""

import dataclasses
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from moto import mock_aws

from draftworth.account import artifacts
from draftworth.account.checks import check, deploy_prerequisites
from draftworth.planning.resolved import ResolvedNeuron, load_neuron
from draftworth.records import checkpoints, codec
from draftworth.records.graph_manifests import ArtifactManifest, manifest_key
from tests.draftworth.account.stubs import situation
from tests.draftworth.conftest import Ran
from tests.lambdas.capacity_controller.plans import TARGET, make_ready
from tests.support.experiments import Edit, both, put, write_experiment

pytestmark = pytest.mark.emulator

GRAPHS, CHECKPOINTS = "the-graphs", "the-checkpoints"
UNUSED = "f" * 24
OHIO: Any = {"LocationConstraint": "us-east-2"}
TEMPLATE = {
    "Resources": {"Queue": {"Type": "AWS::SQS::Queue"}},
    "Outputs": {
        "ArtifactsLocation": {"Value": f"s3://{GRAPHS}/"},
        "CheckpointsLocation": {"Value": f"s3://{CHECKPOINTS}/"},
    },
}


@pytest.fixture
def s3() -> Iterator[Any]:
    with mock_aws():
        client = boto3.client("s3", region_name="us-east-2")
        for bucket in (GRAPHS, CHECKPOINTS):
            client.create_bucket(Bucket=bucket, CreateBucketConfiguration=OHIO)
        create_stack("draftworth-qwen3-32b", json.dumps(TEMPLATE))
        yield client


def create_stack(name: str, template: str) -> None:
    client = boto3.client("cloudformation", region_name="us-east-2")
    client.create_stack(StackName=name, TemplateBody=template)


def a_file(folder: Path, *edits: Edit) -> tuple[Path, ResolvedNeuron]:
    folder.mkdir(exist_ok=True)
    path = write_experiment(folder, both(*edits))
    return path, load_neuron(path)


def put_graph(
    s3: Any, experiment: ResolvedNeuron, variant: int, *, key: str = "", **changes: Any
) -> ArtifactManifest:
    """A whole upload of one variant's graph, with a manifest."""
    chosen = experiment.variants[variant]
    key = key or chosen.artifact_key
    manifest = ArtifactManifest(
        key=key,
        inputs=chosen.artifact_inputs,
        checkpoints={"target": "a" * 40},
        folder=f"{key}/one",
        files=(checkpoints.StoredFile(path="model.pt", size_bytes=2000, sha256="0" * 64),),
        compile_seconds=2460.0,
        uploaded_at_unix_s=datetime.now(UTC).timestamp() - 3 * 86_400,
    )
    manifest = dataclasses.replace(manifest, **changes)
    s3.put_object(Bucket=GRAPHS, Key=f"{manifest.folder}/model.pt", Body=b"g" * 2000)
    s3.put_object(Bucket=GRAPHS, Key=manifest_key(key), Body=codec.dump_record(manifest))
    return manifest


def names(s3: Any) -> set[str]:
    return {o["Key"] for o in s3.list_objects_v2(Bucket=GRAPHS).get("Contents", [])}


def line_with(text: str, word: str) -> str:
    (matching,) = [line for line in text.splitlines() if word in line]
    return matching


def listed(experiment: ResolvedNeuron, *, hours_later: float = 0) -> artifacts.Listing:
    now = datetime.now(UTC) + timedelta(hours=hours_later)
    (listing,) = artifacts.listings([experiment], bucket=GRAPHS, now=now)
    return listing


def test_it_lists_which_graphs_load_and_which_compile(s3: Any, tmp_path: Path, ran: Ran) -> None:
    path, experiment = a_file(tmp_path)
    manifest = put_graph(s3, experiment, 0)
    text = ran("artifacts", path)
    assert text.startswith(f"bucket  s3://{GRAPHS} in us-east-2\n")
    loads = line_with(text, manifest.key).split("  ")
    facts = ("load", "2,000 bytes", "41 min", "3 days ago")
    expected = ["qwen3-32b", "baseline", manifest.key, *facts]
    assert [cell.strip() for cell in loads if cell.strip()] == expected
    assert line_with(text, experiment.variants[1].artifact_key).endswith("compile")
    assert text.endswith("\nnothing to remove\n")


def test_only_run_removes_graphs_that_no_experiment_uses(s3: Any, tmp_path: Path, ran: Ran) -> None:
    path, experiment = a_file(tmp_path)
    kept = put_graph(s3, experiment, 0)
    put_graph(s3, experiment, 0, key=UNUSED)
    s3.put_object(Bucket=GRAPHS, Key="somebody/else", Body=b"")
    before = names(s3)
    text = ran("artifacts", path)
    assert line_with(text, UNUSED).endswith("2 objects: no given experiment uses it")
    assert text.endswith("can go; --run removes it\n")
    assert names(s3) == before
    text = ran("artifacts", path, "--run")
    assert names(s3) == {manifest_key(kept.key), f"{kept.folder}/model.pt", "somebody/else"}
    assert line_with(text, "left alone").endswith("1 objects")
    assert text.splitlines()[-1].startswith("removed ")


def test_a_graph_of_another_given_experiment_is_kept(s3: Any, tmp_path: Path, ran: Ran) -> None:
    one, _ = a_file(tmp_path / "one")
    other, with_window_5 = a_file(tmp_path / "other", put("variants", 1, "window", value=5))
    manifest = put_graph(s3, with_window_5, 1)
    ran("artifacts", one, other, "--run")
    assert manifest_key(manifest.key) in names(s3)
    ran("artifacts", one, "--run")
    assert names(s3) == set()


def test_a_manifest_goes_before_the_files_it_promises(s3: Any, tmp_path: Path) -> None:
    """Whoever is stopped in between leaves an upload that was cut off, not a graph with holes."""
    _, experiment = a_file(tmp_path)
    put_graph(s3, experiment, 0, key=UNUSED)
    stopping = SimpleNamespace(delete_object=s3.delete_object)  # and nothing of many objects
    with pytest.raises(AttributeError, match="delete_objects"):
        artifacts.remove(stopping, GRAPHS, listed(experiment).removals[0])
    assert names(s3) == {f"{UNUSED}/one/model.pt"}
    removals = listed(experiment, hours_later=2).removals
    assert [removal.what for removal in removals] == [f"{UNUSED}/one"]


DAMAGES: dict[str, dict[str, Any]] = {
    "window: compiled for 9": {"inputs": {"window": 9}},
    "target checkpoint: compiled for commit a": {"checkpoints": {"target": "a" * 40}},
    "model.pt: 7 bytes were uploaded": {
        "files": (checkpoints.StoredFile(path="model.pt", size_bytes=7, sha256="0" * 64),)
    },
}


@pytest.mark.parametrize("reason", DAMAGES)
def test_a_refused_graph_is_listed_with_its_reason(
    s3: Any, tmp_path: Path, ran: Ran, reason: str
) -> None:
    path, experiment = a_file(tmp_path)
    stage_target(s3, commit="b" * 40 if "commit" in reason else "a" * 40)
    manifest = put_graph(s3, experiment, 0, **DAMAGES[reason])
    text = ran("artifacts", path)
    assert "be refused" in line_with(text, "qwen3-32b   baseline")
    assert f"baseline: refused: {reason}" in text
    assert line_with(text, "can go  ").endswith("it would be refused")
    ran("artifacts", path, "--run")
    assert not any(name.startswith(manifest.key) for name in names(s3))


def test_a_marker_of_another_checkpoint_refuses_no_graph(s3: Any, tmp_path: Path, ran: Ran) -> None:
    path, experiment = a_file(tmp_path)
    stage_target(s3, commit="b" * 40, model="acme/other")
    put_graph(s3, experiment, 0, checkpoints={"target": "a" * 40})
    assert "refused" not in ran("artifacts", path)


def stage_target(s3: Any, *, commit: str, model: str = TARGET.model) -> None:
    ready = dataclasses.replace(make_ready(TARGET), commit=commit, model=model)
    key = checkpoints.ready_key(TARGET.model, TARGET.revision)
    s3.put_object(Bucket=CHECKPOINTS, Key=key, Body=codec.dump_record(ready))


@pytest.mark.parametrize(
    ("body", "reason"), [(b"{", "not JSON"), (b" " * (2**20 + 1), "more than 1,048,576 bytes")]
)
def test_an_unreadable_manifest_is_refused_and_can_go(
    s3: Any, tmp_path: Path, body: bytes, reason: str, ran: Ran
) -> None:
    path, experiment = a_file(tmp_path)
    key = experiment.variants[0].artifact_key
    s3.put_object(Bucket=GRAPHS, Key=manifest_key(key), Body=body)
    text = ran("artifacts", path, "--run")
    assert f"_ARTIFACTS.json cannot be read: {reason}" in text
    assert names(s3) == set()


def test_a_recent_upload_stays_and_an_old_goes(s3: Any, tmp_path: Path) -> None:
    _, experiment = a_file(tmp_path)
    key, second = (variant.artifact_key for variant in experiment.variants)
    s3.put_object(Bucket=GRAPHS, Key=f"{key}/cut-off/model.pt", Body=b"g")
    young = listed(experiment)
    assert young.removals == ()
    text = "\n".join(artifacts.listing_lines(young, run=False))
    assert "compile (one is being uploaded)" in text
    put_graph(s3, experiment, 1)
    s3.put_object(Bucket=GRAPHS, Key=f"{second}/second/model.pt", Body=b"g")
    removals = listed(experiment, hours_later=2).removals
    assert {removal.what for removal in removals} == {f"{key}/cut-off", f"{second}/second"}


def test_an_experiment_never_deployed_has_no_bucket(s3: Any, tmp_path: Path, ran: Ran) -> None:
    path, _ = a_file(tmp_path, put("name", value="another"))
    message = "could not look up the outputs of the stack draftworth-another"
    assert message in ran("artifacts", path, code=1)
    ran("artifacts", path, "--bucket", GRAPHS)


def test_a_local_experiment_has_no_compiled_graphs(experiments: Path, ran: Ran) -> None:
    assert ran("artifacts", experiments / "rehearsal.yaml", code=2)


def test_experiments_with_separate_buckets_are_listed_separately(
    s3: Any, tmp_path: Path, ran: Ran
) -> None:
    create_stack("draftworth-another", json.dumps(TEMPLATE).replace(GRAPHS, "more-graphs"))
    s3.create_bucket(Bucket="more-graphs", CreateBucketConfiguration=OHIO)
    one, _ = a_file(tmp_path / "one")
    edits = (put("name", value="another"), put("variants", 1, "window", value=5))
    lines = ran("artifacts", one, a_file(tmp_path / "two", *edits)[0]).splitlines()
    buckets = [line.split()[1] for line in lines if line.startswith("bucket ")]
    assert buckets == ["s3://the-graphs", "s3://more-graphs"]


def checked(path: Path) -> check.CheckResult:
    return deploy_prerequisites.compiled_graphs(situation(load_neuron(path)))


def test_preflight_fails_graphs_that_would_be_refused(s3: Any, tmp_path: Path) -> None:
    path, experiment = a_file(tmp_path)
    put_graph(s3, experiment, 0)
    result = checked(path)
    assert (result.status, result.observation) == (
        "pass",
        "1 of 2 variants load, the others compile",
    )
    put_graph(s3, experiment, 0, inputs={"window": 5})
    result = checked(path)
    assert result.status == "fail"
    assert result.observation.startswith("would be refused: baseline: ")
    assert result.next_step.startswith(f"draftworth artifacts {path} --run")


def test_preflight_refuses_nothing_before_the_first_deploy(tmp_path: Path) -> None:
    with mock_aws():
        result = checked(a_file(tmp_path)[0])
    assert result.status == "pass"
    assert result.observation == "nothing is deployed yet: first starts compile"
