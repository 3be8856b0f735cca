"""Judges a finished run with other class weights, prices or limits than its own.

Nothing is measured anew and no file changes: `judged_anew` returns a run that has the other values,
and a report computes everything from these as it does from a run's own values.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from draftworth.decision.facts import RunFacts, weights_of
from draftworth.metrics.definitions import SECONDS_PER_HOUR, slot_usd_per_second
from draftworth.records.results import AMOUNT, CONTROL, Limits, Price, RunResult
from draftworth.records.run_folder import Run

# By a limit's name in experiment files: its field in `Limits`, and the factor from the field's unit
# (seconds, share) to the unit in the name (milliseconds, percent).
LIMITS: Mapping[str, tuple[str, float]] = {
    "ttft_p95_ms": ("ttft_p95_s", 1e3),
    "itl_p95_ms": ("itl_p95_s", 1e3),
    "e2e_p95_ms": ("e2e_p95_s", 1e3),
    "failures_percent": ("failed_share", 100.0),
}

# The kinds of values that a user chooses by a name that the run may lack: weights by the name of a
# class, prices by that of a variant.
NamedChoice = Literal["weight", "usd_per_hour"]


@dataclass(frozen=True, kw_only=True)
class Choices:
    """The values that a run is judged with instead of its own; others stay as they were.

    class_weights: by prompt class, its share of the output tokens in any unit, because weights are
        divided by their sum.
    usd_per_hour: by variant, the price of its server in US dollars per hour.
    limits: by a name in `LIMITS`, the limit in the unit of that name.
    """

    class_weights: Mapping[str, float] = field(default_factory=dict)
    usd_per_hour: Mapping[str, float] = field(default_factory=dict)
    limits: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ChosenValue:
    """One value that a run is judged with instead of its own.

    of: what the value is: a class's weight (0 to 1), the price of a variant's server in US dollars
        per hour, or a limit.
    name: the name of the class, of the variant, or of the limit (in `LIMITS`, with its unit).
    instead_of: the run's own value; None: it has none.
    """

    of: Literal["weight", "usd_per_hour", "limit"]
    name: str
    value: float
    instead_of: float | None


@dataclass(frozen=True, kw_only=True)
class IsSearch:
    """The run is a search.

    It has chosen what to measure, and when to end, by its own weights and prices. With others it
    would have measured other candidates.
    """

    run_id: str


@dataclass(frozen=True, kw_only=True)
class WrongNames:
    """Values were chosen for classes or variants that the run lacks, or not for all that need one.

    of: whether weights of classes or prices of servers were chosen.
    chosen: the names that they were chosen for. allowed: the names that the run has.
    unknown: names in `chosen` that the run does not have.
    missing: needed names that are not in `chosen`. If weights are chosen, all classes need one; if
        prices are chosen, each server needs one to which the run gives no price.
    """

    of: NamedChoice
    chosen: tuple[str, ...]
    allowed: tuple[str, ...]
    unknown: tuple[str, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class PriceOutOfRange:
    """The chosen price of a variant's server is too far below or above the price of a node.

    It is recorded as a share of the node's price, and shares have a lowest and a highest value.
    usd_per_hour: the chosen price, in US dollars per hour. least_usd_per_hour, most_usd_per_hour:
        the lowest and the highest price that can be recorded.
    """

    variant: str
    usd_per_hour: float
    least_usd_per_hour: float
    most_usd_per_hour: float


WhyNotJudgedAnew = IsSearch | WrongNames | PriceOutOfRange


class NotJudgedAnewError(Exception):
    """A run cannot be judged with the class weights, prices or limits that a user chose.

    why: the reason, which `cli/report_choices.py` turns into an error message.
    """

    def __init__(self, why: WhyNotJudgedAnew) -> None:
        super().__init__(why)
        self.why = why


def judged_anew(run: Run, choices: Choices) -> Run:
    """Return the run with a user's class weights, prices and limits instead of its own.

    Raise NotJudgedAnewError if the run is a search, if weights or prices name other classes or
    servers than the run's or lack some that need one, or if a price is too far from a node's.
    """
    if run.search:
        raise NotJudgedAnewError(IsSearch(run_id=run.result.run_id))
    result = run.result
    limits = {LIMITS[name][0]: value / LIMITS[name][1] for name, value in choices.limits.items()}
    return replace(
        run,
        class_weights=_weights(run, choices.class_weights),
        result=replace(
            result,
            limits=replace(result.limits, **limits),
            price=_price(result, choices.usd_per_hour),
        ),
    )


def chosen_values(facts: RunFacts) -> tuple[ChosenValue, ...]:
    """Return the values that a run is judged with instead of its own; empty if there are none."""
    if facts.measured_as is None:
        return ()
    run, measured = facts.run, facts.measured_as
    both = run.result, measured.result
    weights = _changed("weight", weights_of(run), weights_of(measured))
    prices = _changed("usd_per_hour", *map(_usd_per_hour, both))
    limits = _changed("limit", *(_limits(result.limits) for result in both))
    return (*weights, *prices, *limits)


def as_paid(facts: RunFacts) -> RunResult:
    """Return the run's result with the price that it recorded, also if it is judged by another."""
    return replace(facts.run.result, price=(facts.measured_as or facts.run).result.price)


