"""The durations and speeds that a run's forecast assumes, in the best and in the worst case.

The values are data (`assumptions.yaml`, each with its source or "assumed"); units are in the names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib.resources import files
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from draftworth.errors import UserInputError, suggestion
from draftworth.experiment.strict_model import StrictModel, read_yaml

Case = Literal["best", "worst"]
CASES: tuple[Case, ...] = ("best", "worst")
Unit = Literal["minutes", "seconds", "ms per token", "Gbit/s", "GiB"]
OPTION = "--assume"
HOURS_PER_MONTH = 730

_NUMBER = r"[+-]?\d*\.?\d+(?:e[+-]?\d+)?"
_REPLACEMENT = re.compile(rf"([^=]*)=\s*({_NUMBER})(?:\.\.({_NUMBER}))?\s*", re.IGNORECASE)

# Larger values and slower speeds would make the durations that are computed from them overflow.
_MAX = 1e9
_MIN_SPEED = 0.001
Number = Annotated[float, Field(ge=0, le=_MAX)]


@dataclass(frozen=True)
class Bounds:
    """The estimate of a time, a cost or a count in the best case and in the worst case."""

    best: float
    worst: float

    def __format__(self, form: str) -> str:
        best, worst = format(self.best, form), format(self.worst, form)
        return best if best == worst else f"{best} to {worst}"

    def times(self, factor: float) -> Bounds:
        return Bounds(self.best * factor, self.worst * factor)


class Assumption(StrictModel):
    """An assumed quantity: it lies between `low` and `high`, both in `unit`."""

    low: Number
    high: Number
    unit: Unit
    source: Annotated[str, Field(min_length=1)]

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.low > self.high:
            raise ValueError(f"low {self.low:g} is more than high {self.high:g}")
        if self.is_speed and self.low < _MIN_SPEED:
            raise ValueError(f"a speed below {_MIN_SPEED} never ends")
        return self

    @property
    def is_speed(self) -> bool:
        """Whether the quantity is a speed, so that a higher value means less time."""
        return self.unit.endswith("/s")

    def at(self, case: Case) -> float:
        """Return the value in one case: the best time is `low`, but the best speed is `high`."""
        return self.low if (case == "best") != self.is_speed else self.high


# Everything that the forecast of a run assumes, by its name in `assumptions.yaml`.
Assumptions = Mapping[str, Assumption]


def replaced(assumed: Assumptions, texts: Iterable[str]) -> Assumptions:
    """Return `assumed` with other values for some names.

    texts: each is `NAME=NUMBER` or `NAME=LOW..HIGH`, from the option `--assume`. If several texts
        have the same name, the last one counts.

    Raises:
        UserInputError: a text has another form, an unknown name or an impossible value.
    """
    return {**assumed, **dict(_replacement(assumed, text) for text in texts)}


def _replacement(assumed: Assumptions, text: str) -> tuple[str, Assumption]:
    match = _REPLACEMENT.fullmatch(text)
    if match is None:
        raise UserInputError(
            f"{OPTION}: given {text!r}, allowed: NAME=NUMBER or NAME=LOW..HIGH, for example "
            "node_start_minutes=5 or compile_minutes=30..60; next: give a name and a number, once "
            "for each assumption"
        )
    name = match[1].strip()
    if name not in assumed:
        raise UserInputError(
            f"{OPTION}: given {name!r}, allowed: {', '.join(assumed)}{suggestion(name, assumed)}"
            "; next: `draftworth plan FILE` without it shows what each of them makes of the run"
        )
    low, high, unit = float(match[2]), float(match[3] or match[2]), assumed[name].unit
    try:
        return name, Assumption(low=low, high=high, unit=unit, source=f"given with {OPTION}")
    except ValueError as error:
        raise UserInputError(
            f"{OPTION}: given {name}={low:g}..{high:g}, allowed: LOW at most HIGH, from 0 (of "
            f"a speed {_MIN_SPEED}) to {_MAX:,.0f}, all in {unit}; next: correct the numbers"
        ) from error


class ListPrice(StrictModel):
    """The list price of one resource or GiB on the day `as_of`, in US dollars per hour or month."""

    usd: Annotated[float, Field(gt=0)]
    per: Literal["hour", "month"]
    as_of: date
    source: str

    @property
    def usd_per_month(self) -> float:
        return self.usd * (HOURS_PER_MONTH if self.per == "hour" else 1)


class TrafficPrice(StrictModel):
    """The list price of each GiB that passes something, on the day `as_of`, in US dollars."""

    usd_per_gib: Annotated[float, Field(gt=0)]
    as_of: date
    source: str


class AssumptionData(StrictModel):
    """The contents of `assumptions.yaml`.

    targets: assumptions that replace the general ones, by the model id of an experiment's target.
    """

    assumptions: dict[str, Assumption]
    targets: dict[str, dict[str, Assumption]]
    prices: dict[str, ListPrice]
    standing: dict[str, Annotated[int, Field(ge=1)]]
    """How many of each resource in `prices` are billed by the hour from deploy to destroy."""
    nat_gateway_traffic: TrafficPrice

    @property
    def standing_usd_per_hour(self) -> float:
        return sum(count * self.prices[what].usd for what, count in self.standing.items())

    @model_validator(mode="after")
    def _targets_replace_what_is_assumed(self) -> Self:
        if unknown := {name for values in self.targets.values() for name in values}.difference(
            self.assumptions
        ):
            raise ValueError(f"no such assumptions: {', '.join(sorted(unknown))}")
        return self

    def for_target(self, model: str) -> Assumptions:
        return {**self.assumptions, **self.targets.get(model, {})}


@cache
def assumption_data() -> AssumptionData:
    """Return the shipped assumptions; later calls return the same object."""
    path = files("draftworth.planning").joinpath("assumptions.yaml")
    return read_yaml(AssumptionData, path.read_text(encoding="utf-8"))
