"""What a resource that was left behind costs a month, from dated list prices."""

from datetime import date
from functools import cache
from importlib.resources import files
from typing import Annotated, Literal

from pydantic import Field

from draftworth.experiment.strict import StrictModel, read_yaml
from draftworth.planning.assumptions import HOURS_A_MONTH, assumption_data

GIB = 1024**3


class ListPrice(StrictModel):
    """A price in US dollars an hour or a month on the day `as_of`, of one piece or one GiB."""

    usd: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    per: Literal["hour", "month"]
    as_of: date
    source: str


@cache
def price_list() -> dict[str, ListPrice]:
    """Read the shipped prices."""
    text = (files("draftworth.account") / "list_prices.yaml").read_text(encoding="utf-8")
    return read_yaml(dict[str, ListPrice], text)


def monthly_usd(what: str, *, amount: float = 1) -> float | None:
    """Return US dollars a month for `amount` pieces or GiB; None if no price is known.

    what: a name of `list_prices.yaml`, or of planning's `standing` costs, such as an instance type.
    """
    if price := price_list().get(what):
        return price.usd * amount * (HOURS_A_MONTH if price.per == "hour" else 1)
    standing = {cost.what: cost.usd_per_hour for cost in assumption_data().standing}
    return standing[what] * HOURS_A_MONTH * amount if what in standing else None


def oldest_price() -> date:
    """Return the day of the oldest price."""
    standing = (cost.as_of for cost in assumption_data().standing)
    return min((*(price.as_of for price in price_list().values()), *standing))
