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

    unreadable: a marker is not one of ours, which starts nothing and ends no run.
    """

    staging: Literal["ready", "missing", "mismatch", "unreadable"]
    text: str = ""


@dataclass(frozen=True, kw_only=True)
class Run:
    """Whether a run of the deployed Job has begun, and is over; `text` is its own reason."""

    state: Literal["none", "begun", "complete", "failed"]
    run_id: str = ""
    text: str = ""


@dataclass(frozen=True, kw_only=True)
class CapacityBlock:
    """A Capacity Block: its state in EC2's words, and its first and last second."""

    state: str
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
    run: Run | Unknown
    stopped: bool | Unknown
    block: CapacityBlock | NoCapacityBlock | Unknown | None
    nodes: NodeGroup
