"""Compares the cost of a token in two runs of an experiment, or on two engines or devices."""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from draftworth.analysis.pairing import Traffic, paired, samples_of
from draftworth.analysis.ratios import LogRatio, cost_amounts, log_cost_ratio, log_of_traffic
from draftworth.analysis.statistics import Estimate, interval_of
from draftworth.decision.facts import RunFacts, weights_of
from draftworth.errors import UserInputError
from draftworth.metrics.definitions import INTER_TOKEN_LATENCY as ITL
from draftworth.metrics.definitions import slot_usd_per_second
from draftworth.records.load_shapes import Load
from draftworth.records.reading import Run
from draftworth.records.results import values_of

# Runs whose mean lengths differ by more than this share did not do the same work.
ALIKE = 0.05


@dataclass(frozen=True, kw_only=True)
class Change:
    """One variant of one group in two runs. In each tuple, this run's figure is the first.

    ratio: this run's cost ratio / the other's. Its interval pairs the prompts of both runs; a
        comparison of the two runs' own intervals would not show a change of 10%.
    """

    label: str
    cost_ratios: tuple[Estimate | None, Estimate | None]
    ratio: Estimate | None
    baseline_itls_s: tuple[float | None, float | None]

    @property
    def is_shown(self) -> bool | None:
        ends = interval_of(self.ratio)
        return None if ends is None else not ends[0] <= 1 <= ends[1]


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
    return ours.over(theirs, runs=(first, second)).estimate()


