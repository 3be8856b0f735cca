"""The first run stages and compiles; the second one finds both; nothing is left in the end."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping

import pytest

from account import artifacts
from draftworth.analysis.metrics import NAMESPACE
from draftworth.cli import report
from tests.lifelines.cloud import Template
from tests.lifelines.conftest import DRAFT, TARGET, Life
from tests.pods.compiled_graphs.pods import eventually

pytestmark = [pytest.mark.synth, pytest.mark.emulator]


def test_from_a_file_to_an_answer_twice_and_to_an_empty_account(
    life: Life,
    repeated_templates: Mapping[str, Template],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cloud = life.cloud

    # Deployed: nothing runs that costs, because nothing is staged.
    cloud.deploy()
    assert (cloud.desired_nodes, cloud.instances) == (0, 0)
    (told,) = cloud.notifications()
    assert TARGET in told

    # One model is not enough; with both, the node comes.
    first, second = life.stagers()
    assert first.run("checkpoint-stager") == 0, first.log("checkpoint-stager").read_text()
    assert cloud.events() == 1
    assert cloud.desired_nodes == 0
    assert second.run("checkpoint-stager") == 0
    assert cloud.events() == 1
    assert cloud.desired_nodes == 1
    cloud.nodes_follow()
    assert cloud.instances == 1

    # The servers compile and serve; what they compiled is in the bucket soon after.
    servers = life.serve()
    assert all(life.said(variant).startswith("compiled ") for variant in servers)
    eventually(lambda: sum(k.endswith("_ARTIFACTS.json") for k in graphs(life)) == len(servers))

    run_id = measure_and_publish(life, pod=1)
    assert_it_pays(life, run_id, capsys)
    for process in servers.values():
        process.end()

    # Once more: a Job of its own, nothing to stage, nothing to compile.
    cloud.now_unix_s += 3600
    before = (graphs(life), life.hub.downloads("model.safetensors"))
    cloud.update(repeated_templates)
    assert cloud.desired_nodes == 1
    assert [stager.run("checkpoint-stager") for stager in life.stagers()] == [0, 0]
    assert artifacts.run(Namespace(experiments=[life.path], bucket=None, run=False)) == 0
    assert "would compile" not in capsys.readouterr().out
    cloud.nodes_follow()
    servers = life.serve(number=2)
    assert all(life.said(variant, number=2).startswith("loaded ") for variant in servers)
    second_run = measure_and_publish(life, pod=2)
    assert second_run != run_id
    assert (graphs(life), life.hub.downloads("model.safetensors")) == before

    # Gone: but for the checkpoints, which the experiment keeps.
    cloud.destroy()
    assert (
        cloud.client("ec2").describe_instances(
            Filters=[{"Name": "instance-state-name", "Values": ["running", "pending"]}]
        )["Reservations"]
        == []
    )
    capsys.readouterr()
    code = life.leftovers(monkeypatch)
    said = capsys.readouterr().out
    assert code == 0, said
    assert cloud.bucket.checkpoints in said
    assert life.keys(cloud.bucket.checkpoints)


def graphs(life: Life) -> list[str]:
    return life.keys(life.cloud.bucket.artifacts)


def measure_and_publish(life: Life, *, pod: int) -> str:
    """The measuring pod to its end, its results into CloudWatch, the node away; the run's id."""
    cloud = life.cloud
    measurer = life.measurer(pod)
    assert measurer.run("llmperf") == 0, measurer.log("llmperf").read_text()
    assert cloud.desired_nodes == 1
    assert cloud.events() == 1
    assert cloud.desired_nodes == 0
    cloud.nodes_follow()
    assert cloud.instances == 0
    published = [entry for entry in cloud.publish() if entry["event"] == "published"]
    results = [k for k in life.keys(cloud.bucket.results) if k.endswith(".result.json")]
    assert {entry["key"] for entry in published} <= set(results)
    assert published
    names = cloud.client("cloudwatch").list_metrics(Namespace=NAMESPACE)["Metrics"]
    variants = {d["Value"] for m in names for d in m["Dimensions"] if d["Name"] == "Variant"}
    assert variants == set(life.ports)
    job = measurer.owner["metadata"]["name"]
    (run_id,) = {
        part
        for key in life.keys(cloud.bucket.results)
        if key.endswith("/run.json") and (part := key.split("/")[1]).startswith(job)
    }
    return run_id


def assert_it_pays(life: Life, run_id: str, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    where = f"s3://{life.cloud.bucket.results}/runs/{run_id}"
    assert report.run(Namespace(run=where, against=None, out=None)) == 0
    said = capsys.readouterr().out
    assert "pays" in said
    assert "USD" in said
    assert DRAFT.partition("/")[2].lower()[:5] in said
