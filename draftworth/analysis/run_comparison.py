"""Two runs side by side: did the cost of a token change, or what does it cost elsewhere?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from draftworth.analysis.costs import slot_usd_per_second
from draftworth.analysis.facts import RunFacts, VariantFacts
from draftworth.analysis.metrics import COST, INTER_TOKEN_LATENCY
from draftworth.analysis.pairing import Traffic, paired, samples_of
from draftworth.analysis.ratios import LogRatio, cost_amounts, log_cost_ratio, log_of_sums
from draftworth.analysis.statistics import Estimate
from draftworth.analysis.summary import Group
from draftworth.errors import UserInputError
from draftworth.records.load import PoissonLoad
from draftworth.records.reading import Run


@dataclass(frozen=True, kw_only=True)
class Change:
    """One variant of one group in both runs.

    ratio: this run's cost ratio / the other's, with an interval in which the prompts, which both
        runs had, are paired; two intervals side by side would hide a change of 10%.
    """

    label: str
    cost_ratio: Estimate | None
    other_cost_ratio: Estimate | None
    ratio: Estimate | None
    baseline_itl_s: float | None
    other_baseline_itl_s: float | None

    @property
    def is_shown(self) -> bool | None:
        """Whether there is a difference beyond chance; None: no interval to say."""
        if self.ratio is None or self.ratio.low is None or self.ratio.high is None:
            return None
        return not self.ratio.low <= 1 <= self.ratio.high


def _ratio(runs: Sequence[Run], traffic: Traffic, variant: str) -> Estimate | None:
    """The first run's cost ratio / the second's."""
    found = [
        log_cost_ratio(
            paired(run.blocks, traffic, variant=variant, baseline=run.result.baseline), traffic
        )
        for run in runs
    ]
    ours, theirs = found
    if ours is None or theirs is None:
        return None
    first, second = (run.result.run_id for run in runs)
    return ours.over(theirs, runs=(first, second)).estimate()


@dataclass(frozen=True, kw_only=True)
class Across:
    """A variant of this run beside one of a run of something else: another engine or device.

    ratio: this one's / the other's of what a token costs, or of the seconds that it takes where a
        price is missing. usd: of a million output tokens, here and there.
    """

    group: Group
    variant: str
    other_variant: str
    ratio: Estimate | None
    usd: tuple[float | None, float | None]

    @property
    def is_cost(self) -> bool:
        """Whether both have a price."""
        return None not in self.usd


def across(facts: RunFacts, other: RunFacts) -> tuple[Across, ...]:
    """Every variant of this run beside every one of the other, group by group.

    Raises:
        UserInputError: they were not asked the same prompts at the same loads and temperature.
    """
    different = list(_different(facts.run, other.run))
    if different:
        raise UserInputError(
            f"--against: {facts.run.result.run_id} and {other.run.result.run_id} cannot be "
            f"compared: {'; '.join(different)}. Measure both with the same prompts, loads and "
            "temperature"
        )
    groups = {group.group: group for group in other.groups}
    return tuple(
        _across((facts.run, other.run), group.group, ours, theirs)
        for group in facts.groups
        for ours in group.variants
        for theirs in groups[group.group].variants
    )


def _across(
    runs: tuple[Run, Run], group: Group, ours: VariantFacts, theirs: VariantFacts
) -> Across:
    (run, other), names = runs, (ours.name, theirs.name)
    cost, other_cost = (_log_cost(r, group, name) for r, name in zip(runs, names, strict=True))
    price, other_price = (
        slot_usd_per_second(r.result.price, name) for r, name in zip(runs, names, strict=True)
    )
    found = None
    if cost and other_cost:
        found = cost.over(other_cost, runs=(run.result.run_id, other.result.run_id))
        if price and other_price:
            found = found.times(price / other_price)
    return Across(
        group=group,
        variant=ours.name,
        other_variant=theirs.name,
        ratio=found.estimate() if found else None,
        usd=(ours.value(COST), theirs.value(COST)),
    )


def _log_cost(run: Run, group: Group, variant: str) -> LogRatio | None:
    """Of the server's seconds for an output token; None for arrivals at a rate."""
    if isinstance(group.load, PoissonLoad):
        return None
    return log_of_sums(samples_of(run.blocks, group, variant), cost_amounts)


def changes(facts: RunFacts, other: RunFacts) -> tuple[Change, ...]:
    """Every variant that both runs have, group by group.

    Raises:
        UserInputError: the runs did not measure the same thing.
    """
    differences = list(_differences(facts.run, other.run))
    if differences:
        raise UserInputError(
            f"--against: {facts.run.result.run_id} and {other.run.result.run_id} cannot be "
            f"compared: {'; '.join(differences)}. Give two runs of the same experiment file"
        )
    return tuple(_changes(facts, other))


def _changes(facts: RunFacts, other: RunFacts) -> Iterator[Change]:
    others = {(g.group, v.name): (v, g.baseline) for g in other.groups for v in g.speculative}
    for group in facts.groups:
        for variant in group.speculative:
            key = group.group, variant.name
            match, other_baseline = others.get(key, (None, group.baseline))
            if match and variant.comparison and match.comparison:
                yield Change(
                    label=variant.label,
                    cost_ratio=variant.comparison.cost_ratio,
                    other_cost_ratio=match.comparison.cost_ratio,
                    ratio=_ratio((facts.run, other.run), Traffic.of(group.group), variant.name),
                    baseline_itl_s=group.baseline.value(INTER_TOKEN_LATENCY),
                    other_baseline_itl_s=other_baseline.value(INTER_TOKEN_LATENCY),
                )


def may_be_compared(run: Run, other: Run) -> bool:
    """Whether `changes`, or for runs of two experiments `across`, would refuse neither."""
    same = run.result.experiment == other.result.experiment
    return not any(_differences(run, other) if same else _different(run, other))


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
    """What the two runs' servers were not asked alike."""
    mine, others = measured(run), measured(other)
    if mine != others:
        yield (
            f"classes, cases or loads: only in the first {few(sorted(mine - others))}, only in "
            f"the second {few(sorted(others - mine))}"
        )
    ours, theirs = run.result.temperature, other.result.temperature
    if ours != theirs:
        yield f"temperature {ours:g} and {theirs:g}"


def measured(run: Run) -> set[str]:
    """Every class, case and load of a run."""
    return {f"{b.prompt_class}/{b.case} at {b.load.label}" for b in run.blocks}


def few(names: list[str]) -> str:
    """The first of them, for a message."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{', '.join(names[:3])}{more}" if names else "nothing"
