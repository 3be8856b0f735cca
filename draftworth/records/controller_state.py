"""The capacity controller's state, `control/capacity.json`, which `draftworth stop` reads too.

The controller, a Lambda function, keeps it between two invocations: the deployments with the cost
of their nodes, the last decision, and mails that are not sent yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from draftworth.records.codec import Between, Checked
from draftworth.records.deployment import CapacityPlan

Status = Literal["active", "ended"]
# A rollback needs the previous deployment. A state is limited to 1 MiB; 30 deployments take 30 KiB.
MAX_OTHER_DEPLOYMENTS = 30
_UnixSeconds = Annotated[float, Between(0, 4_102_444_800)]  # 1970 to 2099


@dataclass(frozen=True, kw_only=True)
class NodeTime(Checked):
    """The node-seconds paid until the last observation, and the number of instances seen then."""

    node_seconds: Annotated[float, Between(0)]
    instances: Annotated[int, Between(0)]
    observed_at_unix_s: _UnixSeconds

    def observed(
        self, instances: int | None, *, were_desired: bool, now: float, unseen: int = 0
    ) -> NodeTime:
        """Return the node time after one more observation, made at `now` in Unix seconds.

        The seconds since the last observation are paid for the old or the new number of instances,
        whichever is higher. They are not paid if there was no instance and no node was desired.
        instances: the new number; None: it could not be observed, so the old number is kept.
        unseen: if `instances` is None, the seconds are paid for at least this many instances.
        were_desired: whether nodes were desired since the last observation.
        """
        paid = max(self.instances, unseen) if instances is None else instances
        instances = self.instances if instances is None else instances
        if not (paid or self.instances or were_desired):
            return self
        seconds = max(now - self.observed_at_unix_s, 0.0)
        counted = max(self.instances, paid) if self.instances or were_desired else 0
        return NodeTime(
            node_seconds=self.node_seconds + counted * seconds,
            instances=instances,
            observed_at_unix_s=max(now, self.observed_at_unix_s),
        )


@dataclass(frozen=True, kw_only=True)
class ServerWait(Checked):
    """How long nodes have been paid for without a ready server, and whether one was given up.

    from_node_seconds: the `NodeTime.node_seconds` at the time when a server was last ready, a node
        was last lost or nodes were last requested; servers must start within a limit from then on.
    nodes_since_unix_s: server states written before this time are of nodes that no longer exist.
    gave_up: why a server was given up; empty if none was. The reason is kept here because a new
        pod overwrites the server's state, and nodes would start for the same failure again.
    """

    from_node_seconds: Annotated[float, Between(0)] = 0.0
    nodes_since_unix_s: _UnixSeconds
    gave_up: str = ""


@dataclass(frozen=True, kw_only=True)
class Deployment(Checked):
    """A deployed measuring Job and its nodes; its deadline counts from `deployed_at_unix_s`.

    plan: how many nodes the Job needs, and their limits. node_time: the node-seconds paid so far.
    servers: how long nodes have been paid for without a ready server.
    block_node_seconds: node-seconds of the whole Capacity Block; None: there is none, or it was not
        observed yet.
    """

    plan: CapacityPlan
    deployed_at_unix_s: _UnixSeconds
    node_time: NodeTime
    servers: ServerWait
    block_node_seconds: float | None = None

    @property
    def own_deadline_unix_s(self) -> float:
        """The deadline of the experiment itself; a Capacity Block may end the nodes sooner."""
        return self.deployed_at_unix_s + self.plan.deadline_minutes * 60

    @property
    def spent_usd(self) -> float:
        """The cost of the nodes so far; a Capacity Block is paid in full and in advance."""
        paid_seconds = max(self.node_time.node_seconds, self.block_node_seconds or 0.0)
        return paid_seconds / 3600 * self.plan.price_usd_per_node_hour

    @property
    def without_server_seconds(self) -> float:
        """Node seconds paid since a server was ready, a node was lost or nodes were requested."""
        return self.node_time.node_seconds - self.servers.from_node_seconds

    def with_whole_allowance(self) -> Deployment:
        wait = replace(self.servers, from_node_seconds=self.node_time.node_seconds)
        return replace(self, servers=wait)


@dataclass(frozen=True, kw_only=True)
class Remaining(Checked):
    """Accelerator instances that still exist although the controller has decided on zero nodes.

    The controller asks for zero nodes again and sends mails (`remaining_nodes.py`).
    since_unix_s: when zero nodes were decided, or instances were first seen after that.
    node_seconds: the node time paid since then.
    asked_at_unix_s: when zero nodes were last requested because of these instances, or decided.
    mailed_at_unix_s: when the last mail about them was made; None: none was.
    """

    since_unix_s: _UnixSeconds
    node_seconds: Annotated[float, Between(0)]
    asked_at_unix_s: _UnixSeconds
    mailed_at_unix_s: _UnixSeconds | None = None


@dataclass(frozen=True, kw_only=True)
class LastDecision(Checked):
    """The controller's last decision, which has been in force since `since_unix_s`.

    desired_size: the number of nodes; None if the decision leaves the number as it is.
    """

    job_name: str
    desired_size: Annotated[int, Between(0)] | None
    reason: str
    since_unix_s: _UnixSeconds


@dataclass(frozen=True, kw_only=True)
class Notification:
    """A mail, which stays in the state's outbox until it is sent."""

    id: str
    subject: str
    text: str
    made_at_unix_s: float


@dataclass(frozen=True, kw_only=True)
class State:
    """Everything that the capacity controller keeps between two of its invocations.

    written_by: a random id, by which a writer recognizes its own write.
    current: name of the deployed Job; None before the first deployment.
    deployments: by Job name; old deployments are kept, because a rollback returns to one of them.
    problems: the kinds of problems that were reported and are not over.
    schedule_at_unix_s: when an EventBridge schedule invokes the controller, because the deadline
        has passed then; None: there is no schedule.
    requests: ids of CloudFormation requests that were fulfilled.
    remaining: instances that stay although zero nodes are desired; None: there are none.
    """

    schema: str = "draftworth.capacity-state/5"
    written_by: str = ""
    status: Status = "ended"
    current: str | None = None
    deployments: Mapping[str, Deployment]
    last_decision: LastDecision | None = None
    problems: tuple[str, ...] = ()
    outbox: tuple[Notification, ...] = ()
    schedule_at_unix_s: float | None = None
    requests: tuple[str, ...] = ()
    remaining: Remaining | None = None

    def __post_init__(self) -> None:
        if self.current is not None and self.current not in self.deployments:
            raise ValueError(f"current: given {self.current[:60]!r}, allowed: a Job of deployments")

    @property
    def deployment(self) -> Deployment | None:
        return None if self.current is None else self.deployments[self.current]

    def with_deployment(self, deployment: Deployment) -> State:
        """Return a state with this deployment as the current one.

        Of the other deployments, only the newest `MAX_OTHER_DEPLOYMENTS` are kept.
        """
        name = deployment.plan.job_name
        earlier = [(job, old) for job, old in self.deployments.items() if job != name]
        kept = dict(earlier[-MAX_OTHER_DEPLOYMENTS:])
        return replace(self, current=name, deployments={**kept, name: deployment})
