"""`draftworth stop` where no controller acts; both together are in `tests/end_to_end`."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import boto3
import pytest
from moto import mock_aws

from draftworth.account import clients, stop
from draftworth.account.checks.deploy_prerequisites import not_stopped
from draftworth.account.clients import client as client_of
from draftworth.records import controller_state
from draftworth.records.codec import dump_record
from draftworth.records.deployment import STATE_KEY, STOP_KEY
from tests.draftworth.account.stubs import QWEN, experiment, situation
from tests.draftworth.conftest import Ran
from tests.draftworth.records.write_golden import GOLDEN, VERSIONS
from tests.lambdas.capacity_controller import plans

pytestmark = pytest.mark.emulator
REGION, BUCKET, CLUSTER = "us-east-2", "the-results", "draftworth-qwen3-32b"
GROUP = "draftworth-qwen3-32b-accelerator-spot"
TEMPLATE = {
    "Resources": {"Queue": {"Type": "AWS::SQS::Queue"}},
    "Outputs": {"ResultsLocation": {"Value": f"s3://{BUCKET}/runs/"}},
}
STATE = controller_state.State(
    current=plans.JOB,
    last_decision=controller_state.LastDecision(
        job_name=plans.JOB, desired_size=1, reason="ready", since_unix_s=1_790_000_000.0
    ),
    deployments={
        plans.JOB: plans.make_deployment(
            plans.make_plan(price_usd_per_node_hour=8.60),
            node_time=controller_state.NodeTime(
                node_seconds=1800.0, instances=1, observed_at_unix_s=plans.NOW
            ),
        )
    },
)
READABLE = dump_record(STATE)


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
def test_an_idle_controller_is_replaced_by_printed_commands(
    account: None, slept: list[float], ran: Ran, block_node_seconds: float | None, spent: str
) -> None:
    """A Capacity Block costs all of its time, as in the controller's ledger."""
    node_group(1)
    deployment = replace(STATE.deployments[plans.JOB], block_node_seconds=block_node_seconds)
    put_state(dump_record(replace(STATE, deployments={plans.JOB: deployment})))
    output = ran("stop", QWEN, "--wait-minutes", "2", code=1)
    assert sum(slept) == pytest.approx(120, abs=stop.LOOK_SECONDS)
    assert output.count("1 desired node") == 1
    assert "ready, since 2026-" in output
    assert f"{spent} USD" in output
    assert "the controller has not acted" in output
    assert f"update-nodegroup-config --region {REGION} --cluster-name {CLUSTER}" in output
    assert f"--nodegroup-name {GROUP}" in output
    assert STOP_KEY in keys()


def test_nodes_that_only_drain_get_no_command(
    account: None, monkeypatch: pytest.MonkeyPatch, ran: Ran
) -> None:
    node_group(0)
    monkeypatch.setattr("draftworth.account.stop._instances", lambda *_: 1)
    output = ran("stop", QWEN, "--wait-minutes", "0", code=1)
    assert "0 desired nodes, 1 existing instance" in output
    assert "EKS drains them" in output


def test_it_waits_for_a_size_about_to_rise(account: None, slept: list[float], ran: Ran) -> None:
    """The decision is noted before the size is set."""
    node_group(0)
    put_state(READABLE)
    ran("stop", QWEN, "--wait-minutes", "1", code=1)
    assert slept


@pytest.fixture
def deployed(account: None) -> stop.Deployment:
    region = clients.Region(name=REGION, clients=client_of)
    return stop.Deployment(experiment=experiment(), bucket=BUCKET, region=region)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_state_of_an_earlier_version_is_read(version: str, deployed: stop.Deployment) -> None:
    put_state((GOLDEN / version / "capacity-state.json").read_bytes())
    notes = deployed.notes()
    assert notes.desired == 1
    assert notes.lines == (
        "the controller's last decision: 1 node, ready, since 2026-11-20 10:00 UTC",
        "spent: 0.00 USD by the controller's ledger, which is not a bill",
    )


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"\xff",
        b" " * (2**20 + 1),
        READABLE.replace(b"capacity-state/5", b"capacity-state/6"),
        READABLE.replace(b'"current":"llmperf', b'"current":"another'),
        READABLE.replace(b'"node_seconds":1800.0', b'"node_seconds":-1800.0'),
        READABLE.replace(b'"desired_size":1', b'"desired_size":-1'),
        READABLE.replace(b'"desired_size":1', b'"desired_size":[]'),
        READABLE.replace(b"1790000000.0", b"1e300"),
    ],
)
def test_an_unreadable_state_hides_no_node(
    body: bytes, deployed: stop.Deployment, ran: Ran
) -> None:
    assert body != READABLE
    put_state(body)
    (line,) = deployed.notes().lines
    assert line.endswith("cannot be read")
    output = ran("stop", QWEN)
    assert "there is no node group" in output
    assert "cannot be read" in output


def test_resume_lets_the_nodes_come_again(account: None, ran: Ran) -> None:
    assert not_stopped(situation()).status == "pass"
    ran("stop", QWEN)
    check_result = not_stopped(situation())
    assert check_result.status == "warn"
    assert "--resume" in check_result.next_step
    assert "is deleted" in ran("stop", QWEN, "--resume")
    assert keys() == []
    assert "was not there" in ran("stop", QWEN, "--resume")


def test_an_experiment_that_is_not_deployed_says_so(ran: Ran) -> None:
    with mock_aws():
        output = ran("stop", QWEN, code=1)
    assert f"could not look up the outputs of the stack {CLUSTER}" in output


@pytest.mark.parametrize("minutes", ["-1", "121", "soon"])
def test_the_wait_is_bounded(minutes: str, ran: Ran) -> None:
    output = ran("stop", QWEN, "--wait-minutes", minutes, code=2)
    assert f"--wait-minutes: given '{minutes}', allowed: a whole number, 0 to 120" in output
