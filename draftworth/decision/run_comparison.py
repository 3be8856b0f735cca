"""Compares the cost of a token in two runs of an experiment."""

from collections.abc import Sequence
from dataclasses import dataclass

from draftworth.analysis.comparable_runs import Difference, differences
from draftworth.analysis.pairing import Traffic, paired
from draftworth.analysis.ratios import log_cost_ratio
from draftworth.analysis.statistics import Estimate, interval_of
from draftworth.decision.best_of_many import confidence_of_each
from draftworth.decision.facts import RunFacts
from draftworth.decision.reasons import Doubt
from draftworth.decision.verdict import Comparison
from draftworth.metrics.definitions import INTER_TOKEN_LATENCY as ITL
from draftworth.records.run_folder import Run


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
    doubt: why the cost ratio of one of the runs is not believed; None: both are.
    """

    label: str
    cost_ratios: tuple[Estimate | None, Estimate | None]
    ratio: Estimate | None
    baseline_itls_s: tuple[float | None, float | None]
    doubt: Doubt | None = None

    @property
    def is_shown(self) -> bool | None:
        """Whether the variant's effect is shown to differ; None: the runs cannot show that."""
        return None if self.doubt else is_shown(self.ratio)


def is_shown(ratio: Estimate | None) -> bool | None:
    """Return whether a ratio of two runs' figures is shown not to be 1; None: they cannot show it.

    With a few repetitions, the interval holds for their starts of the servers alone. Two runs
    always have different starts, and starts may differ by more than what is looked for.
    """
    ends = interval_of(ratio)
    if ratio is None or ends is None or ratio.holds_for_repetitions is not None:
        return None
    return not ends[0] <= 1 <= ends[1]


def _doubt(*comparisons: Comparison) -> Doubt | None:
    return next((c.doubt for c in comparisons if c.doubt), None)


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
    return ours.over(theirs, runs=(first, second)).estimate(confidence=confidence_of_two(runs))


def confidence_of_two(runs: Sequence[Run], *, count: int = 1) -> float:
    """Return the confidence of each of `count` intervals of two runs.

    It is as high as the run with more looks needs it.
    """
    return confidence_of_each(count, looks=max(run.result.looks for run in runs))


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
                    doubt=_doubt(variant.comparison, match.comparison),
                )
                compared.append(change)
    return tuple(compared)
