"""What a check is given and what it answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Protocol

from account.clients import explained, listed, or_none
from draftworth.planning.resolved import ResolvedNeuron

Status = Literal["pass", "warn", "fail", "skip"]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The answer of one check: how it is, what was found, what to do about it."""

    status: Status
    found: str
    next_step: str = ""

    @property
    def told(self) -> str:
        """What was found, and the next step below."""
        return f"{self.found}\nnext: {self.next_step}" if self.next_step else self.found


def passed(found: str) -> Outcome:
    """As it should be."""
    return Outcome(status="pass", found=found)


def warned(found: str, next_step: str) -> Outcome:
    """A deploy may work; the user should know before it."""
    return Outcome(status="warn", found=found, next_step=next_step)


def failed(found: str, next_step: str) -> Outcome:
    """A deploy or the run would fail, or cost money for nothing."""
    return Outcome(status="fail", found=found, next_step=next_step)


def skipped(found: str) -> Outcome:
    """Not looked at, and why."""
    return Outcome(status="skip", found=found)


class Clients(Protocol):
    """Makes a client: `account.clients.client`, or a test's."""

    def __call__(self, service: str, region: str, /) -> Any:
        """A client of a service in a region."""


# Runs a program: exit code and output of both streams, or None when there is no such program.
Runner = Callable[[tuple[str, ...]], tuple[int, str] | None]


@dataclass(frozen=True, kw_only=True)
class Situation:
    """All that checks look at: the experiment, the account, this machine, the time."""

    experiment: ResolvedNeuron
    clients: Clients
    now: datetime
    run: Runner
    root: Path
    container_engine: str = "docker"

    @property
    def region(self) -> str:
        """The experiment's region."""
        return self.experiment.spec.aws.region

    @property
    def nodes(self) -> int:
        """Accelerator nodes of the plan."""
        return self.experiment.placement.nodes

    def client(self, service: str) -> Any:
        """A client in the experiment's region."""
        return self.clients(service, self.region)

    def ask(self, doing: str, service: str, operation: str, *missing: str, **asked: Any) -> Any:
        """The answer of a call; None at an error whose code begins with one of `missing`.

        Raises:
            AwsError: any other error; `doing` completes "could not ...".
        """
        with explained(doing, region=self.region):
            return or_none(getattr(self.client(service), operation), *missing, **asked)

    def list_all(
        self, doing: str, service: str, operation: str, result: str, **asked: Any
    ) -> list[Any]:
        """Every entry of a listing; `result`: their JMESPath in an answer.

        Raises:
            AwsError: AWS could not be asked, or refused; `doing` completes "could not ...".
        """
        with explained(doing, region=self.region):
            return [*listed(self.client(service), operation, result, **asked)]


@dataclass(frozen=True, kw_only=True)
class Check:
    """A check by its name in the table. `asks_aws`: it is skipped when AWS cannot be asked."""

    name: str
    run: Callable[[Situation], Outcome]
    asks_aws: bool = True