def _weights(run: Run, weights: Mapping[str, float]) -> Mapping[str, float]:
    """Return the class weights divided by their sum; empty if none were given.

    Raise NotJudgedAnewError if they are not of exactly the classes that the run measured.
    """
    if not weights:
        return {}
    classes = [*dict.fromkeys(block.prompt_class for block in run.blocks)]
    _check_names("weight", weights, allowed=classes, needed=classes)
    total = math.fsum(weights.values())
    return {name: weights[name] / total for name in classes}


def _price(result: RunResult, usd_per_hour: Mapping[str, float]) -> Price | None:
    """Return the run's price, changed so that servers cost what `usd_per_hour` says.

    The price of a node stays the same, and the servers' shares of it change. A share may be above
    1, because the question may be about a server on another, dearer node. If the run has no price,
    a node costs as much as all servers together. Raise NotJudgedAnewError if `usd_per_hour` names
    other servers than the run's, lacks a server to which the run gives no price, or has a price
    that is too far from the node's (`PriceOutOfRange`).
    """
    if not usd_per_hour:
        return result.price
    price, priced = result.price, _usd_per_hour(result)
    servers = [name for name in result.variants if name != CONTROL]
    needed = [name for name in servers if name not in priced]
    _check_names("usd_per_hour", usd_per_hour, allowed=servers, needed=needed)
    if price is None or not price.usd_per_node_hour:
        # Without a node's price, all servers together count as one node. The day and the source of
        # this price stay empty, because a report shows only those of a price that the run recorded.
        total = math.fsum(usd_per_hour.values())
        price = Price(usd_per_node_hour=total, as_of="", source="", node_shares={}, nodes=1)
    shares = {name: usd / price.usd_per_node_hour for name, usd in usd_per_hour.items()}
    for name, share in shares.items():
        if not AMOUNT.least <= share <= AMOUNT.most:
            raise NotJudgedAnewError(
                PriceOutOfRange(
                    variant=name,
                    usd_per_hour=usd_per_hour[name],
                    least_usd_per_hour=AMOUNT.least * price.usd_per_node_hour,
                    most_usd_per_hour=AMOUNT.most * price.usd_per_node_hour,
                )
            )
    return replace(price, node_shares={**price.node_shares, **shares})


def _check_names(
    of: NamedChoice, chosen: Collection[str], *, allowed: Sequence[str], needed: Sequence[str]
) -> None:
    """Raise NotJudgedAnewError if a name in `chosen` is not allowed, or a needed one is missing.

    of: whether weights of classes or prices of servers were chosen.
    chosen: the names of the classes or servers that they were chosen for. allowed: all names in
        the run. needed: the names of those that must get a value.
    """
    unknown = tuple(name for name in chosen if name not in allowed)
    missing = tuple(name for name in needed if name not in chosen)
    if unknown or missing:
        raise NotJudgedAnewError(
            WrongNames(
                of=of,
                chosen=tuple(chosen),
                allowed=tuple(allowed),
                unknown=unknown,
                missing=missing,
            )
        )


def _usd_per_hour(result: RunResult) -> dict[str, float]:
    """Return by variant what its server costs in US dollars per hour, if known and above 0."""
    return {
        name: usd_per_second * SECONDS_PER_HOUR
        for name in result.variants
        if (usd_per_second := slot_usd_per_second(result.price, name))
    }


def _limits(limits: Limits) -> dict[str, float]:
    values = {name: getattr(limits, part) for name, (part, _) in LIMITS.items()}
    return {name: v * LIMITS[name][1] for name, v in values.items() if v is not None}


def _changed(
    of: Literal["weight", "usd_per_hour", "limit"],
    values: Mapping[str, float],
    measured: Mapping[str, float],
) -> Iterator[ChosenValue]:
    for name, value in values.items():
        before = measured.get(name)
        if before is None or not math.isclose(value, before):
            yield ChosenValue(of=of, name=name, value=value, instead_of=before)
