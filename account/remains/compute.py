"""What computes: cluster, nodes, their disks, scaling groups, reservations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from botocore.exceptions import ClientError

from account.prices import CONTROL_PLANE, HOURS_A_MONTH, monthly_usd, standing_usd
from account.remains.scope import Finder, Remnant, Scope, name_tag, pages, tag_list
from draftworth.experiment.model import CapacityBlock
from draftworth.experiment.naming import EXPERIMENT_TAG

_GONE = ("terminated", "shutting-down")
_BOUGHT_STATES = ("active", "scheduled", "payment-pending", "pending", "assessing", "delayed")


def clusters(scope: Scope) -> Iterator[Remnant]:
    """The EKS cluster and its node groups, by name."""
    eks, name = scope.client("eks"), scope.names.cluster
    try:
        facts = eks.describe_cluster(name=name)["cluster"]
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") != "ResourceNotFoundException":
            raise
        return
    for group in pages(eks, "list_nodegroups", "nodegroups", clusterName=name):
        yield Remnant(
            kind="node group",
            id=group,
            remove=scope.command(
                f"eks delete-nodegroup --cluster-name {name} --nodegroup-name {group}"
            ),
        )
    yield Remnant(
        kind="EKS cluster",
        id=name,
        created=facts.get("createdAt"),
        usd_per_month=standing_usd(CONTROL_PLANE),
        remove=scope.command(f"eks delete-cluster --name {name}"),
    )


def instances(scope: Scope) -> Iterator[Remnant]:
    """Nodes: by the experiment's tag and by the cluster's."""
    found = _by_tag_or_cluster(scope, "describe_instances", "Reservations")
    for instance in (i for reservation in found for i in reservation["Instances"]):
        if instance["State"]["Name"] in _GONE:
            continue
        yield Remnant(
            kind=f"instance {instance['InstanceType']}",
            id=instance["InstanceId"],
            name=name_tag(instance),
            created=instance.get("LaunchTime"),
            usd_per_month=_instance_usd(scope, instance["InstanceType"]),
            remove=scope.command(
                f"ec2 terminate-instances --instance-ids {instance['InstanceId']}"
            ),
        )


def _instance_usd(scope: Scope, kind: str) -> float | None:
    if kind == scope.experiment.spec.instance_type:
        return scope.experiment.spec.aws.price.usd_per_hour * HOURS_A_MONTH
    return standing_usd(kind)


def volumes(scope: Scope) -> Iterator[Remnant]:
    """Disks of nodes: one that is in use goes with its instance."""
    for volume in _by_tag_or_cluster(scope, "describe_volumes", "Volumes"):
        yield Remnant(
            kind="volume",
            id=volume["VolumeId"],
            name=name_tag(volume),
            created=volume.get("CreateTime"),
            usd_per_month=monthly_usd("volume_gib", amount=volume["Size"]),
            remove=scope.command(f"ec2 delete-volume --volume-id {volume['VolumeId']}"),
        )


def _by_tag_or_cluster(scope: Scope, operation: str, key: str) -> Iterable[Mapping[str, Any]]:
    """EC2's things with either tag, each once."""
    owned = {"Name": "tag-key", "Values": [f"kubernetes.io/cluster/{scope.names.cluster}"]}
    ec2 = scope.client("ec2")
    found = [e for f in (scope.tag_filter, owned) for e in pages(ec2, operation, key, Filters=[f])]
    return {_identity(entry): entry for entry in found}.values()


def _identity(entry: Mapping[str, Any]) -> str:
    return str(next(entry[key] for key in ("ReservationId", "VolumeId") if key in entry))


def scaling_groups(scope: Scope) -> Iterator[Remnant]:
    """Auto Scaling groups behind node groups: one that stays would start nodes again."""
    asked = {"Name": "tag:eks:cluster-name", "Values": [scope.names.cluster]}
    autoscaling = scope.client("autoscaling")
    for group in pages(
        autoscaling, "describe_auto_scaling_groups", "AutoScalingGroups", Filters=[asked]
    ):
        name = group["AutoScalingGroupName"]
        yield Remnant(
            kind="Auto Scaling group",
            id=name,
            created=group.get("CreatedTime"),
            remove=scope.command(
                f"autoscaling delete-auto-scaling-group --force-delete "
                f"--auto-scaling-group-name {name}"
            ),
        )


def reservations(scope: Scope) -> Iterator[Remnant]:
    """Capacity reservations: the experiment's own block, and what carries its tag."""
    for reservation in _reservations(scope):
        if reservation["State"] not in _BOUGHT_STATES:
            continue
        yield Remnant(
            kind="capacity reservation",
            id=reservation["CapacityReservationId"],
            created=reservation.get("CreateDate"),
            usd_per_month=_reservation_usd(scope, reservation),
            kept=_reservation_kept(reservation),
            remove=scope.command(
                "ec2 cancel-capacity-reservation --capacity-reservation-id "
                f"{reservation['CapacityReservationId']}"
            ),
        )


def _reservations(scope: Scope) -> Iterable[Mapping[str, Any]]:
    """Listed as a whole: asking for an id that has expired long ago would be an error."""
    capacity = scope.experiment.spec.aws.capacity
    named = capacity.reservation_id if isinstance(capacity, CapacityBlock) else None
    listed = pages(scope.client("ec2"), "describe_capacity_reservations", "CapacityReservations")
    for entry in listed:
        tagged = tag_list(entry.get("Tags", [])).get(EXPERIMENT_TAG) == scope.experiment.name
        if tagged or entry["CapacityReservationId"] == named:
            yield entry


def _is_block(reservation: Mapping[str, Any]) -> bool:
    return reservation.get("ReservationType") == "capacity-block"


def _reservation_usd(scope: Scope, reservation: Mapping[str, Any]) -> float | None:
    """A Capacity Block is paid in advance; another reservation costs what its instances would."""
    if _is_block(reservation):
        return 0.0
    usd = _instance_usd(scope, reservation["InstanceType"])
    return None if usd is None else usd * int(reservation["TotalInstanceCount"])


def _reservation_kept(reservation: Mapping[str, Any]) -> str:
    if not _is_block(reservation):
        return ""
    end = reservation.get("EndDate")
    until = f", ends {end:%Y-%m-%d %H:%M} UTC" if end else ""
    return f"bought and paid in advance{until}; cannot be cancelled"


FINDERS = (
    Finder(looks_at="the EKS cluster", find=clusters, covers=("eks:cluster", "eks:nodegroup")),
    Finder(looks_at="instances", find=instances, covers=("ec2:instance",)),
    Finder(looks_at="volumes", find=volumes, covers=("ec2:volume",)),
    Finder(
        looks_at="Auto Scaling groups",
        find=scaling_groups,
        covers=("autoscaling:autoScalingGroup",),
    ),
    Finder(
        looks_at="capacity reservations",
        find=reservations,
        covers=("ec2:capacity-reservation",),
    ),
)
