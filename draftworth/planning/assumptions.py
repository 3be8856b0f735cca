"""What the time line takes for granted: durations and speeds, from best to worst case.

The values are data (`assumptions.yaml`, each with its source or "assumed"); this module gives
them types and lets a user replace them. Units stand in the names.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib.resources import files
from typing import Annotated, Literal, Self

import yaml
from pydantic import Field, field_validator, model_validator

from draftworth.errors import UserInputError, suggestion
from draftworth.experiment.strict import StrictModel

Unit = Literal["minutes", "seconds", "ms per token", "Gbit/s", "GiB", "ratio"]
Bound = Literal["low", "high"]
OPTION = "--assume"

Number = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """One quantity in the low and in the high estimate."""

    low: float
    high: float

    @classmethod
    def of(cls, compute: Callable[[Bound], float]) -> Bounds:
        """A quantity computed in both estimates."""
        return cls(low=compute("low"), high=compute("high"))

    def at(self, bound: Bound) -> float:
        """The quantity in one of the two estimates."""
        return self.low if bound == "low" else self.high

    def text(self, *, digits: int | None = None) -> str:
        """`2 to 5`, or one number where both are the same."""
        low, high = (
            f"{value:g}" if digits is None else f"{value:.{digits}f}"
            for value in (self.low, self.high)
        )
        return low if low == high else f"{low} to {high}"


class Assumption(StrictModel):
    """A quantity between `low` and `high`, in `unit`."""

    low: Number
    high: Number
    unit: Unit
    source: Annotated[str, Field(min_length=1)]

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.low > self.high:
            raise ValueError(f"low {self.low:g} is more than high {self.high:g}")
        if self.is_speed and self.low == 0:
            raise ValueError("a speed of 0 never ends")
        return self

    @property
    def is_speed(self) -> bool:
        """Whether more of it takes less time."""
        return self.unit.endswith("/s")

    @property
    def bounds(self) -> Bounds:
        """The values of the low and the high estimate: a speed's low estimate is its high end."""
        ends = (self.high, self.low) if self.is_speed else (self.low, self.high)
        return Bounds(low=ends[0], high=ends[1])

    def at(self, bound: Bound) -> float:
        """The value that the low or the high estimate takes."""
        return self.bounds.at(bound)


class Assumptions(StrictModel):
    """Everything the time line of an experiment takes for granted."""

    deploy_minutes: Assumption
    redeploy_minutes: Assumption
    stager_start_minutes: Assumption
    hub_gbit_per_s: Assumption
    unknown_checkpoint_gib: Assumption
    scale_up_minutes: Assumption
    node_start_minutes: Assumption
    image_pull_minutes: Assumption
    compile_minutes: Assumption
    load_gbit_per_s: Assumption
    warm_up_minutes: Assumption
    baseline_ms_per_token: Assumption
    speculative_ms_per_token: Assumption
    first_token_seconds: Assumption
    block_overhead_seconds: Assumption
    teardown_minutes: Assumption
    guard_minutes: Assumption

    def named(self, name: str) -> Assumption:
        """The assumption of that name."""
        assumption: Assumption = getattr(self, name)
        return assumption

    def replaced(self, texts: Iterable[str]) -> Assumptions:
        """With a user's values: `NAME=NUMBER` or `NAME=LOW..HIGH`, a later one before an earlier.

        Raises:
            UserInputError: a text has another form, an unknown name or values that cannot be.
        """
        changed = dict(_given(text) for text in texts)
        values = {name: self._replacement(name, given) for name, given in changed.items()}
        return self.model_copy(update=values)

    def _replacement(self, name: str, given: Bounds) -> Assumption:
        known = list(type(self).model_fields)
        if name not in known:
            raise UserInputError(
                f"{OPTION}: given {name!r}, allowed: {', '.join(known)}{suggestion(name, known)}"
            )
        before = self.named(name)
        try:
            return Assumption(
                low=given.low, high=given.high, unit=before.unit, source=f"given with {OPTION}"
            )
        except ValueError as error:
            raise UserInputError(
                f"{OPTION}: given {name}={given.low:g}..{given.high:g}, allowed: LOW at most HIGH, "
                f"no negative numbers, a speed above 0, all in {before.unit}"
            ) from error


class PublishedAssumptions(StrictModel):
    """What only the published sequence has (benchmarks/idle.py)."""

    whole_node_compile_ratio: Assumption
    hand_over_minutes: Assumption
    llmperf_install_minutes: Assumption
    llmperf_start_seconds: Assumption
    unattended_minutes: Assumption
    consolidate_minutes: Assumption


class StandingCost(StrictModel):
    """Something that costs by the hour as long as the experiment is deployed."""

    what: str
    count: Annotated[int, Field(ge=1)]
    usd_per_hour: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    as_of: date
    source: str


class AssumptionData(StrictModel):
    """Everything of `assumptions.yaml`."""

    assumptions: Assumptions
    targets: dict[str, dict[str, Assumption]]
    published_sequence: PublishedAssumptions
    standing: tuple[StandingCost, ...]

    @field_validator("targets")
    @classmethod
    def _known_names(
        cls, targets: dict[str, dict[str, Assumption]]
    ) -> dict[str, dict[str, Assumption]]:
        unknown = {name for values in targets.values() for name in values}
        unknown -= set(Assumptions.model_fields)
        if unknown:
            raise ValueError(f"no such assumptions: {', '.join(sorted(unknown))}")
        return targets

    def for_target(self, model: str) -> Assumptions:
        """The assumptions for one target model: what is published for it goes first."""
        return self.assumptions.model_copy(update=dict(self.targets.get(model, {})))


def read_assumptions(text: str) -> AssumptionData:
    """Read the data file's text; raises pydantic's ValidationError when it is not one."""
    data = yaml.safe_load(text)
    return AssumptionData.model_validate_json(json.dumps(data, default=str))


@cache
def assumption_data() -> AssumptionData:
    """The shipped assumptions, read once."""
    path = files("draftworth.planning").joinpath("assumptions.yaml")
    return read_assumptions(path.read_text(encoding="utf-8"))


def _given(text: str) -> tuple[str, Bounds]:
    """`NAME=NUMBER` or `NAME=LOW..HIGH` in its parts."""
    name, equals, values = text.partition("=")
    ends = values.split("..")
    numbers = [_number(end) for end in ends]
    known = [number for number in numbers if number is not None]
    if not equals or len(ends) > 2 or len(known) != len(ends):
        raise UserInputError(
            f"{OPTION}: given {text!r}, allowed: NAME=NUMBER or NAME=LOW..HIGH, for example "
            "node_start_minutes=5 or compile_minutes=30..60"
        )
    return name.strip(), Bounds(low=known[0], high=known[-1])


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
