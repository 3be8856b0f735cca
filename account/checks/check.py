"""What a check is given and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Protocol

from account.clients import explained
from draftworth.planning.resolved import ResolvedNeuron

Status = Literal["pass", "warn", "fail", "skip"]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The answer of one check: how it is, what was found, what to do about it."""

    status: Status
    found: str
    next_step: str = ""


def passed(found: str) -> Outcome:
    """As it should be."""
    return Outcome(status="pass", found=found)


def warned(found: str, next_step: str) -> Outcome:
    """A deploy may work; somebody should know before it."""
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

    @contextmanager
    def asking(self, doing: str) -> Iterator[None]:
        """Turn botocore's errors inside the block into an AwsError about the region."""
        with explained(doing, region=self.region):
            yield


@dataclass(frozen=True, kw_only=True)
class Check:
    """A check by its name in the table. `asks_aws`: it is skipped when nobody can ask AWS."""

    name: str
    run: Callable[[Situation], Outcome]
    asks_aws: bool = True
