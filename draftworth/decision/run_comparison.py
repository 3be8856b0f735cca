"""Compares the cost of a token in two runs of an experiment, or on two engines or devices."""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from draftworth.analysis.comparable_runs import (
    Difference,
    differences,
    different_work,
    loads_of,
)
from draftworth.analysis.pairing import Traffic, paired, samples_of
from draftworth.analysis.ratios import LogRatio, cost_amounts, log_cost_ratio, log_of_traffic
from draftworth.analysis.statistics import Estimate, interval_of
from draftworth.analysis.summary import Group
from draftworth.decision.best_of_many import confidence_of_each
from draftworth.decision.facts import GroupFacts, RunFacts, weights_of
from draftworth.metrics.definitions import INTER_TOKEN_LATENCY as ITL
from draftworth.metrics.definitions import slot_usd_per_second
from draftworth.records.load_shapes import Load
from draftworth.records.results import values_of
from draftworth.records.run_folder import Run

# Two runs did not do the same work if the mean lengths of their prompts or outputs differ by more
# than this share.
ALIKE = 0.05


class NotComparedError(Exception):
    """Raised if two runs cannot be compared. `report/run_differences.py` has the words.

    first, second: the ids of the runs. of_one_experiment: whether they were to be compared as runs
    of one experiment (`changes`), not as runs of the same work (`elsewhere`).
    """

    def __init__(
        self,
        facts: RunFacts,
        other: RunFacts,
        differences: Sequence[Difference],
        *,
        of_one_experiment: bool,
    ) -> None:
        self.first, self.second = (f.run.result.run_id for f in (facts, other))
        self.differences = tuple(differences)
        self.of_one_experiment = of_one_experiment
        super().__init__(self.first, self.second, self.differences)


@dataclass(frozen=True, kw_only=True)
class Change:
    """How one variant's figures in one group (a prompt class at one load) differ in two runs.

    In each tuple, the figure of this run is the first, that of the other run the second.

    cost_ratios: the variant's cost of a token / the baseline's, in each run.
    ratio: this run's cost ratio / the other's. Its interval compares each prompt with the same
        prompt in the other run, so differences between prompts do not widen it. Comparing the
        intervals of the two runs' own cost ratios, which are wider, would not show a change of 10%.
    baseline_itls_s: the baseline's median ITL in seconds per token, in each run.
    """

    label: str
    cost_ratios: tuple[Estimate | None, Estimate | None]
    ratio: Estimate | None
    baseline_itls_s: tuple[float | None, float | None]

    @property
    def is_shown(self) -> bool | None:
        """Whether the variant's effect is shown to differ; None: the runs cannot show that.

        With a few repetitions, the interval holds for their starts of the servers alone. Two runs
        always have different starts, and starts may differ by more than what is looked for.
        """
        ends = interval_of(self.ratio)
        if self.ratio is None or ends is None or self.ratio.holds_for_repetitions is not None:
            return None
        return not ends[0] <= 1 <= ends[1]


def _ratio(runs: Sequence[Run], traffic: Traffic, variant: str) -> Estimate | None:
    ours, theirs = (
        log_cost_ratio(
            paired(run.blocks, traffic, variant=variant, baseline=run.result.baseline), traffic
        )
        for run in runs
    )
    if ours is None or theirs is None:
        return None
    first, second = (run.result.run_id for run in runs)
    return ours.over(theirs, runs=(first, second)).estimate(confidence=_confidence(runs))


def _confidence(runs: Sequence[Run]) -> float:
    """Return the confidence of an interval of two runs: that of the run with more looks."""
    return confidence_of_each(1, looks=max(run.result.looks for run in runs))


