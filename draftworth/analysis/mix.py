"""The verdict for the user's own traffic: prompt classes weighted by their part of its tokens.

A token of the mix costs, on average, the weighted mean of the classes' inter-token latencies, so
the speedup of the mix is weighted baseline ITL / weighted variant ITL. It is not the mean of the
speedups: a class that gets slower costs more time than its speedup shows.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from draftworth.analysis.metrics import COST
from draftworth.analysis.statistics import Estimate, Strata, stratified_estimate
from draftworth.analysis.summary import Group, VariantSummary, summarize
from draftworth.analysis.verdict import Judgement, Pairs, judge, paired
from draftworth.records.load import Load
from draftworth.records.reading import Run
from draftworth.records.results import AS_SHIPPED


@dataclass(frozen=True, kw_only=True)
class MixVerdict:
    """What speculation does to the whole traffic at one load, compared with `baseline`.

    usd_per_million_output_tokens: weighted over the classes; None without a price.
    saving_share: 1 - variant / baseline of that cost; negative: it costs more.
    """

    load: Load
    variant: str
    baseline: str
    speedup: Estimate | None
    judgement: Judgement
    reason: str
    baseline_usd_per_million_output_tokens: float | None
    variant_usd_per_million_output_tokens: float | None

    @property
    def name(self) -> str:
        """The variant, and what it is compared with where that is not the run's baseline."""
        against = f" against {AS_SHIPPED}" if self.baseline == AS_SHIPPED else ""
        return f"{self.variant}{against}"

    @property
    def saving_share(self) -> float | None:
        """The part of the baseline's cost that is saved."""
        ours = self.baseline_usd_per_million_output_tokens
        theirs = self.variant_usd_per_million_output_tokens
        return 1 - theirs / ours if ours and theirs is not None else None


def judge_mix(run: Run, *, load: Load, variant: str, baseline: str) -> MixVerdict:
    """The verdict on one variant for the run's weighted classes at one load."""
    weights = run.result.class_weights
    groups = [Group(prompt_class=name, load=load) for name in weights]
    plain, drafted = (
        [summarize(run.blocks, group, name, run.result.price) for group in groups]
        for name in (baseline, variant)
    )
    pairs = {
        g.prompt_class: _itl_pairs(paired(run.blocks, g, variant=variant, baseline=baseline))
        for g in groups
    }
    speedup = None
    if all(pairs.values()):
        speedup = stratified_estimate(pairs, lambda drawn: _ratio(drawn, weights))
    judgement, reason = judge(
        speedup, excluded_share=max(s.excluded_share for s in (*plain, *drafted))
    )
    return MixVerdict(
        load=load,
        variant=variant,
        baseline=baseline,
        speedup=speedup,
        judgement=judgement,
        reason=reason,
        baseline_usd_per_million_output_tokens=_cost(plain, weights),
        variant_usd_per_million_output_tokens=_cost(drafted, weights),
    )


def _itl_pairs(pairs: Pairs) -> list[list[tuple[float, float]]]:
    """ITL of baseline and variant of each pair, prompt by prompt."""
    clusters = (
        [
            (plain.inter_token_latency_s, drafted.inter_token_latency_s)
            for plain, drafted in cluster
            if plain.inter_token_latency_s and drafted.inter_token_latency_s
        ]
        for cluster in pairs.values()
    )
    return [cluster for cluster in clusters if cluster]


def _ratio(pairs: Strata[tuple[float, float]], weights: Mapping[str, float]) -> float:
    """Weighted baseline ITL / weighted variant ITL."""
    plain, drafted = (
        sum(
            weights[name] * statistics.median(pair[side] for cluster in c for pair in cluster)
            for name, c in pairs.items()
        )
        for side in (0, 1)
    )
    return plain / drafted


def _cost(summaries: Sequence[VariantSummary], weights: Mapping[str, float]) -> float | None:
    costs = {s.group.prompt_class: s.value(COST) for s in summaries}
    known = [weights[name] * cost for name, cost in costs.items() if cost is not None]
    return sum(known) if len(known) == len(costs) else None
