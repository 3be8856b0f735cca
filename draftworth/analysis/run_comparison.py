"""Two runs of one experiment side by side: did the cost of a token change?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from draftworth.analysis.facts import RunFacts
from draftworth.analysis.metrics import INTER_TOKEN_LATENCY
from draftworth.analysis.pairing import Traffic, paired
from draftworth.analysis.ratios import LogRatio
from draftworth.analysis.statistics import Estimate, Sample
from draftworth.analysis.verdict import log_cost_ratio
from draftworth.errors import UserInputError
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
    parts = (
        Sample(
            stratum=part.stratum,
            prompt=part.prompt,
            block=f"{run.result.run_id}/{part.block}",
            value=sign * part.value,
        )
        for run, ratio, sign in zip(runs, (ours, theirs), (1, -1), strict=True)
        for part in ratio.parts
    )
    return LogRatio(value=ours.value - theirs.value, parts=tuple(parts)).estimate()


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
