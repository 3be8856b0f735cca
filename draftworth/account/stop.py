"""`draftworth stop` makes the capacity controller scale the accelerator nodes to zero.

The command writes the object `control/stop` into the results bucket and waits until no instance is
left. While the object exists no node starts, also after another deploy; `--resume` deletes it. Exit
code 1: instances still exist after `--wait-minutes`, or a call to AWS failed.
"""

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from draftworth import errors, untrusted
from draftworth.account import clients, printing, scope
from draftworth.experiment.naming import RESULTS_OUTPUT
from draftworth.planning.resolved import ResolvedNeuron, load_neuron
from draftworth.records import controller_state, deployment
from draftworth.records.codec import RecordError, load_record

_LAST_DECISION = "the controller's last decision"
_THEY_STAY_AWAY = (
    "they stay away, also after a deploy; `make stop ARGS=--resume` lets them come again"
)


@dataclass(frozen=True, kw_only=True)
class Nodes:
    """How many accelerator nodes are desired and how many exist.

    desired: the node group's desired size; None: there is no node group.
    """

    desired: int | None
    instances: int

    @property
    def gone(self) -> bool:
        return not self.desired and not self.instances

    def line(self) -> str:
        if self.desired is None:
            return "there is no node group"
        exist = errors.counted(self.instances, "existing instance")
        return f"{errors.counted(self.desired, 'desired node')}, {exist}"


@dataclass(frozen=True, kw_only=True)
class ControllerNotes:
    """The capacity controller's last decision and what was spent, for a person to read.

    desired: the number of nodes that the controller decided; 0 if it left the number unchanged.
    lines: the last decision and the spending, as lines to print.
    """

    desired: int = 0
    lines: tuple[str, ...] = ()


def _notes_of(state: controller_state.State) -> ControllerNotes:
    lines, desired = [], 0
    if decision := state.last_decision:
        since = printing.utc_text(datetime.fromtimestamp(decision.since_unix_s, UTC))
        desired = decision.desired_size or 0
        size = "as it is" if decision.desired_size is None else errors.counted(desired, "node")
        reason = untrusted.one_line(decision.reason)
        lines.append(f"{_LAST_DECISION}: {size}, {reason}, since {since}")
    if state.deployment:
        usd = state.deployment.spent_usd
        lines.append(f"spent: {usd:.2f} USD by the controller's ledger, which is not a bill")
    return ControllerNotes(desired=desired, lines=tuple(lines))


# The object `control/stop` triggers the controller at once. Then EKS drains a node for at most 15
# minutes, and its instance has to end.
LOOK_SECONDS = 15.0


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """A deployed experiment, its results bucket, and its region's clients."""

    experiment: ResolvedNeuron
    bucket: str
    region: clients.Region

    @property
    def node_group(self) -> str:
        return self.experiment.names.node_group(self.experiment.spec.aws.capacity.kind)

    @property
    def stop_url(self) -> str:
        return f"s3://{self.bucket}/{deployment.STOP_KEY}"

    def ask(self, verb: str, operation: str, **arguments: bytes) -> Any:
        """Call an S3 operation on the object at `stop_url`; return its answer.

        None: the object does not exist. verb: what the operation does, for the error message
        "could not VERB s3://...". arguments: those besides bucket and key.
        """
        doing, of_object = (
            f"{verb} {self.stop_url}",
            {"Bucket": self.bucket, "Key": deployment.STOP_KEY},
        )
        return self.region.ask(doing, "s3", operation, "404", "NoSuchKey", **of_object, **arguments)

    def nodes(self) -> Nodes:
        arguments = {"clusterName": self.experiment.names.cluster, "nodegroupName": self.node_group}
        doing, missing = f"look at the node group {self.node_group}", "ResourceNotFoundException"
        answer = self.region.ask(doing, "eks", "describe_nodegroup", missing, **arguments)
        if answer is None:
            return Nodes(desired=None, instances=0)
        group = answer["nodegroup"]
        scaling = [g["name"] for g in group.get("resources", {}).get("autoScalingGroups", [])]
        desired = int(group["scalingConfig"]["desiredSize"])
        return Nodes(desired=desired, instances=_instances(self.region, scaling))

    def notes(self) -> ControllerNotes:
        """Return the last decision and the spending in the controller's state.

        They are empty if it has no state, and one line that says so if the state is unreadable.
        """
        url, arguments = (
            f"s3://{self.bucket}/{deployment.STATE_KEY}",
            {"Bucket": self.bucket, "Key": deployment.STATE_KEY},
        )
        answer = self.region.ask(f"read {url}", "s3", "get_object", "NoSuchKey", "404", **arguments)
        if answer is None:
            return ControllerNotes()
        try:
            return _notes_of(
                load_record(controller_state.State, untrusted.read_at_most(answer["Body"]))
            )
        except (RecordError, untrusted.TooLargeError):
            return ControllerNotes(lines=(f"{_LAST_DECISION}: {url} cannot be read",))


