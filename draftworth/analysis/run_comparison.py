"""Two runs of one experiment side by side: did the speedup change?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from draftworth.analysis.facts import RunFacts
from draftworth.analysis.metrics import INTER_TOKEN_LATENCY
from draftworth.analysis.statistics import Estimate
from draftworth.errors import UserInputError
from draftworth.records.reading import Run


@dataclass(frozen=True, kw_only=True)
class Change:
    """One variant of one group in both runs; difference: this run's speedup - the other's."""

    label: str
    speedup: Estimate | None
    other_speedup: Estimate | None
    baseline_itl_s: float | None
    other_baseline_itl_s: float | None

    @property
    def difference(self) -> float | None:
        """None when one of the speedups is missing."""
        if self.speedup is None or self.other_speedup is None:
            return None
        return self.speedup.value - self.other_speedup.value

    @property
    def overlap(self) -> bool | None:
        """Whether the intervals overlap; None when one is missing."""
        return overlap(self.speedup, self.other_speedup)


def overlap(one: Estimate | None, other: Estimate | None) -> bool | None:
    """Whether two intervals have a point in common; None when one is missing."""
    if one is None or other is None or one.low is None or other.low is None:
        return None
    if one.high is None or other.high is None:
        return None
    return one.low <= other.high and other.low <= one.high


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
                    speedup=variant.comparison.itl_speedup,
                    other_speedup=match.comparison.itl_speedup,
                    baseline_itl_s=group.baseline.value(INTER_TOKEN_LATENCY),
                    other_baseline_itl_s=other_baseline.value(INTER_TOKEN_LATENCY),
                )


def _differences(run: Run, other: Run) -> Iterator[str]:
    ours, theirs = run.result, other.result
    if ours.experiment != theirs.experiment:
        yield f"experiment {ours.experiment!r} and {theirs.experiment!r}"
    if ours.baseline != theirs.baseline:
        yield f"baseline {ours.baseline!r} and {theirs.baseline!r}"
    if not (set(ours.variants) & set(theirs.variants)) - {ours.baseline}:
        yield f"no speculative variant in both: {list(ours.variants)} and {list(theirs.variants)}"
    mine, others = _measured(run), _measured(other)
    if mine != others:
        only = sorted(mine - others), sorted(others - mine)
        yield (
            f"classes, cases or loads: only in the first {_few(only[0])}, only in the second "
            f"{_few(only[1])}"
        )


def _measured(run: Run) -> set[str]:
    return {f"{b.prompt_class}/{b.case} at {b.load.label}" for b in run.blocks}


def _few(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{', '.join(names[:3])}{more}" if names else "nothing"
