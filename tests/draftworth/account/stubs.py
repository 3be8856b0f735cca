"""An AWS account for tests: moto where it can answer, given answers where it cannot."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import boto3
from botocore.exceptions import ClientError
from botocore.stub import Stubber

from draftworth.account.checks.check import Situation
from draftworth.account.clients import Region, client
from draftworth.planning.resolved import ResolvedNeuron
from tests.support.experiments import changed_aws, resolved

ROOT = Path(__file__).resolve().parents[3]
QWEN = str(ROOT / "experiments/qwen3-32b.yaml")
NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
KIND = "trn2.48xlarge"
BLOCK_START = datetime(2026, 11, 25, 11, 30, tzinfo=UTC)
DENIED = "UnauthorizedOperation"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """One stubbed call: a response, or an error code."""

    method: str
    response: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""

    @classmethod
    def of(cls, method: str, answer: Mapping[str, Any] | str) -> Self:
        """Return the answer of a row of `checks/`: a text is an error's code."""
        if isinstance(answer, str):
            return cls(method=method, error=answer)
        return cls(method=method, response=answer)


# What services of a region answer, in this order.
Answers = Mapping[str, Sequence[Answer]]


class StubbedClients:
    """Clients that give these answers; botocore checks the shapes of calls and answers.

    A service without answers goes where boto3 goes. everywhere: the answers of all regions.
    calls: region and operation of each call.
    """

    def __init__(self, everywhere: Answers | None = None, **regions: Answers) -> None:
        self.calls: list[tuple[str, str]] = []
        self._everywhere = everywhere
        self._regions = {name.replace("_", "-"): answers for name, answers in regions.items()}
        self._made: dict[tuple[str, str], Any] = {}

    def __call__(self, service: str, region: str, /) -> Any:
        if (service, region) not in self._made:
            self._made[service, region] = self._make(service, region)
        return self._made[service, region]

    def _make(self, service: str, region: str) -> Any:
        made = boto3.client(service, region_name=region)  # type: ignore[call-overload]
        answers = self._regions[region] if self._everywhere is None else self._everywhere
        if service in answers:
            stubber = Stubber(made)
            for answer in answers[service]:
                if answer.error:
                    stubber.add_client_error(answer.method, answer.error, "refused")
                else:
                    stubber.add_response(answer.method, dict(answer.response))
            stubber.activate()
        made.meta.events.register_first(
            "before-parameter-build.*.*",
            lambda model, **_: self.calls.append((region, model.name)),
        )
        return made

    def regions(self, *names: str) -> list[Region]:
        return [Region(name=name, clients=self) for name in names]

    @cached_property
    def price_list(self) -> Region:
        return Region(name="us-east-1", clients=self)


class RefusingClient:
    """Every call of it is denied, pages included."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return self._refuse

    def get_paginator(self, name: str) -> Any:
        return SimpleNamespace(paginate=self._refuse)

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": "not you"}}, "ThatCall")


def refusing(service: str, region: str, /) -> Any:
    return RefusingClient()


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

    def _node_groups(self, **parameters: Any) -> Any:
        self._made.describe_cluster(name=parameters["clusterName"])
        return self._made.get_paginator("list_nodegroups").paginate(**parameters)


def no_program(command: tuple[str, ...]) -> tuple[int, str] | None:
    """A machine without any program."""
    return None


def experiment(name: str = "qwen3-32b", **aws: Any) -> ResolvedNeuron:
    """A shipped experiment with other values below `aws`."""
    return changed_aws(resolved(name), **aws)


def situation(
    resolved: ResolvedNeuron | None = None, /, *, root: Path = ROOT, **answers: Sequence[Answer]
) -> Situation:
    """The shipped experiment at NOW; `answers` by service, hyphens as underscores."""
    stubbed = {service.replace("_", "-"): calls for service, calls in answers.items()}
    return Situation(
        experiment=resolved or experiment(),
        clients=StubbedClients(stubbed),
        now=NOW,
        run=no_program,
        root=root,
    )


def without_credentials(monkeypatch: Any) -> None:
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)  # it keeps what it found first
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def offered(*zones: str, kind: str = KIND) -> Answer:
    offerings = [{"InstanceType": kind, "Location": zone} for zone in zones]
    return Answer(
        method="describe_instance_type_offerings", response={"InstanceTypeOfferings": offerings}
    )


def zones(**ids: str) -> Answer:
    """Zones by name, hyphens as underscores."""
    listed = [
        {"ZoneName": name.replace("_", "-"), "ZoneId": zone_id, "ZoneType": "availability-zone"}
        for name, zone_id in ids.items()
    ]
    local = {"ZoneName": "us-east-1-bos-1a", "ZoneId": "use1-bos1-az1", "ZoneType": "local-zone"}
    response = {"AvailabilityZones": [*listed, local]}
    return Answer(method="describe_availability_zones", response=response)


def quota(vcpus: float) -> Answer:
    return Answer(method="get_service_quota", response={"Quota": {"Value": vcpus}})


def block(
    zone: str, fee: str, *, hours: float = 24, count: int = 1, **other: Any
) -> dict[str, Any]:
    """An offering of a Capacity Block, as EC2 lists it."""
    return {
        "CapacityBlockOfferingId": f"cb-{zone[-1]}{hours:.0f}",
        "InstanceType": KIND,
        "AvailabilityZone": zone,
        "InstanceCount": count,
        "StartDate": BLOCK_START,
        "EndDate": BLOCK_START + timedelta(hours=hours),
        "CapacityBlockDurationHours": int(hours),
        "UpfrontFee": fee,
        "CurrencyCode": "USD",
    } | other


def blocks(*offerings: dict[str, Any]) -> Answer:
    response = {"CapacityBlockOfferings": list(offerings)}
    return Answer(method="describe_capacity_block_offerings", response=response)


def spot(**prices: Sequence[str]) -> Answer:
    """Prices by zone, newest first, a day apart; hyphens as underscores."""
    history = [
        {
            "AvailabilityZone": zone.replace("_", "-"),
            "SpotPrice": price,
            "Timestamp": NOW - timedelta(days=age),
        }
        for zone, listed in prices.items()
        for age, price in enumerate(listed)
    ]
    return Answer(method="describe_spot_price_history", response={"SpotPriceHistory": history})


def product(region: str, usd: str, *, unit: str = "Hrs") -> str:
    """A product of the Price List, as far as it is read."""
    dimension = {"unit": unit, "pricePerUnit": {"USD": usd}}
    terms = {"OnDemand": {"SKU.TERM": {"priceDimensions": {"SKU.TERM.RATE": dimension}}}}
    return json.dumps({"product": {"attributes": {"regionCode": region}}, "terms": terms})


def products(*listed: str) -> Answer:
    return Answer(method="get_products", response={"PriceList": list(listed)})
