"""An AWS account for the checks: moto where it can answer, botocore's Stubber where it cannot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
from botocore.exceptions import ClientError
from botocore.stub import Stubber

from draftworth.account.checks.check import Situation
from draftworth.account.clients import client
from draftworth.planning.resolved import ResolvedNeuron
from tests.support.experiments import changed_aws, resolved

ROOT = Path(__file__).resolve().parents[3]
NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One stubbed call: a response, or an error code."""

    method: str
    response: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""


class StubbedClients:
    """Clients by service; a service with answers is stubbed, the others go where boto3 goes."""

    def __init__(self, answers: Mapping[str, Sequence[Answer]]) -> None:
        self._answers = answers
        self.asked: list[tuple[str, str]] = []
        self._made: dict[tuple[str, str], Any] = {}

    def __call__(self, service: str, region: str, /) -> Any:
        self.asked.append((service, region))
        if (service, region) not in self._made:
            self._made[service, region] = self._make(service, region)
        return self._made[service, region]

    def _make(self, service: str, region: str) -> Any:
        made = boto3.client(service, region_name=region)  # type: ignore[call-overload]
        if service in self._answers:
            stubber = Stubber(made)
            for answer in self._answers[service]:
                if answer.error:
                    stubber.add_client_error(answer.method, answer.error, "refused")
                else:
                    stubber.add_response(answer.method, dict(answer.response))
            stubber.activate()
        return made


class RefusingClient:
    """Every call of it is denied, pages included."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return self._refuse

    def get_paginator(self, name: str) -> Any:
        return SimpleNamespace(paginate=self._refuse)

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": "not you"}}, "ThatCall")


RESERVATIONS = "describe_capacity_reservations"


class EmulatedClient:
    """The emulator's client, with empty answers to the listings that it does not have.

    Of a cluster that is not there it cannot list node groups either: AWS says that there is none.
    """

    def __init__(self, service: str, region: str, /) -> None:
        self._made = client(service, region)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._made, name)

    def describe_placement_groups(self, **_: Any) -> Any:
        return {"PlacementGroups": []}

    def get_paginator(self, operation: str) -> Any:
        if operation == RESERVATIONS:
            return SimpleNamespace(paginate=lambda **_: [{"CapacityReservations": []}])
        if operation == "list_nodegroups":
            return SimpleNamespace(paginate=self._node_groups)
        return self._made.get_paginator(operation)

    def _node_groups(self, **asked: Any) -> Any:
        self._made.describe_cluster(name=asked["clusterName"])
        return self._made.get_paginator("list_nodegroups").paginate(**asked)


def no_program(command: tuple[str, ...]) -> tuple[int, str] | None:
    """A machine without any program."""
    return None


def experiment(name: str = "qwen3-32b", **aws: Any) -> ResolvedNeuron:
    """A shipped experiment with other values below `aws`."""
    return changed_aws(resolved(name), **aws)


def situation(
    given: ResolvedNeuron | None = None, /, *, root: Path = ROOT, **answers: Sequence[Answer]
) -> Situation:
    """The shipped experiment at NOW; `answers` by service, hyphens as underscores."""
    stubbed = {service.replace("_", "-"): calls for service, calls in answers.items()}
    return Situation(
        experiment=given or experiment(),
        clients=StubbedClients(stubbed),
        now=NOW,
        run=no_program,
        root=root,
    )
