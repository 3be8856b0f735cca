"""Judges a finished run with other class weights, prices or limits than its own.

Nothing is measured anew and no file changes: `judged_anew` returns a run that has the other values,
and a report computes everything from these as it does from a run's own values.
"""

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from draftworth.decision.facts import RunFacts, weights_of
from draftworth.errors import UserInputError
from draftworth.metrics.definitions import SECONDS_PER_HOUR, slot_usd_per_second
from draftworth.records.results import CONTROL, Limits, Price, RunResult
from draftworth.records.run_folder import Run
from draftworth.untrusted import one_line

# By a limit's name in experiment files: its field in `Limits`, and the factor from the field's unit
# (seconds, share) to the unit in the name (milliseconds, percent).
LIMITS: Mapping[str, tuple[str, float]] = {
    "ttft_p95_ms": ("ttft_p95_s", 1e3),
    "itl_p95_ms": ("itl_p95_s", 1e3),
    "e2e_p95_ms": ("e2e_p95_s", 1e3),
    "failures_percent": ("failed_share", 100.0),
}


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


def judged_anew(run: Run, choices: Choices) -> Run:
    """Return the run with the chosen values; raise UserInputError if they do not fit the run.

    They do not fit if they name other classes or servers than the run's, or if the run is a search.
    """
    # A search has chosen what to measure, and when to end, by its own weights and prices. With
    # others it would have measured other candidates.
    if run.search:
        raise UserInputError(
            f"RUN: given {one_line(run.result.run_id)}, which is a search, allowed: a run without "
            "one with --weights, --usd-per-hour or --limit; next: measure its best candidate in "
            "an experiment of its own, and judge that"
        )
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

    Raise UserInputError if they are not of exactly the classes that the run measured.
    """
    classes = dict.fromkeys(block.prompt_class for block in run.blocks)
    if weights and weights.keys() != classes.keys():
        _refuse(
            "weights", weights, classes, "a weight of every prompt class measured and of no other"
        )
    total = math.fsum(weights.values())
    return {name: weights[name] / total for name in classes} if weights else {}


def _price(result: RunResult, usd_per_hour: Mapping[str, float]) -> Price | None:
    """Return the run's price, changed so that servers cost what `usd_per_hour` says.

    The price of a node stays the same, and the servers' shares of it change; if the run has no
    price, a node costs as much as all servers together. Raise UserInputError if `usd_per_hour`
    names other servers than the run's, lacks a server to which the run gives no price, or has a
    price whose share of the node's price is out of the range that `Price` allows.
    """
    if not usd_per_hour:
        return result.price
    price, priced = result.price, _usd_per_hour(result)
    servers = [name for name in result.variants if name != CONTROL]
    needed = {name for name in servers if name not in priced}
    if not needed <= usd_per_hour.keys() <= {*servers}:
        why = "prices of the run's servers, at least of those that have none"
        _refuse("usd-per-hour", usd_per_hour, servers, why, needed=needed)
    if price is None or not price.usd_per_node_hour:
        # Without a node's price, all servers together count as one node.
        total = math.fsum(usd_per_hour.values())
        price = Price(
            usd_per_node_hour=total, as_of="", source="given by hand", node_shares={}, nodes=1
        )
    shares = {name: usd / price.usd_per_node_hour for name, usd in usd_per_hour.items()}
    try:
        return replace(price, node_shares={**price.node_shares, **shares})
    except ValueError as error:
        raise UserInputError(
            f"--usd-per-hour: {error}, as parts of the run's node at "
            f"{price.usd_per_node_hour:g} USD an hour; next: give prices of every server"
        ) from error


def _refuse(
    option: str,
    chosen: Collection[str],
    names: Collection[str],
    why: str,
    needed: Collection[str] | None = None,
) -> None:
    """Raise UserInputError that says which names in `chosen` to leave out, and which to add.

    option: the command-line option. names: the names that are allowed. why: what is allowed, in
    words. needed: the names that may not be missing; None: all of `names`.
    """
    missing = [name for name in (names if needed is None else needed) if name not in chosen]
    other = [name for name in chosen if name not in names]
    steps = [f"leave out {name}" for name in other] + [f"add {name}=NUMBER" for name in missing]
    raise UserInputError(
        f"--{option}: given {_listed(chosen)}, allowed: {why} "
        f"({_listed(names) or 'this run has none'}); next: {_listed(steps)}"
    )


def _listed(names: Collection[str]) -> str:
    return ", ".join(one_line(name, characters=80) for name in names)


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
