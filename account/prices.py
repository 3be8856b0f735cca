"""What a forgotten resource costs a month, from dated list prices."""

from __future__ import annotations

import json
from datetime import date
from functools import cache
from importlib.resources import files
from typing import Annotated, Literal

import yaml
from pydantic import Field

from draftworth.experiment.strict import StrictModel
from draftworth.planning.assumptions import assumption_data

HOURS_A_MONTH = 730
GIB = 1024**3

PriceName = Literal[
    "public_ipv4", "load_balancer", "volume_gib", "bucket_gib", "log_gib", "dashboard", "alarm"
]
# Names of draftworth/planning/assumptions.yaml, `standing`.
CONTROL_PLANE, NAT_GATEWAY = "EKS control plane", "NAT gateway"


class ListPrice(StrictModel):
    """US dollars an hour or a month, of one thing or one GiB, on the day `as_of`."""

    usd: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    per: Literal["hour", "month"]
    as_of: date
    source: str

    @property
    def usd_per_month(self) -> float:
        """What it is in a month of 730 hours."""
        return self.usd * HOURS_A_MONTH if self.per == "hour" else self.usd


class PriceList(StrictModel):
    """Everything of `prices.yaml`."""

    prices: dict[PriceName, ListPrice]


@cache
def price_list() -> dict[PriceName, ListPrice]:
    """The shipped prices, read once."""
    text = files("account").joinpath("prices.yaml").read_text(encoding="utf-8")
    data = json.dumps(yaml.safe_load(text), default=str)
    return PriceList.model_validate_json(data).prices


def monthly_usd(name: PriceName, *, amount: float = 1) -> float:
    """US dollars a month for so many pieces or GiB."""
    return price_list()[name].usd_per_month * amount


def standing_usd(what: str) -> float | None:
    """US dollars a month of one thing that a deployed experiment always has; None: no price."""
    prices = {cost.what: cost.usd_per_hour for cost in assumption_data().standing}
    return prices[what] * HOURS_A_MONTH if what in prices else None


def oldest_price() -> date:
    """The day of the oldest price."""
    standing = (cost.as_of for cost in assumption_data().standing)
    return min((*(price.as_of for price in price_list().values()), *standing))
