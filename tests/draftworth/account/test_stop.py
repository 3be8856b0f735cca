"""`draftworth stop` where no controller acts; both together are in `tests/end_to_end`."""

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from draftworth.account.checks.deployment import not_stopped
from draftworth.account.stop import LOOK_SECONDS
from draftworth.cli import main
from draftworth.records.deployment import STATE_KEY, STOP_KEY
from tests.draftworth.account.stubs import QWEN, situation

pytestmark = pytest.mark.emulator
REGION, BUCKET, CLUSTER = "us-east-2", "the-results", "draftworth-qwen3-32b"
GROUP = "draftworth-qwen3-32b-accelerator-spot"
TEMPLATE = {
    "Resources": {"Queue": {"Type": "AWS::SQS::Queue"}},
    "Outputs": {"ResultsLocation": {"Value": f"s3://{BUCKET}/runs/"}},
}
STATE = {
    "current": "llmperf-1",
    "last_decision": {"desired_size": 1, "reason": "ready", "since_unix_s": 1_790_000_000.0},
    "deployments": {
        "llmperf-1": {
            "node_time": {"node_seconds": 1800.0},
            "block_node_seconds": None,
            "plan": {"price_usd_per_node_hour": 8.60},
        }
    },
}


def client(service: str) -> Any:
    return boto3.client(service, region_name=REGION)  # type: ignore[call-overload]


@pytest.fixture
def account() -> Iterator[None]:
    """A deployed experiment without a node group."""
    with mock_aws():
        where: Any = {"LocationConstraint": REGION}
        client("s3").create_bucket(Bucket=BUCKET, CreateBucketConfiguration=where)
        body = json.dumps(TEMPLATE)
        client("cloudformation").create_stack(StackName=CLUSTER, TemplateBody=body)
        yield


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits, which pass at once."""
    waits: list[float] = []
    monkeypatch.setattr("draftworth.account.stop.time.sleep", waits.append)
    monkeypatch.setattr("draftworth.account.stop.time.monotonic", lambda: sum(waits))
    return waits


def node_group(desired: int) -> None:
    eks = client("eks")
    eks.create_cluster(
        name=CLUSTER, roleArn="arn:aws:iam::111122223333:role/x", resourcesVpcConfig={}
    )
    eks.create_nodegroup(
        clusterName=CLUSTER,
        nodegroupName=GROUP,
        subnets=["subnet-1"],
        nodeRole="arn:aws:iam::111122223333:role/x",
        scalingConfig={"minSize": 0, "maxSize": 1, "desiredSize": desired},
    )


def put_state(body: bytes) -> None:
    client("s3").put_object(Bucket=BUCKET, Key=STATE_KEY, Body=body)


def keys() -> list[str]:
    listed = client("s3").list_objects_v2(Bucket=BUCKET).get("Contents", ())
    return [entry["Key"] for entry in listed]


@pytest.mark.parametrize(("block_node_seconds", "spent"), [(None, "4.30"), (86_400.0, "206.40")])
def test_a_controller_that_does_not_act_ends_in_the_command_that_does(
    account: None,
    slept: list[float],
    capsys: pytest.CaptureFixture[str],
    block_node_seconds: float | None,
    spent: str,
) -> None:
    """A Capacity Block costs all of its time, as in the controller's ledger."""
    node_group(1)
    state = json.loads(json.dumps(STATE))
    state["deployments"]["llmperf-1"]["block_node_seconds"] = block_node_seconds
    put_state(json.dumps(state).encode())
    assert main(["stop", QWEN, "--wait-minutes", "2"]) == 1
    assert sum(slept) == pytest.approx(120, abs=LOOK_SECONDS)
    said = capsys.readouterr().out
    assert said.count("1 nodes desired") == 1
    assert "ready, since 2026-" in said
    assert f"{spent} USD" in said
    assert "the controller has not acted" in said
    assert f"update-nodegroup-config --region {REGION} --cluster-name {CLUSTER}" in said
    assert f"--nodegroup-name {GROUP}" in said
    assert STOP_KEY in keys()


def test_nodes_that_only_drain_are_not_set_by_hand(
    account: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    node_group(0)
    monkeypatch.setattr("draftworth.account.stop._instances", lambda *_: 1)
    assert main(["stop", QWEN, "--wait-minutes", "0"]) == 1
    said = capsys.readouterr().out
    assert "0 nodes desired, 1 instances exist" in said
    assert "EKS drains them" in said


def test_a_size_that_is_about_to_be_raised_is_waited_for(
    account: None, slept: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    """The decision is noted before the size is set."""
    node_group(0)
    put_state(json.dumps(STATE).encode())
    assert main(["stop", QWEN, "--wait-minutes", "1"]) == 1
    assert slept


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"\xff",
        b'{"last_decision": 3}',
        b'{"current": "a", "deployments": {}}',
        b'{"last_decision": {"desired_size": 0, "reason": "x", "since_unix_s": 1e300}}',
        b'{"last_decision": {"desired_size": [], "reason": "x", "since_unix_s": {}}}',
        b" " * (2**20 + 1),
    ],
)
def test_a_state_that_is_none_hides_no_node(
    account: None, capsys: pytest.CaptureFixture[str], body: bytes
) -> None:
    put_state(body)
    assert main(["stop", QWEN]) == 0
    said = capsys.readouterr().out
    assert "there is no node group" in said
    assert "cannot be read" in said


def test_resume_lets_the_nodes_come_again(
    account: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not_stopped(situation()).status == "pass"
    assert main(["stop", QWEN]) == 0
    told = not_stopped(situation())
    assert told.status == "warn"
    assert "--resume" in told.next_step
    assert main(["stop", QWEN, "--resume"]) == 0
    assert "is deleted" in capsys.readouterr().out
    assert keys() == []
    assert main(["stop", QWEN, "--resume"]) == 0
    assert "was not there" in capsys.readouterr().out


def test_an_experiment_that_is_not_deployed_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    with mock_aws():
        assert main(["stop", QWEN]) == 1
    assert f"could not look up the outputs of the stack {CLUSTER}" in capsys.readouterr().err


@pytest.mark.parametrize("minutes", ["-1", "121", "soon"])
def test_the_wait_is_bounded(minutes: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as done:
        main(["stop", QWEN, "--wait-minutes", minutes])
    assert done.value.code == 2
