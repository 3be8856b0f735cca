"""Compares the cost of a token in a run with that in a run on another engine or device."""

import statistics
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from draftworth.analysis.comparable_runs import (
    Difference,
    different_prompts,
    different_servers,
    different_work,
    loads_of,
)
from draftworth.analysis.pairing import Traffic
from draftworth.analysis.prefix_cache import ColdEvidence, why_not_cold
from draftworth.analysis.ratios import LogRatio, log_seconds_per_token
from draftworth.analysis.statistics import Estimate
from draftworth.analysis.summary import Group
from draftworth.decision.facts import GroupFacts, RunFacts, weights_of
from draftworth.decision.reasons import Doubt
from draftworth.decision.run_comparison import NotComparedError, confidence_of_two, is_shown
from draftworth.metrics.definitions import slot_usd_per_second
from draftworth.records.load_shapes import Load
from draftworth.records.results import AS_SHIPPED, values_of
from draftworth.records.run_folder import Run

# Two runs have not done equal work if the mean lengths of their prompts or outputs differ by more
# than this share.
ALIKE = 0.05


@dataclass(frozen=True, kw_only=True)
class Across:
    """A variant of this run compared with a variant of a run on another engine or device.

    ratio: the cost of a token in this run / in the other run, in US dollars or, if a price is
        missing, in server seconds; None: not known.
    usd: cost in US dollars of a million output tokens in (this run, the other run); None without a
        price.
    doubts: why the variant's figures are not believed in (this run, the other run); None: they are.
    """

    traffic: Traffic
    variant: str
    other_variant: str
    ratio: Estimate | None
    usd: tuple[Estimate | None, Estimate | None]
    doubts: tuple[Doubt | None, Doubt | None] = (None, None)

    @property
    def is_cost(self) -> bool:
        return None not in self.usd

    @property
    def is_shown(self) -> bool | None:
        """Whether the variants are shown to differ in cost; None: the runs cannot show that."""
        return None if any(self.doubts) else is_shown(self.ratio)


@dataclass(frozen=True, kw_only=True)
class LoadsOfOneRun:
    """Loads that only one of two runs measured, so they are not compared."""

    loads: frozenset[Load]


@dataclass(frozen=True, kw_only=True)
class TokensNotCounted:
    """The tokens of prompts or of outputs in a group are counted by at most one run's server."""

    group: Group
    of: Literal["prompts", "outputs"]


@dataclass(frozen=True, kw_only=True)
class LengthsDiffer:
    """The mean lengths of the prompts or of the outputs in a group differ between two runs.

    first, second: the mean number of tokens in each run, by the baseline's server.
    """

    group: Group
    of: Literal["prompts", "outputs"]
    first: float
    second: float


# What is not alike in the work of two runs that can be compared all the same.
Unlike = LoadsOfOneRun | TokensNotCounted | LengthsDiffer


@dataclass(frozen=True, kw_only=True)
class Elsewhere:
    """A run compared with another run that sent the same prompts to another engine or device.

    rows: comparisons of variants; those in the traffic mix are first, then those in each class.
    unlike: differences in the work of the two runs.
    differences: differences in prompts, and in what served them.
    winners: this run's winner compared with each server of the other run that does not speculate,
        in the traffic that the decision is about. The intervals are wider than in `rows`: the
        winner was chosen from several comparisons, and looks cheaper than it is. Empty if this run
        has no winner for all traffic, or if prompts differ.
    """

    run: Run
    other: Run
    rows: tuple[Across, ...]
    unlike: tuple[Unlike, ...]
    differences: tuple[Difference, ...]
    winners: tuple[Across, ...]


def elsewhere(facts: RunFacts, other: RunFacts) -> Elsewhere:
    """Compare every variant of a run with every variant of a run on another engine or device.

    Raise NotComparedError if the runs share no load, if they differ in temperature, or if they
    measured different cases at a load that both have.
    """
    if different := [*different_work(facts.run, other.run)]:
        raise NotComparedError(facts, other, different, of_one_experiment=False)
    loads = loads_of(facts.run) & loads_of(other.run)
    rows = (
        _across((facts, other), traffic, ours, theirs)
        for traffic in _traffics(facts)
        if traffic.load in loads
        for ours in facts.run.result.variants
        for theirs in other.run.result.variants
    )
    other_prompts = tuple(different_prompts(facts.run, other.run))
    return Elsewhere(
        run=facts.run,
        other=other.run,
        rows=tuple(rows),
        unlike=tuple(_unlike(facts, other, loads)),
        differences=(*other_prompts, *different_servers(facts.run, other.run)),
        winners=() if other_prompts else tuple(_winners(facts, other, loads)),
    )