@dataclass(frozen=True, kw_only=True)
class Across:
    """A variant of this run compared with a variant of a run on another engine or device.

    ratio: this run's cost of a token / the other's; in server seconds if a price is missing.
    usd: cost of a million output tokens in this run and in the other; None without a price.
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
class Elsewhere:
    """A run compared with a run on another engine or device, with the same prompts.

    rows: first those of the traffic mix, then those of each class. unlike: sentences on differences
        in the work of the two runs.
    """

    run: Run
    other: Run
    rows: tuple[Across, ...]
    unlike: tuple[str, ...]


def is_same_experiment(run: Run, other: Run) -> bool:
    """Return whether two runs are of one experiment: `changes` compares them, else `elsewhere`.

    False also if each has a single variant: then they have no verdict that could have changed.
    """
    alone = len(run.result.variants) == len(other.result.variants) == 1
    return run.result.experiment == other.result.experiment and not alone


def elsewhere(facts: RunFacts, other: RunFacts) -> Elsewhere:
    """Compare every variant of this run with every variant of the other.

    Raise UserInputError if the runs share no load, or differ in temperature or shared loads' cases.
    """
    different = list(_different_work(facts.run, other.run))
    if different:
        raise UserInputError(
            f"--against: {facts.run.result.run_id} and {other.run.result.run_id} cannot be "
            f"compared: {'; '.join(different)}. Measure both with the same prompts, loads and "
            "temperature"
        )
    loads = _loads(facts.run) & _loads(other.run)
    rows = (
        _across((facts.run, other.run), traffic, ours, theirs)
        for traffic in _traffics(facts)
        if traffic.load in loads
        for ours in facts.run.result.variants
        for theirs in other.run.result.variants
    )
    unlike = tuple(_unlike(facts, other, loads))
    return Elsewhere(run=facts.run, other=other.run, rows=tuple(rows), unlike=unlike)


def _loads(run: Run) -> set[Load]:
    return {block.load for block in run.blocks}


def _different_work(run: Run, other: Run) -> Iterator[str]:
    """Yield how the work of two runs differs at the loads that both have, in words."""
    loads = _loads(run) & _loads(other)
    ours, theirs = (
        replace(r, blocks=tuple(b for b in r.blocks if b.load in loads)) if loads else r
        for r in (run, other)
    )
    yield from _different(ours, theirs)


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
    found = None
    if cost and other_cost:
        found = cost.over(other_cost, runs=(run.result.run_id, other.result.run_id))
        if price and other_price:
            found = found.times(price / other_price)
    return Across(
        traffic=traffic,
        variant=ours,
        other_variant=theirs,
        ratio=found.estimate() if found else None,
        usd=(_usd(cost, price), _usd(other_cost, other_price)),
    )


def _usd(cost: LogRatio | None, usd_per_second: float | None) -> Estimate | None:
    return cost.times(usd_per_second * 1e6).estimate() if cost and usd_per_second else None


def _log_cost(run: Run, traffic: Traffic, variant: str) -> LogRatio | None:
    in_flight = traffic.load.in_flight
    if in_flight is None:
        return None
    samples = {g.prompt_class: samples_of(run.blocks, g, variant) for g in traffic.groups}
    found = log_of_traffic(samples, traffic.weights, cost_amounts)
    # Each request in flight takes an equal share of the server's time.
    return found.times(1 / in_flight) if found else None


def _unlike(facts: RunFacts, other: RunFacts, loads: set[Load]) -> Iterator[str]:
    if alone := _loads(facts.run) ^ _loads(other.run):
        yield f"{_few({load.label for load in alone})}: of one run alone, and not compared"
    groups = {group.group: group for group in other.groups}
    for group in (group for group in facts.groups if group.group.load in loads):
        sides = (group.baseline.records, groups[group.group].baseline.records)
        for what, field in (
            ("prompts", "number_input_tokens"),
            ("outputs", "number_output_tokens"),
        ):
            ours, theirs = (values_of(records, field) for records in sides)
            if not (ours and theirs):
                yield f"{group.group.label}: tokens of {what} are not counted by both servers"
                continue
            here, there = statistics.fmean(ours), statistics.fmean(theirs)
            if not abs(here - there) <= ALIKE * there:
                yield (
                    f"{group.group.label}: {what} have {here:.0f} tokens here and {there:.0f} "
                    "there, in the mean: it is not the same work, or not the same tokenizer"
                )


def changes(facts: RunFacts, other: RunFacts) -> tuple[Change, ...]:
    """Compare every variant that both runs have; raise UserInputError for runs that differ in
    experiment, baseline, temperature, classes, cases or loads, or share no speculative variant."""
    differences = list(_differences(facts.run, other.run))
    if differences:
        raise UserInputError(
            f"--against: {facts.run.result.run_id} and {other.run.result.run_id} cannot be "
            f"compared: {'; '.join(differences)}. Give two runs of the same experiment file"
        )
    found = []
    others = {(g.group, v.name): (v, g.baseline) for g in other.groups for v in g.speculative}
    for group in facts.groups:
        for variant in group.speculative:
            key = group.group, variant.name
            match, other_baseline = others.get(key, (None, group.baseline))
            if match and variant.comparison and match.comparison:
                change = Change(
                    label=variant.label,
                    cost_ratios=(variant.comparison.cost_ratio, match.comparison.cost_ratio),
                    ratio=_ratio((facts.run, other.run), Traffic.of(group.group), variant.name),
                    baseline_itls_s=(group.baseline.value(ITL), other_baseline.value(ITL)),
                )
                found.append(change)
    return tuple(found)


def may_be_compared(run: Run, other: Run) -> bool:
    """Return whether `changes` or `elsewhere` (see `is_same_experiment`) would accept both runs."""
    same = is_same_experiment(run, other)
    return not any(_differences(run, other) if same else _different_work(run, other))


def _differences(run: Run, other: Run) -> Iterator[str]:
    ours, theirs = run.result, other.result
    if ours.experiment != theirs.experiment:
        yield f"experiment {ours.experiment!r} and {theirs.experiment!r}"
    if ours.baseline != theirs.baseline:
        yield f"baseline {ours.baseline!r} and {theirs.baseline!r}"
    if not (set(ours.variants) & set(theirs.variants)) - {ours.baseline}:
        yield f"no speculative variant in both: {list(ours.variants)} and {list(theirs.variants)}"
    yield from _different(run, other)


def _different(run: Run, other: Run) -> Iterator[str]:
    mine, others = measured(run), measured(other)
    if mine != others:
        yield f"classes, cases or loads: {only_in_one(mine, others)}"
    ours, theirs = run.result.temperature, other.result.temperature
    if ours != theirs:
        yield f"temperature {ours:g} and {theirs:g}"


def measured(run: Run) -> set[str]:
    """Return every class, case and load of a run, in words."""
    return {f"{b.prompt_class}/{b.case} at {b.load.label}" for b in run.blocks}


def only_in_one(ours: set[str], theirs: set[str]) -> str:
    """Say which names only one of two runs has."""
    return f"only in the first {_few(ours - theirs)}, only in the second {_few(theirs - ours)}"


def _few(some: set[str]) -> str:
    names = sorted(some)
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{', '.join(names[:3])}{more}" if names else "nothing"
