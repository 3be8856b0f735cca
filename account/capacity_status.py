"""The accelerator nodes as AWS shows them, and as the capacity controller has noted them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from account.clients import client, explained, or_none
from account.terminal import utc_text
from draftworth.errors import DraftworthError
from draftworth.planning.resolved import ResolvedNeuron
from draftworth.records.codec import load_object
from draftworth.records.deployment import STATE_KEY, spent_usd
from draftworth.untrusted import one_line, read_at_most


@dataclass(frozen=True, kw_only=True)
class Nodes:
    """desired: nodes that are asked for, None without a node group. instances: that exist."""

    desired: int | None
    instances: int

    @property
    def gone(self) -> bool:
        """None exists, and none is asked for."""
        return not self.desired and not self.instances

    def line(self) -> str:
        """One line for people."""
        if self.desired is None:
            return f"there is no node group, and {self.instances} instances of it"
        return f"{self.desired} nodes desired, {self.instances} instances exist"


@dataclass(frozen=True, kw_only=True)
class Told:
    """What `control/capacity.json` says: the last decision, and what the nodes have cost.

    decision: empty where there is none; desired: nodes that it asks for, which is noted before
    anything is done about it. spent_usd: by the controller's ledger, no bill.
    """

    decision: str = ""
    desired: int = 0
    spent_usd: float | None = None

    def lines(self) -> Iterator[str]:
        """What there is to say."""
        if self.decision:
            yield f"the controller's last decision: {self.decision}"
        if self.spent_usd is not None:
            yield f"spent: {self.spent_usd:.2f} USD by the controller's ledger, which is no bill"


def nodes_of(experiment: ResolvedNeuron) -> Nodes:
    """Of the node group and of the Auto Scaling groups behind it."""
    region, names = experiment.spec.aws.region, experiment.names
    name = names.node_group(experiment.spec.aws.capacity.kind)
    asked = {"clusterName": names.cluster, "nodegroupName": name}
    with explained(f"look at the node group {name}", region=region):
        describe = client("eks", region).describe_nodegroup
        answer = or_none(describe, "ResourceNotFoundException", **asked)
    if answer is None:
        return Nodes(desired=None, instances=0)
    group = answer["nodegroup"]
    scaling = [found["name"] for found in group.get("resources", {}).get("autoScalingGroups", [])]
    desired = int(group["scalingConfig"]["desiredSize"])
    return Nodes(desired=desired, instances=_instances(region, scaling))


def _instances(region: str, scaling_groups: list[str]) -> int:
    if not scaling_groups:  # asked for none, the call would give all
        return 0
    with explained("look at the Auto Scaling group", region=region):
        describe = client("autoscaling", region).describe_auto_scaling_groups
        answer = describe(AutoScalingGroupNames=scaling_groups)
    return sum(len(group["Instances"]) for group in answer["AutoScalingGroups"])


def told_by_controller(region: str, bucket: str) -> Told:
    """Nothing where the object is not there or is not the controller's: AWS itself is asked too."""
    with explained(f"read s3://{bucket}/{STATE_KEY}", region=region):
        get = client("s3", region).get_object
        answer = or_none(get, "NoSuchKey", "404", Bucket=bucket, Key=STATE_KEY)
    try:
        return _told(load_object(read_at_most(answer["Body"]))) if answer else Told()
    except (DraftworthError, LookupError, TypeError, ValueError, OverflowError):
        return Told(decision=f"s3://{bucket}/{STATE_KEY} cannot be read")


def _told(state: Mapping[str, Any]) -> Told:
    said, current = state.get("last_decision"), state.get("current")
    decision, desired = "", 0
    if said:
        since = utc_text(datetime.fromtimestamp(float(said["since_unix_s"]), UTC))
        desired = int(said["desired_size"] or 0)
        size = "as it is" if said["desired_size"] is None else f"{desired} nodes"
        decision = f"{size}, {one_line(str(said['reason']))}, since {since}"
    if current is None:
        return Told(decision=decision, desired=desired)
    deployment = state["deployments"][current]
    block = deployment["block_node_seconds"]
    spent = spent_usd(
        float(deployment["plan"]["price_usd_per_node_hour"]),
        node_seconds=float(deployment["node_time"]["node_seconds"]),
        block_node_seconds=None if block is None else float(block),
    )
    return Told(decision=decision, desired=desired, spent_usd=spent)