def _winners(facts: RunFacts, other: RunFacts, loads: set[Load]) -> Iterator[Across]:
    decision, result = facts.decision, other.run.result
    if decision.serve is None or decision.comparison is None:
        return
    plain = [n for n in result.variants if n in (result.baseline, AS_SHIPPED)]
    candidates = {*facts.run.result.variants} - {facts.run.result.baseline, AS_SHIPPED}
    measured = dict.fromkeys(group.group.load for group in facts.groups)
    count = len(candidates) * len(measured) * len(plain)
    for load in (n for n in measured if n in loads and n.has_cost_per_token):
        traffic = replace(decision.comparison.traffic, load=load)
        for theirs in plain:
            yield _across((facts, other), traffic, decision.serve, theirs, count=count)


def _traffics(facts: RunFacts) -> Iterator[Traffic]:
    weights = weights_of(facts.run)
    if len(weights) > 1:
        for load in dict.fromkeys(group.group.load for group in facts.groups):
            yield Traffic(weights=weights, load=load)
    yield from (Traffic.of(group.group) for group in facts.groups)


def _across(
    facts: tuple[RunFacts, RunFacts], traffic: Traffic, ours: str, theirs: str, *, count: int = 1
) -> Across:
    names, runs = (ours, theirs), (facts[0].run, facts[1].run)
    run, other = runs
    cost, other_cost = (_log_cost(r, traffic, name) for r, name in zip(runs, names, strict=True))
    price, other_price = (
        slot_usd_per_second(r.result.price, name) for r, name in zip(runs, names, strict=True)
    )
    log_ratio, confidence = None, confidence_of_two(runs, count=count)
    if cost and other_cost:
        log_ratio = cost.over(other_cost, runs=(run.result.run_id, other.result.run_id))
        if price and other_price:
            log_ratio = log_ratio.times(price / other_price)
    return Across(
        traffic=traffic,
        variant=ours,
        other_variant=theirs,
        ratio=log_ratio.estimate(confidence=confidence) if log_ratio else None,
        usd=(_usd(cost, price), _usd(other_cost, other_price)),
        doubts=(_doubt(facts[0], traffic, ours), _doubt(facts[1], traffic, theirs)),
    )


def _doubt(facts: RunFacts, traffic: Traffic, variant: str) -> Doubt | None:
    """Return why a variant's figures in a traffic are not believed; None: nothing shows that.

    A doubt about two servers that a run compares is one about each of them, and one about a traffic
    mix holds for its classes. A run of one server compares nothing, and may have a prefix cache.
    """
    doubts: list[Doubt] = [
        c.doubt
        for c in facts.comparisons
        if c.doubt
        and variant in (c.variant, c.baseline)
        and c.traffic.load == traffic.load
        and not c.traffic.weights.keys().isdisjoint(traffic.weights)
    ]
    if doubts:
        return doubts[0]
    evidence = ColdEvidence.in_run(facts.run.result)
    return why_not_cold(facts.run.blocks, traffic, [variant], evidence)


def _usd(cost: LogRatio | None, usd_per_second: float | None) -> Estimate | None:
    return cost.times(usd_per_second * 1e6).estimate() if cost and usd_per_second else None


def _log_cost(run: Run, traffic: Traffic, variant: str) -> LogRatio | None:
    in_flight = traffic.load.in_flight
    if in_flight is None:
        return None
    log_seconds = log_seconds_per_token(run.blocks, traffic, variant)
    # Each request in flight takes an equal share of the server's time, so a token costs (the
    # seconds of a request / requests in flight) server seconds.
    return log_seconds.times(1 / in_flight) if log_seconds else None


def _unlike(facts: RunFacts, other: RunFacts, loads: set[Load]) -> Iterator[Unlike]:
    if alone := loads_of(facts.run) ^ loads_of(other.run):
        yield LoadsOfOneRun(loads=frozenset(alone))
    other_groups = {group.group: group for group in other.groups}
    for group in facts.groups:
        if group.group.load in loads:
            yield from _unlike_lengths(group, other_groups[group.group])


def _unlike_lengths(
    ours: GroupFacts, theirs: GroupFacts
) -> Iterator[TokensNotCounted | LengthsDiffer]:
    fields: dict[Literal["prompts", "outputs"], str] = {
        "prompts": "number_input_tokens",
        "outputs": "number_output_tokens",
    }
    for of, field in fields.items():
        lengths = [values_of(group.baseline.records, field) for group in (ours, theirs)]
        if not all(lengths):
            yield TokensNotCounted(group=ours.group, of=of)
            continue
        first, second = map(statistics.fmean, lengths)
        if not abs(first - second) <= ALIKE * second:
            yield LengthsDiffer(group=ours.group, of=of, first=first, second=second)