@dataclass(frozen=True, kw_only=True)
class Across:
    """A variant of this run compared with a variant of a run on another engine or device.

    ratio: the cost of a token in this run / in the other run, in US dollars or, if a price is
        missing, in server seconds; None: not known.
    usd: cost in US dollars of a million output tokens in (this run, the other run); None without a
        price.
    """

    traffic: Traffic
    variant: str
    other_variant: str
    ratio: Estimate | None
    usd: tuple[Estimate | None, Estimate | None]

    @property
    def is_cost(self) -> bool:
        return None not in self.usd


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
    """

    run: Run
    other: Run
    rows: tuple[Across, ...]
    unlike: tuple[Unlike, ...]


def elsewhere(facts: RunFacts, other: RunFacts) -> Elsewhere:
    """Compare every variant of a run with every variant of a run on another engine or device.

    Raise NotComparedError if the runs share no load, if they differ in temperature, or if they
    measured different cases at a load that both have.
    """
    if different := [*different_work(facts.run, other.run)]:
        raise NotComparedError(facts, other, different, of_one_experiment=False)
    loads = loads_of(facts.run) & loads_of(other.run)
    rows = (
        _across((facts.run, other.run), traffic, ours, theirs)
        for traffic in _traffics(facts)
        if traffic.load in loads
        for ours in facts.run.result.variants
        for theirs in other.run.result.variants
    )
    unlike = tuple(_unlike(facts, other, loads))
    return Elsewhere(run=facts.run, other=other.run, rows=tuple(rows), unlike=unlike)


def _traffics(facts: RunFacts) -> Iterator[Traffic]:
    weights = weights_of(facts.run)
    if len(weights) > 1:
        for load in dict.fromkeys(group.group.load for group in facts.groups):
            yield Traffic(weights=weights, load=load)
    yield from (Traffic.of(group.group) for group in facts.groups)


def _across(runs: tuple[Run, Run], traffic: Traffic, ours: str, theirs: str) -> Across:
    (run, other), names = runs, (ours, theirs)
    cost, other_cost = (_log_cost(r, traffic, name) for r, name in zip(runs, names, strict=True))
    price, other_price = (
        slot_usd_per_second(r.result.price, name) for r, name in zip(runs, names, strict=True)
    )
    log_ratio = None
    if cost and other_cost:
        log_ratio = cost.over(other_cost, runs=(run.result.run_id, other.result.run_id))
        if price and other_price:
            log_ratio = log_ratio.times(price / other_price)
    return Across(
        traffic=traffic,
        variant=ours,
        other_variant=theirs,
        ratio=log_ratio.estimate(confidence=_confidence(runs)) if log_ratio else None,
        usd=(_usd(cost, price), _usd(other_cost, other_price)),
    )


def _usd(cost: LogRatio | None, usd_per_second: float | None) -> Estimate | None:
    return cost.times(usd_per_second * 1e6).estimate() if cost and usd_per_second else None


def _log_cost(run: Run, traffic: Traffic, variant: str) -> LogRatio | None:
    in_flight = traffic.load.in_flight
    if in_flight is None:
        return None
    samples = {g.prompt_class: samples_of(run.blocks, g, variant) for g in traffic.groups}
    log_cost = log_of_traffic(samples, traffic.weights, cost_amounts)
    # `log_cost` is of a request's seconds per token. Each request in flight takes an equal share of
    # the server's time, so a token costs (these seconds / requests in flight) server seconds.
    return log_cost.times(1 / in_flight) if log_cost else None


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


def changes(facts: RunFacts, other: RunFacts) -> tuple[Change, ...]:
    """Compare each variant that two runs of one experiment share, in each class at each load.

    Raise NotComparedError if the runs differ in experiment, baseline, temperature, classes, cases
    or loads, or if they share no speculative variant.
    """
    if different := [*differences(facts.run, other.run)]:
        raise NotComparedError(facts, other, different, of_one_experiment=True)
    compared = []
    other_variants = {
        (g.group, v.name): (v, g.baseline) for g in other.groups for v in g.speculative
    }
    for group in facts.groups:
        for variant in group.speculative:
            key = group.group, variant.name
            match, other_baseline = other_variants.get(key, (None, group.baseline))
            if match and variant.comparison and match.comparison:
                change = Change(
                    label=variant.label,
                    cost_ratios=(variant.comparison.cost_ratio, match.comparison.cost_ratio),
                    ratio=_ratio((facts.run, other.run), Traffic.of(group.group), variant.name),
                    baseline_itls_s=(group.baseline.value(ITL), other_baseline.value(ITL)),
                )
                compared.append(change)
    return tuple(compared)