def _instances(region: clients.Region, scaling_groups: list[str]) -> int:
    if not scaling_groups:  # for no names, AWS would return every Auto Scaling group of the region
        return 0
    doing, arguments = "look at the Auto Scaling group", {"AutoScalingGroupNames": scaling_groups}
    answer = region.ask(doing, "autoscaling", "describe_auto_scaling_groups", **arguments)
    return sum(len(group["Instances"]) for group in answer["AutoScalingGroups"])


def run(arguments: argparse.Namespace) -> int:
    """Scale the nodes to zero and wait for that, or with `--resume` let them start again."""
    experiment = load_neuron(arguments.experiment)
    deployed = Deployment(
        experiment=experiment,
        bucket=scope.bucket_of(experiment, RESULTS_OUTPUT),
        region=clients.Region(name=experiment.spec.aws.region, clients=clients.client),
    )
    if arguments.resume:
        return _resume(deployed)
    body = f"draftworth stop, {printing.utc_text(datetime.now(UTC))}\n".encode()
    deployed.ask("write", "put_object", Body=body)
    printing.print_lines([f"{deployed.stop_url} is written, which calls the controller"])
    return _watch(deployed, seconds=arguments.wait_minutes * 60)


def _resume(deployed: Deployment) -> int:
    was_there = deployed.ask("look for", "head_object")
    deployed.ask("delete", "delete_object")
    minutes = deployment.HEARTBEAT_MINUTES
    looks = f"the controller looks within {minutes} minutes: nodes come if there is work"
    done = f"{deployed.stop_url} {'is deleted' if was_there else 'was not there'}"
    printing.print_lines([done, looks, *deployed.notes().lines])
    return 0


def _watch(deployed: Deployment, *, seconds: float) -> int:
    ends, before = time.monotonic() + seconds, ""
    while True:
        nodes, notes = deployed.nodes(), deployed.notes()
        if (line := nodes.line()) != before:
            printing.print_lines([f"{printing.utc_text(datetime.now(UTC))}  {line}"])
            before = line
        if nodes.gone and not notes.desired:
            printing.print_lines(["no accelerator node is left", *notes.lines, _THEY_STAY_AWAY])
            return 0
        if time.monotonic() >= ends:
            printing.print_lines(_still_there(deployed, nodes, notes))
            return 1
        time.sleep(LOOK_SECONDS)


def _still_there(deployed: Deployment, nodes: Nodes, notes: ControllerNotes) -> Iterator[str]:
    yield from notes.lines
    if nodes.desired == 0:
        yield "next: nothing; EKS drains them. `make stop` again shows whether they are gone"
        return
    yield "the controller has not acted; next: its log (the output DecisionsCommand), and by hand:"
    region, cluster = deployed.region.name, deployed.experiment.names.cluster
    yield deployment.size_command(
        region=region, cluster=cluster, nodegroup=deployed.node_group, size=0
    )
