"""What a check is given and what it answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from account.clients import explained, listed, or_none
from account.scope import Scope


@dataclass(frozen=True)
class Outcome:
    """The answer of one check: how it is, what was found, what to do about it.

    warn: a deploy may work; the user should know before it. fail: a deploy or the run would fail,
    or cost money for nothing.
    """

    status: Literal["pass", "warn", "fail", "skip"]
    found: str
    next_step: str = ""


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
    def nodes(self) -> int:
        """Accelerator nodes of the plan."""
        return self.experiment.placement.nodes

    def ask(self, doing: str, service: str, operation: str, *missing: str, **asked: Any) -> Any:
        """The answer of a call; None at an error whose code begins with one of `missing`.

        At another error an AwsError, which says "could not" with `doing`.
        """
        with explained(doing, region=self.region):
            return or_none(getattr(self.client(service), operation), *missing, **asked)

    def list_all(
        self, doing: str, service: str, operation: str, result: str, **asked: Any
    ) -> list[Any]:
        """Every entry of a listing; `result`: their JMESPath in an answer."""
        with explained(doing, region=self.region):
            return [*listed(self.client(service), operation, result, **asked)]


@dataclass(frozen=True, kw_only=True)
class Check:
    """A check by its name in the table. `asks_aws`: it is skipped when AWS cannot be asked."""

    name: str
    run: Callable[[Situation], Outcome]
    asks_aws: bool = True
