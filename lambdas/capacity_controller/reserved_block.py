"""Observes in EC2 the Capacity Block that a plan names by its reservation id."""

from dataclasses import dataclass

from botocore.exceptions import ClientError

from draftworth.records.deployment import CapacityPlan
from lambdas.capacity_controller.aws_clients import Clients
from lambdas.s3_document import error_code

_NO_BLOCK = {"InvalidCapacityReservationId.NotFound", "InvalidCapacityReservationId.Malformed"}


@dataclass(frozen=True, kw_only=True)
class CapacityBlock:
    """A Capacity Block: its state in EC2's words, its number of instances, its start and end."""

    state: str
    instances: int
    starts_at_unix_s: float
    ends_at_unix_s: float


@dataclass(frozen=True, kw_only=True)
class NoCapacityBlock:
    """EC2 has no Capacity Block with the plan's reservation id; `why` is a sentence about it."""

    why: str


def block_of(clients: Clients, plan: CapacityPlan) -> CapacityBlock | NoCapacityBlock:
    """Return the plan's Capacity Block; raise boto3's error if EC2 cannot be asked."""
    try:
        reservations = clients.ec2.describe_capacity_reservations(
            CapacityReservationIds=[plan.reservation_id]
        )["CapacityReservations"]
    except ClientError as error:
        if error_code(error) not in _NO_BLOCK:
            raise
        why = f"there is no Capacity Block {plan.reservation_id}: {error}"
        return NoCapacityBlock(why=why)
    reservation = reservations[0] if reservations else {}
    if "StartDate" not in reservation or "EndDate" not in reservation:
        why = f"there is no Capacity Block {plan.reservation_id}, with a start and an end"
        return NoCapacityBlock(why=why)
    return CapacityBlock(
        state=reservation["State"],
        instances=reservation.get("TotalInstanceCount", plan.nodes),
        starts_at_unix_s=reservation["StartDate"].timestamp(),
        ends_at_unix_s=reservation["EndDate"].timestamp(),
    )
