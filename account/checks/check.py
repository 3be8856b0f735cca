"""What a check is given and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from account.scope import Scope


@dataclass(frozen=True)
class Outcome:
    """The answer of one check: how it is, what was found, what to do about it.

    warn: a deploy may work; the user should know before it. fail: a deploy or the run would fail,
    or cost money for nothing. paste: keys below `aws` that the experiment may
    take over as they are.
    """

    status: Literal["pass", "warn", "fail", "skip"]
    found: str
    next_step: str = ""
    paste: Mapping[str, Any] = field(default_factory=dict)


passed, warned = partial(Outcome, "pass"), partial(Outcome, "warn")
failed, skipped = partial(Outcome, "fail"), partial(Outcome, "skip")

# Runs a program: exit code and output of both streams, or None when there is no such program.
Runner = Callable[[tuple[str, ...]], tuple[int, str] | None]


@dataclass(frozen=True, kw_only=True)
class Situation(Scope):
    """All that checks look at: the experiment, the account, this machine, the time."""

    run: Runner
    root: Path
    container_engine: str = "docker"

    @property
    def zone(self) -> str:
        """Where all nodes are."""
        return self.experiment.spec.aws.availability_zone

    @property
    def nodes(self) -> int:
        """Accelerator nodes of the plan."""
        return self.experiment.placement.nodes


@dataclass(frozen=True, kw_only=True)
class Check:
    """A check by its name in the table. `asks_aws`: it is skipped when AWS cannot be asked."""

    name: str
    run: Callable[[Situation], Outcome]
    asks_aws: bool = True
