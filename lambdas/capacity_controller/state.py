"""What the controller knows between invocations: one JSON object in the results bucket."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from draftworth.records.capacity import CapacityPlan
from draftworth.records.codec import dump_record, load_record

STATE_SCHEMA = "draftworth.capacity-state/1"
# CloudFormation's requests that were done already; it repeats one at most a few times.
REMEMBERED_REQUESTS = 20

Status = Literal["active", "ended"]


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """Node time so far.

    node_seconds: paid up to the last observation.
    nodes: instances that existed then.
    """

    node_seconds: float
    nodes: int
    observed_at_unix_s: float

    def observed(self, nodes: int, *, asked_for: bool, now: float) -> Ledger:
        """With one observation more; what happened in between is taken at its dearer end.

        asked_for: nodes were asked for since the last observation. Without that, and without any
        node before or now, nothing is paid and nothing need be written.
        """
        if not (nodes or self.nodes or asked_for):
            return self
        seconds = max(now - self.observed_at_unix_s, 0.0)
        counted = max(self.nodes, nodes) if self.nodes or asked_for else 0
        return Ledger(
            node_seconds=self.node_seconds + counted * seconds,
            nodes=nodes,
            observed_at_unix_s=max(now, self.observed_at_unix_s),
        )


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """One measuring Job's deployment; `deployed_at_unix_s` is when its deadline began to count."""

    plan: CapacityPlan
    deployed_at_unix_s: float
    ledger: Ledger

    @property
    def own_deadline_unix_s(self) -> float:
        """The experiment's deadline, before a Capacity Block shortens it."""
        return self.deployed_at_unix_s + self.plan.deadline_minutes * 60

    @property
    def spent_usd(self) -> float:
        """What the nodes have cost so far, at the plan's price."""
        return self.plan.cost_usd(self.ledger.node_seconds)


@dataclass(frozen=True, kw_only=True)
class Decided:
    """The last decision; `size` is None where there is no node group to size."""

    job_name: str
    size: int | None
    reason: str
    since_unix_s: float


@dataclass(frozen=True, kw_only=True)
class Notice:
    """A notification that is to be sent. It is in the state until it was."""

    id: str
    subject: str
    text: str
    made_at_unix_s: float


@dataclass(frozen=True, kw_only=True)
class State:
    """Everything that outlives an invocation.

    current: name of the deployed Job; None before the first deployment.
    deployments: by Job name; old ones stay, because a rolled back deploy returns to one.
    problems: what was reported about the node group since it was last well.
    schedule_at_unix_s: when the deadline's schedule is set to; None: there is none.
    requests: CloudFormation requests that were done.
    written_by: a random id of the write, by which a writer knows its own.
    """

    schema: str = STATE_SCHEMA
    status: Status = "ended"
    current: str | None = None
    deployments: Mapping[str, Deployment]
    decided: Decided | None = None
    problems: tuple[str, ...] = ()
    outbox: tuple[Notice, ...] = ()
    schedule_at_unix_s: float | None = None
    requests: tuple[str, ...] = ()
    written_by: str = ""

    @property
    def deployment(self) -> Deployment | None:
        """The current deployment."""
        return None if self.current is None else self.deployments[self.current]

    def with_deployment(self, deployment: Deployment) -> State:
        """With this deployment as the current one."""
        name = deployment.plan.job_name
        return replace(self, current=name, deployments={**self.deployments, name: deployment})

    def with_request(self, request_id: str) -> State:
        """With a CloudFormation request marked as done."""
        return replace(self, requests=(*self.requests, request_id)[-REMEMBERED_REQUESTS:])


EMPTY = State(deployments={})


def dump_state(state: State) -> bytes:
    """The state as JSON."""
    return dump_record(state)


def load_state(data: bytes) -> State:
    """Read a state; raises RecordError."""
    return load_record(State, data)
