"""`draftworth stop`: the capacity controller takes the accelerator nodes to zero.

Puts `control/stop` into the results bucket, then watches until no instance is left. The object
stays, and with it the nodes stay away, also after another deploy; `--resume` deletes it. Exit code
0: the nodes are gone (or may come again); 1: they are still there after `--wait-minutes`, or AWS
refused; 2: the experiment file is wrong.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from draftworth.account.clients import client, explained, or_none
from draftworth.account.printing import print_lines, utc_text
from draftworth.account.scope import bucket_of
from draftworth.errors import DraftworthError
from draftworth.experiment.naming import RESULTS_OUTPUT
from draftworth.planning.resolved import ResolvedNeuron, load_neuron
from draftworth.records.codec import load_object
from draftworth.records.deployment import (
    HEARTBEAT_MINUTES,
    STATE_KEY,
    STOP_KEY,
    size_command,
    spent_usd,
)
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


# The object calls the controller; a node drains for a quarter of an hour at most.
DEFAULT_WAIT_MINUTES = 30
MOST_WAIT_MINUTES = 120
LOOK_SECONDS = 15.0


@dataclass(frozen=True, kw_only=True)
class Control:
    """Where an experiment's nodes are stopped and looked at."""

    experiment: ResolvedNeuron
    bucket: str

    @property
    def region(self) -> str:
        """The experiment's region."""
        return self.experiment.spec.aws.region

    @property
    def stop_object(self) -> dict[str, str]:
        """The object that keeps the nodes at zero."""
        return {"Bucket": self.bucket, "Key": STOP_KEY}

    @property
    def stop_url(self) -> str:
        """The same, for people."""
        return f"s3://{self.bucket}/{STOP_KEY}"

    def look(self) -> tuple[Nodes, Told]:
        """The nodes, and what the controller has noted."""
        return nodes_of(self.experiment), told_by_controller(self.region, self.bucket)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The experiment file; the other direction; the patience."""
    parser.add_argument("experiment", type=Path, help="experiment file, YAML")
    parser.add_argument(
        "--resume", action="store_true", help="let the nodes come again, where there is work"
    )
    parser.add_argument(
        "--wait-minutes",
        type=_minutes,
        default=DEFAULT_WAIT_MINUTES,
        help=f"0 to {MOST_WAIT_MINUTES}, for the nodes to go (default: %(default)s)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Stop and watch, or let go."""
    experiment = load_neuron(arguments.experiment)
    control = Control(experiment=experiment, bucket=bucket_of(experiment, RESULTS_OUTPUT))
    if arguments.resume:
        return _resume(control)
    text = f"draftworth stop, {utc_text(datetime.now(UTC))}\n"
    with explained(f"write {control.stop_url}", region=control.region):
        client("s3", control.region).put_object(**control.stop_object, Body=text.encode())
    print_lines([f"{control.stop_url} is written, which calls the controller"])
    return _watch(control, seconds=arguments.wait_minutes * 60)


def _minutes(text: str) -> int:
    minutes = int(text)
    if not 0 <= minutes <= MOST_WAIT_MINUTES:
        raise argparse.ArgumentTypeError(f"given {minutes}, allowed: 0 to {MOST_WAIT_MINUTES}")
    return minutes


def _resume(control: Control) -> int:
    s3 = client("s3", control.region)
    with explained(f"delete {control.stop_url}", region=control.region):
        was_there = or_none(s3.head_object, "404", "NoSuchKey", **control.stop_object)
        s3.delete_object(**control.stop_object)
    print_lines(
        [
            f"{control.stop_url} {'is deleted' if was_there else 'was not there'}",
            f"the controller looks within {HEARTBEAT_MINUTES} minutes: nodes come if there is work",
            *told_by_controller(control.region, control.bucket).lines(),
        ]
    )
    return 0


def _watch(control: Control, *, seconds: float) -> int:
    ends, before = time.monotonic() + seconds, ""
    while True:
        nodes, told = control.look()
        if (line := nodes.line()) != before:
            print_lines([f"{utc_text(datetime.now(UTC))}  {line}"])
            before = line
        if nodes.gone and not told.desired:
            print_lines(_gone(told))
            return 0
        if time.monotonic() >= ends:
            print_lines(_still_there(control, nodes, told))
            return 1
        time.sleep(LOOK_SECONDS)


def _gone(told: Told) -> Iterator[str]:
    yield "no accelerator node is left"
    yield from told.lines()
    yield "they stay away, also after a deploy; `make stop ARGS=--resume` lets them come again"


def _still_there(control: Control, nodes: Nodes, told: Told) -> Iterator[str]:
    """By hand, where the controller does not act; where it did, EKS is at work."""
    yield from told.lines()
    if nodes.desired == 0:
        yield "next: nothing; EKS drains them. `make stop` again shows whether they are gone"
        return
    yield "the controller has not acted; next: its log (the output DecisionsCommand), and by hand:"
    names = control.experiment.names
    group = names.node_group(control.experiment.spec.aws.capacity.kind)
    yield size_command(region=control.region, cluster=names.cluster, nodegroup=group, size=0)
