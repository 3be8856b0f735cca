"""What the controller observes of AWS. What could not be observed says so, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Unknown:
    """Could not be observed at this moment: neither yes nor no follows from it."""

    why: str


@dataclass(frozen=True, kw_only=True)
class Models:
    """The checkpoints that are needed; `text` names those missing, or the two that do not match.

    failed: a staging Job gave one up since the deploy; `text` is its reason.
    unreadable: a marker is not one of ours, which starts nothing and ends no run.
    staged_at_unix_s: when the last of them was; 0 while one is missing.
    """

    staging: Literal["ready", "missing", "failed", "mismatch", "unreadable"]
    text: str = ""
    staged_at_unix_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Canaries:
    """What every variant's canary reported since the deploy.

    missing: `text` names those that have said nothing. failed: `text` is what one of them found,
    and `last_lines` the end of its log. unreadable: a report is none of ours.
    """

    state: Literal["ok", "missing", "failed", "unreadable"]
    text: str = ""
    last_lines: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Servers:
    """What the servers that are needed said since the deploy; one that said nothing is not there.

    gave_up: why one of them is not worth another start, empty while none is; `last_lines`: the end
        of its log.
    healthy_since_unix_s: since when one has been; of several the newest, None: none is.
    """

    gave_up: str = ""
    last_lines: tuple[str, ...] = ()
    healthy_since_unix_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class Run:
    """Whether a run of the deployed Job has begun, and is over; `text` is its own reason.

    address: of its files, of a run that is over. answer: of one that is complete, what its verdict
        says, a sentence a line, or why that is not known.
    measured_at_unix_s: of the newest result of a run that is not over; None: there is none.
    """

    state: Literal["none", "begun", "complete", "failed"]
    run_id: str = ""
    text: str = ""
    address: str = ""
    answer: tuple[str, ...] = ()
    measured_at_unix_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class CapacityBlock:
    """A Capacity Block: its state in EC2's words, its first and last second, and its size."""

    state: str
    instances: int
    starts_at_unix_s: float
    ends_at_unix_s: float


@dataclass(frozen=True, kw_only=True)
class NoCapacityBlock:
    """There is no such Capacity Block; `why` says what EC2 answered."""

    why: str


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Why desired nodes are missing. Each kind is reported once, until the nodes are there."""

    kind: str
    text: str


@dataclass(frozen=True, kw_only=True)
class NodeGroup:
    """The accelerator node group.

    desired_size: what EKS was last told; None where it does not say.
    instances: that exist and are paid for, whatever their state; None where they cannot be seen.
    draining: ids of instances that wait for their drain before they are terminated.
    """

    ownership: Literal["ours", "foreign", "missing"]
    desired_size: int | None = 0
    instances: int | None = 0
    draining: tuple[str, ...] = ()
    auto_scaling_group: str = ""
    modified_at_unix_s: float | None = None
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Observation:
    """Everything that a decision follows from, besides the plan and the time.

    stopped: the object `control/stop` exists.
    block: None when the plan has no Capacity Block.
    """

    models: Models | Unknown
    canaries: Canaries | Unknown
    servers: Servers | Unknown
    run: Run | Unknown
    stopped: bool | Unknown
    block: CapacityBlock | NoCapacityBlock | Unknown | None
    nodes: NodeGroup
