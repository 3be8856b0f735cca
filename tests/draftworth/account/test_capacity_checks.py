"""Zone, quota and Capacity Block."""

from datetime import timedelta
from typing import Any

import pytest

from draftworth.account.checks.capacity import capacity_block, vcpu_quota, zone_offering
from draftworth.planning.resolved import ResolvedNeuron
from tests.draftworth.account import stubs

pytestmark = [pytest.mark.emulator]


def trn(*, lifecycle: str = "", own: bool = False) -> dict[str, Any]:
    """A running node of 192 vCPUs."""
    made: dict[str, Any] = {
        "InstanceType": "trn2.48xlarge",
        "CpuOptions": {"CoreCount": 96, "ThreadsPerCore": 2},
    }
    if lifecycle:
        made["InstanceLifecycle"] = lifecycle
    if own:
        made["Tags"] = [{"Key": "draftworth:experiment", "Value": "qwen3-32b"}]
    return made


def with_block() -> ResolvedNeuron:
    return stubs.experiment("llama-3.1-8b-eagle3", deadline_minutes=120)


def block(**changes: Any) -> stubs.Answer:
    """The Capacity Block of the shipped experiment, as it should be."""
    facts = {
        "ReservationType": "capacity-block",
        "State": "active",
        "InstanceType": "trn2.48xlarge",
        "AvailabilityZone": "us-east-2b",
        "TotalInstanceCount": 1,
        "AvailableInstanceCount": 1,
        "StartDate": stubs.NOW - timedelta(hours=1),
        "EndDate": stubs.NOW + timedelta(hours=23),
    }
    return stubs.Answer(
        method=stubs.RESERVATIONS, response={"CapacityReservations": [facts | changes]}
    )


@pytest.mark.parametrize(
    ("zones", "status", "next_step"),
    [
        (["us-east-2c"], "pass", ""),
        (["us-east-2a", "us-east-2b"], "fail", "aws.availability_zone to us-east-2a or us-east-2b"),
        ([], "fail", "--find"),
    ],
)
def test_a_zone_without_the_type_fails_with_where_to_look(
    zones: list[str], status: str, next_step: str
) -> None:
    result = zone_offering(stubs.situation(ec2=[stubs.offered(*zones)]))
    assert result.status == status
    assert next_step in result.next_step


@pytest.mark.parametrize(("kind", "code"), [("spot", "L-6B0D517C"), ("on_demand", "L-2C3B7624")])
def test_the_quota_is_that_of_the_capacity_type(kind: str, code: str) -> None:
    given = stubs.situation(
        stubs.experiment(capacity={"kind": kind}),
        service_quotas=[stubs.quota(192.0)],
        ec2=[stubs.instances()],
    )
    result = vcpu_quota(given)
    assert result.status == "pass"
    assert code in result.found
    assert "192 vCPU, 0 in use, 192 needed" in result.found


def test_a_quota_below_the_plan_fails_with_the_request_for_more() -> None:
    result = vcpu_quota(stubs.situation(service_quotas=[stubs.quota(0.0)]))
    assert result.status == "fail"
    assert "--quota-code L-6B0D517C --desired-value 192" in result.next_step


@pytest.mark.parametrize(
    ("running", "used"),
    [
        (trn(lifecycle="spot"), 192),
        # Another quota, and the experiment's own node, which the deploy replaces.
        (trn(), 0),
        (trn(lifecycle="spot", own=True), 0),
    ],
)
def test_only_what_others_use_of_the_quota_counts(running: dict[str, Any], used: int) -> None:
    result = vcpu_quota(
        stubs.situation(service_quotas=[stubs.quota(256.0)], ec2=[stubs.instances(running)])
    )
    assert result.status == ("fail" if used else "pass")
    assert f"256 vCPU, {used} in use, 192 needed" in result.found
    assert ("--desired-value 384" in result.next_step) is bool(used)


def test_an_account_without_a_value_of_its_own_has_awss_default() -> None:
    none = stubs.Answer(method="get_service_quota", error="NoSuchResourceException")
    default = stubs.Answer(
        method="get_aws_default_service_quota", response={"Quota": {"Value": 0.0}}
    )
    result = vcpu_quota(stubs.situation(service_quotas=[none, default]))
    assert result.status == "fail"
    assert "0 vCPU, 192 needed" in result.found


def test_usage_that_may_not_be_seen_is_a_warning() -> None:
    denied = stubs.Answer(method="describe_instances", error=stubs.DENIED)
    result = vcpu_quota(stubs.situation(service_quotas=[stubs.quota(192.0)], ec2=[denied]))
    assert result.status == "warn"
    assert "how many are in use is unknown" in result.found


def test_a_capacity_block_needs_no_quota_and_only_an_experiment_with_one_is_checked() -> None:
    assert vcpu_quota(stubs.situation(with_block())).status == "pass"
    assert capacity_block(stubs.situation()).status == "skip"


@pytest.mark.parametrize(
    ("changes", "minutes"),
    [
        ({}, 120),
        # A block that starts within the deadline gives what is left of it.
        ({"State": "scheduled", "StartDate": stubs.NOW + timedelta(minutes=30)}, 90),
    ],
)
def test_a_capacity_block_that_fits_passes_with_the_minutes_it_gives(
    changes: dict[str, Any], minutes: int
) -> None:
    result = capacity_block(stubs.situation(with_block(), ec2=[block(**changes)]))
    assert result.status == "pass"
    assert f"{minutes} minutes of nodes" in result.found


@pytest.mark.parametrize(
    ("status", "changes", "found"),
    [
        ("warn", {"State": "payment-pending"}, "payment-pending"),
        ("warn", {"AvailableInstanceCount": 0}, "0 of 1 instances are free"),
        ("warn", {"EndDate": stubs.NOW + timedelta(minutes=100)}, "60 minutes of nodes"),
        ("fail", {"ReservationType": "default"}, "not a Capacity Block"),
        ("fail", {"State": "expired"}, "it is expired"),
        ("fail", {"State": "payment-failed"}, "it is payment-failed"),
        ("fail", {"InstanceType": "p5.48xlarge"}, "it holds p5.48xlarge"),
        ("fail", {"AvailabilityZone": "us-east-2a"}, "it is in us-east-2a"),
        ("fail", {"TotalInstanceCount": 0}, "it holds 0 instances, the plan needs 1"),
        ("fail", {"EndDate": stubs.NOW + timedelta(minutes=39)}, "which is past"),
        (
            "fail",
            {"State": "scheduled", "StartDate": stubs.NOW + timedelta(hours=2)},
            "before the block starts",
        ),
    ],
)
def test_a_capacity_block_that_does_not_fit_warns_or_fails(
    status: str, changes: dict[str, Any], found: str
) -> None:
    result = capacity_block(stubs.situation(with_block(), ec2=[block(**changes)]))
    assert result.status == status
    assert found in result.found
    assert result.next_step


def test_a_reservation_that_does_not_exist_fails() -> None:
    none = stubs.Answer(method=stubs.RESERVATIONS, response={"CapacityReservations": []})
    code = "InvalidCapacityReservationId.NotFound"
    for answer in (none, stubs.Answer(method=stubs.RESERVATIONS, error=code)):
        result = capacity_block(stubs.situation(with_block(), ec2=[answer]))
        assert result.status == "fail"
        assert "cr-0123456789abcdef0" in result.found
