"""Zone, quota and Capacity Block."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from moto import mock_aws

from draftworth.account.checks.capacity import capacity_block, vcpu_quota, zone_offering
from draftworth.planning.resolved import ResolvedNeuron
from tests.draftworth.account.stubs import NOW, Answer, experiment, situation

pytestmark = [pytest.mark.emulator]
ZONES = "describe_instance_type_offerings"
BLOCKS = "describe_capacity_reservations"
NOTHING_RUNS = Answer(method="describe_instances", response={"Reservations": []})


def offered(*zones: str) -> Answer:
    kind = "trn2.48xlarge"
    offerings = [{"InstanceType": kind, "Location": zone} for zone in zones]
    return Answer(method=ZONES, response={"InstanceTypeOfferings": offerings})


def quota(vcpus: float) -> Answer:
    return Answer(method="get_service_quota", response={"Quota": {"Value": vcpus}})


def instances(*each: dict[str, Any]) -> Answer:
    response = {"Reservations": [{"Instances": list(each)}]}
    return Answer(method="describe_instances", response=response)


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
    return experiment("llama-3.1-8b-eagle3", deadline_minutes=120)


def block(**changes: Any) -> Answer:
    """The Capacity Block of the shipped experiment, as it should be."""
    facts = {
        "ReservationType": "capacity-block",
        "State": "active",
        "InstanceType": "trn2.48xlarge",
        "AvailabilityZone": "us-east-2b",
        "TotalInstanceCount": 1,
        "AvailableInstanceCount": 1,
        "StartDate": NOW - timedelta(hours=1),
        "EndDate": NOW + timedelta(hours=23),
    }
    return Answer(method=BLOCKS, response={"CapacityReservations": [facts | changes]})


def test_a_zone_that_offers_the_type_passes() -> None:
    with mock_aws():
        outcome = zone_offering(situation())
    assert outcome.status == "pass"
    assert "us-east-2c" in outcome.found


def test_a_zone_without_the_type_fails_with_the_zones_that_have_it() -> None:
    outcome = zone_offering(situation(ec2=[offered("us-east-2a", "us-east-2b")]))
    assert outcome.status == "fail"
    assert "aws.availability_zone to us-east-2a or us-east-2b" in outcome.next_step


def test_a_region_without_the_type_fails_with_the_command_that_finds_another() -> None:
    outcome = zone_offering(situation(ec2=[offered()]))
    assert outcome.status == "fail"
    assert "--find" in outcome.next_step


@pytest.mark.parametrize(("kind", "code"), [("spot", "L-6B0D517C"), ("on_demand", "L-2C3B7624")])
def test_the_quota_is_that_of_the_capacity_type(kind: str, code: str) -> None:
    given = situation(
        experiment(capacity={"kind": kind}), service_quotas=[quota(192.0)], ec2=[NOTHING_RUNS]
    )
    outcome = vcpu_quota(given)
    assert outcome.status == "pass"
    assert code in outcome.found
    assert "192 vCPU, 0 in use, 192 needed" in outcome.found


def test_a_quota_below_the_plan_fails_with_the_request_for_more() -> None:
    outcome = vcpu_quota(situation(service_quotas=[quota(0.0)]))
    assert outcome.status == "fail"
    assert "--quota-code L-6B0D517C --desired-value 192" in outcome.next_step


def test_what_others_use_of_the_quota_is_not_left_for_the_plan() -> None:
    given = situation(service_quotas=[quota(256.0)], ec2=[instances(trn(lifecycle="spot"))])
    outcome = vcpu_quota(given)
    assert outcome.status == "fail"
    assert "256 vCPU, 192 in use, 192 needed" in outcome.found
    assert "--desired-value 384" in outcome.next_step


@pytest.mark.parametrize("running", [trn(), trn(lifecycle="spot", own=True)])
def test_other_quotas_and_the_experiments_own_nodes_do_not_count(running: dict[str, Any]) -> None:
    outcome = vcpu_quota(situation(service_quotas=[quota(192.0)], ec2=[instances(running)]))
    assert outcome.status == "pass"


def test_an_account_without_a_value_of_its_own_has_awss_default() -> None:
    none = Answer(method="get_service_quota", error="NoSuchResourceException")
    default = Answer(method="get_aws_default_service_quota", response={"Quota": {"Value": 0.0}})
    outcome = vcpu_quota(situation(service_quotas=[none, default]))
    assert outcome.status == "fail"
    assert "0 vCPU, 192 needed" in outcome.found


def test_usage_that_may_not_be_seen_is_a_warning() -> None:
    denied = Answer(method="describe_instances", error="UnauthorizedOperation")
    outcome = vcpu_quota(situation(service_quotas=[quota(192.0)], ec2=[denied]))
    assert outcome.status == "warn"
    assert "in use cannot be told" in outcome.found


def test_a_capacity_block_needs_no_quota() -> None:
    assert vcpu_quota(situation(with_block())).status == "pass"


def test_without_a_capacity_block_there_is_none_to_check() -> None:
    assert capacity_block(situation()).status == "skip"


def test_a_capacity_block_that_fits_passes_with_the_minutes_it_gives() -> None:
    outcome = capacity_block(situation(with_block(), ec2=[block()]))
    assert outcome.status == "pass"
    assert "120 minutes of nodes" in outcome.found


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"ReservationType": "default"}, "not a Capacity Block"),
        ({"State": "expired"}, "it is expired"),
        ({"State": "payment-failed"}, "it is payment-failed"),
        ({"InstanceType": "p5.48xlarge"}, "it holds p5.48xlarge"),
        ({"AvailabilityZone": "us-east-2a"}, "it is in us-east-2a"),
        ({"TotalInstanceCount": 0}, "it holds 0 instances, the plan needs 1"),
        ({"EndDate": NOW + timedelta(minutes=39)}, "which is past"),
        (
            {"State": "scheduled", "StartDate": NOW + timedelta(hours=2)},
            "before the block starts",
        ),
    ],
)
def test_a_capacity_block_that_cannot_serve_fails(changes: dict[str, Any], found: str) -> None:
    given = situation(with_block(), ec2=[block(**changes)])
    outcome = capacity_block(given)
    assert outcome.status == "fail"
    assert found in outcome.found
    assert outcome.next_step


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"State": "payment-pending"}, "payment-pending"),
        ({"AvailableInstanceCount": 0}, "0 of 1 instances are free"),
        ({"EndDate": NOW + timedelta(minutes=100)}, "60 minutes of nodes"),
    ],
)
def test_a_capacity_block_that_may_do_warns(changes: dict[str, Any], found: str) -> None:
    given = situation(with_block(), ec2=[block(**changes)])
    outcome = capacity_block(given)
    assert outcome.status == "warn"
    assert found in outcome.found


def test_a_block_that_starts_within_the_deadline_passes_with_what_is_left_of_it() -> None:
    later = block(State="scheduled", StartDate=NOW + timedelta(minutes=30))
    outcome = capacity_block(situation(with_block(), ec2=[later]))
    assert outcome.status == "pass"
    assert "90 minutes of nodes" in outcome.found


@pytest.mark.parametrize(
    "answer",
    [
        Answer(method=BLOCKS, error="InvalidCapacityReservationId.NotFound"),
        Answer(method=BLOCKS, response={"CapacityReservations": []}),
    ],
)
def test_a_reservation_that_does_not_exist_fails(answer: Answer) -> None:
    outcome = capacity_block(situation(with_block(), ec2=[answer]))
    assert outcome.status == "fail"
    assert "cr-0123456789abcdef0" in outcome.found
