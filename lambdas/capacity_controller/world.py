"""What the controller sees of AWS at one moment. What it could not see says so, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Staging = Literal["ready", "missing", "mismatch"]
RunState = Literal["none", "begun", "complete", "failed"]
Ownership = Literal["ours", "foreign", "missing"]


@dataclass(frozen=True, kw_only=True)
class Unknown:
    """Could not be found out at this moment: neither yes nor no follows from it."""

    why: str


@dataclass(frozen=True, kw_only=True)
class Models:
    """The checkpoints that are needed; `text` names those missing, or the two that do not fit."""

    staging: Staging
    text: str = ""


@dataclass(frozen=True, kw_only=True)
class Run:
    """Whether a run of the deployed Job has begun, and is over; `text` is its own reason."""

    state: RunState
    run_id: str = ""
    text: str = ""


@dataclass(frozen=True, kw_only=True)
class Block:
    """A Capacity Block: its state in EC2's words, and its first and last second."""

    state: str
    starts_at_unix_s: float
    ends_at_unix_s: float


@dataclass(frozen=True, kw_only=True)
class NoBlock:
    """There is no such Capacity Block; `why` says what EC2 answered."""

    why: str


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Why nodes that were asked for are not there.

    kind: one report each; the same kind is not reported again until the group was well.
    """

    kind: str
    text: str


@dataclass(frozen=True, kw_only=True)
class NodeGroup:
    """The accelerator node group.

    desired: what it is asked to hold now.
    existing: instances that are paid for, whatever they do.
    leaving: instances that wait for a drain before they go; by id.
    """

    ownership: Ownership
    desired: int = 0
    existing: int = 0
    leaving: tuple[str, ...] = ()
    auto_scaling_group: str = ""
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, kw_only=True)
class World:
    """Everything that a decision follows from, besides the plan and the time.

    stopped: somebody asked for no nodes (`control/stop`).
    block: None when the plan has no Capacity Block.
    """

    models: Models | Unknown
    run: Run | Unknown
    stopped: bool | Unknown
    block: Block | NoBlock | Unknown | None
    nodes: NodeGroup

    def unknowns(self) -> tuple[str, ...]:
        """What could not be found out."""
        seen = (self.models, self.run, self.stopped, self.block)
        return tuple(part.why for part in seen if isinstance(part, Unknown))
