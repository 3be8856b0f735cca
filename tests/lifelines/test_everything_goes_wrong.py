"""A life in which all that can be lost is lost: an answer all the same, and an empty account."""

from __future__ import annotations

import json
import signal
import threading
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime

import pytest

from draftworth.analysis.metrics import NAMESPACE, TTFT
from draftworth.measuring.job import EXIT_COMPLETE, EXIT_INTERRUPTED
from draftworth.records.codec import load_record
from draftworth.records.results import RESULT_SUFFIX, BlockResult
from tests.lambdas.capacity_controller.conftest import failed_launch
from tests.lifelines.cloud import Template
from tests.lifelines.conftest import DEADLINE_MINUTES, Life
from tests.pods.compiled_graphs.pods import eventually

pytestmark = [pytest.mark.synth, pytest.mark.emulator]

NO_CAPACITY = (
    "Could not launch Spot Instances. InsufficientInstanceCapacity - There is no Spot capacity "
    "available that matches your request. Launching EC2 instance failed."
)
BLOCKS = 2 * 2 * 2  # cases, variants, rounds


def test_from_a_file_through_every_loss_to_an_answer_and_an_empty_account(
    life: Life,
    repeated_templates: Mapping[str, Template],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cloud = life.cloud
    cloud.deploy()
    cloud.notifications()
    staging_is_killed_in_the_middle_of_a_file(life)
    events_come_twice_and_in_the_wrong_order(life)
    there_is_no_capacity_and_then_there_is(life)
    an_upload_is_killed(life)
    run_id = the_measuring_pod_and_a_server_are_lost(life)
    every_block_is_there_once(life, run_id)
    cloudwatch_refuses_and_nothing_is_counted_twice(life)
    the_event_of_the_end_is_lost(life)
    a_repetition_runs_into_its_deadline(life, repeated_templates)
    cloud.destroy()
    what_somebody_left_is_found(life, capsys, monkeypatch)


def staging_is_killed_in_the_middle_of_a_file(life: Life) -> None:
    target, draft = life.stagers()
    life.hub.trouble.held["model.safetensors"] = threading.Event()
    process = life.start(target, "checkpoint-stager")
    eventually(lambda: life.hub.downloads("model.safetensors") == 1)
    process.signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    life.hub.trouble.held.pop("model.safetensors").set()
    assert draft.run("checkpoint-stager") == 0
    assert [k for k in staged(life) if k.endswith("_READY.json")] == [
        "Qwen/Qwen3-1.7B/main/_READY.json"
    ]
    life.cloud.events()
    assert life.cloud.desired_nodes == 0


def staged(life: Life) -> list[str]:
    return life.keys(life.cloud.bucket.checkpoints)


def events_come_twice_and_in_the_wrong_order(life: Life) -> None:
    target, _ = life.stagers()
    assert target.run("checkpoint-stager") == 0
    life.cloud.notifications()
    assert life.cloud.events(repeated=3) == 1
    assert life.cloud.desired_nodes == 1
    assert len(life.cloud.notifications()) == 1


def there_is_no_capacity_and_then_there_is(life: Life) -> None:
    cloud = life.cloud
    cloud.now_unix_s += 60
    cloud.failed_launches = [failed_launch(NO_CAPACITY, at=cloud.now_unix_s)]
    cloud.heartbeat(after_minutes=2)
    cloud.heartbeat(after_minutes=2)
    (told,) = cloud.notifications()
    assert life.experiment.spec.aws.availability_zone in told
    assert "insufficient capacity" in told
    assert cloud.desired_nodes == 1
    cloud.failed_launches = []
    cloud.nodes_follow()
    cloud.heartbeat(after_minutes=2)
    assert cloud.instances == 1


def an_upload_is_killed(life: Life) -> None:
    """Before the server is healthy: its uploader starts again and does all of it."""
    pods = {variant: life.server(variant) for variant in life.ports}
    for pod in pods.values():
        life.start(pod, "vllm", SAID=str(pod.folder / "said"), SECONDS_A_FILE="0.3")
        first = life.start(pod, "graph-uploader")
        first.signal(signal.SIGKILL)
        first.wait()
    assert graphs(life) == []
    for pod in pods.values():
        life.start(pod, "graph-uploader")
    eventually(lambda: sum(k.endswith("_ARTIFACTS.json") for k in graphs(life)) == len(pods))


def graphs(life: Life) -> list[str]:
    return life.keys(life.cloud.bucket.artifacts)


def the_measuring_pod_and_a_server_are_lost(life: Life) -> str:
    """A drained node ends the pod, a Spot reclaim the servers' node; the run goes on."""
    cloud = life.cloud
    first = life.start(life.measurer(1), "llmperf")
    eventually(lambda: len(results(life)) >= 2)
    first.signal(signal.SIGTERM)
    assert first.wait() == EXIT_INTERRUPTED, first.output
    assert cloud.events() == 0
    assert cloud.desired_nodes == 1

    before = len(results(life))
    second = life.start(life.measurer(2), "llmperf")
    eventually(lambda: len(results(life)) > before or second.process.poll() is not None)
    life.lose_servers()
    eventually(lambda: any("/interrupted/" in key for key in life.keys(cloud.bucket.results)))
    life.serve(number=2)
    assert all(life.said(variant, number=2).startswith("loaded ") for variant in life.ports)
    assert second.wait() == EXIT_COMPLETE, second.output
    (run_id,) = {key.split("/")[1] for key in results(life)}
    return run_id


def results(life: Life) -> list[str]:
    return [key for key in life.keys(life.cloud.bucket.results) if key.endswith(RESULT_SUFFIX)]


def every_block_is_there_once(life: Life, run_id: str) -> None:
    s3, bucket = life.cloud.client("s3"), life.cloud.bucket.results
    blocks = [
        load_record(BlockResult, s3.get_object(Bucket=bucket, Key=k)["Body"].read())
        for k in results(life)
    ]
    places = Counter((b.case, b.variant, b.round) for b in blocks)
    assert set(places.values()) == {1}
    assert len(places) in (BLOCKS // 2, BLOCKS)  # one round may have been enough
    assert not any(r.failed for b in blocks for r in b.requests)
    run = json.loads(s3.get_object(Bucket=bucket, Key=f"runs/{run_id}/run.json")["Body"].read())
    assert run["status"] == "complete"
    assert run["interruptions"]


def cloudwatch_refuses_and_nothing_is_counted_twice(life: Life) -> None:
    log = life.cloud.publish(refusals=3)
    assert any(entry["event"] != "published" for entry in log)
    cloudwatch = life.cloud.client("cloudwatch")
    samples = 0.0
    for variant in life.ports:
        dimensions = {"Experiment": "qwen3-32b", "Variant": variant, "PromptClass": "structured"}
        told = cloudwatch.get_metric_statistics(
            Namespace=NAMESPACE,
            MetricName=TTFT.name,
            Dimensions=[{"Name": k, "Value": v} for k, v in dimensions.items()],
            StartTime=datetime(2020, 1, 1, tzinfo=UTC),
            EndTime=datetime(2100, 1, 1, tzinfo=UTC),
            Period=60,
            Statistics=["SampleCount"],
        )
        samples += sum(point["SampleCount"] for point in told["Datapoints"])
    s3, bucket = life.cloud.client("s3"), life.cloud.bucket.results
    counted = sum(
        r.counts
        for key in results(life)
        for r in load_record(
            BlockResult, s3.get_object(Bucket=bucket, Key=key)["Body"].read()
        ).requests
    )
    assert samples == counted > 0


def the_event_of_the_end_is_lost(life: Life) -> None:
    """run.json is there, nobody told the controller: the next heartbeat sees it."""
    assert life.cloud.desired_nodes == 1
    life.cloud.heartbeat(after_minutes=2)
    assert life.cloud.desired_nodes == 0
    life.cloud.nodes_follow()
    assert life.cloud.events(repeated=2) == 1
    assert life.cloud.desired_nodes == 0


def a_repetition_runs_into_its_deadline(
    life: Life, repeated_templates: Mapping[str, Template]
) -> None:
    cloud = life.cloud
    cloud.now_unix_s += 3600
    cloud.update(repeated_templates)
    assert cloud.desired_nodes == 1
    cloud.nodes_follow()
    the_run_begins_and_its_pod_is_told_to_end(life)
    cloud.heartbeat(after_minutes=DEADLINE_MINUTES - 1)
    assert cloud.desired_nodes == 1
    cloud.heartbeat(after_minutes=2)
    assert cloud.desired_nodes == 0
    cloud.nodes_follow()
    assert cloud.instances == 0
    cloud.update(repeated_templates)
    cloud.heartbeat(after_minutes=2)
    assert cloud.desired_nodes == 0


def the_run_begins_and_its_pod_is_told_to_end(life: Life) -> None:
    pod = life.measurer()
    process = life.start(pod, "llmperf")
    folder = f"runs/{pod.owner['metadata']['name']}-"
    eventually(lambda: any(k.startswith(folder) for k in life.keys(life.cloud.bucket.results)))
    process.signal(signal.SIGTERM)
    assert process.wait() == EXIT_INTERRUPTED, process.output


def what_somebody_left_is_found(
    life: Life, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ec2 = life.cloud.client("ec2")
    tags = [{"Key": k, "Value": v} for k, v in life.cloud.names.tags("cluster").items()]
    volume = ec2.create_volume(
        AvailabilityZone="us-east-2c",
        Size=100,
        TagSpecifications=[{"ResourceType": "volume", "Tags": tags}],
    )["VolumeId"]
    capsys.readouterr()
    assert life.leftovers(monkeypatch) == 1
    assert volume in capsys.readouterr().out
    ec2.delete_volume(VolumeId=volume)
    assert life.leftovers(monkeypatch) == 0
