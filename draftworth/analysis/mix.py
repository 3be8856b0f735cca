"""The verdict for the user's own traffic: prompt classes weighted by their part of its tokens.

A token of the mix costs, on average, the weighted mean of the classes' inter-token latencies, so
the speedup of the mix is weighted baseline ITL / weighted variant ITL. It is not the mean of the
speedups: a class that gets slower costs more time than its speedup lets it seem.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from draftworth.analysis.statistics import (
    CONFIDENCE,
    MIN_CLUSTERS,
    RESAMPLES,
    SEED,
    Estimate,
    quantile,
)
from draftworth.analysis.verdict import (
    MAX_EXCLUDED_SHARE,
    Group,
    Judgement,
    Pair,
    excluded_share,
    judge,
    output_throughput,
    pairs_by_prompt,
    too_many_excluded,
    usd_per_million_tokens,
)
from draftworth.records.load import Load
from draftworth.records.results import BlockResult, Price

ClassPairs = Mapping[str, Sequence[Sequence[Pair]]]


@dataclass(frozen=True, kw_only=True)
class MixVerdict:
    """What speculation does to the whole traffic at one load.

    usd_per_million_output_tokens: weighted over the classes; None without a price.
    saving_share: 1 - variant / baseline of that cost; negative: it costs more.
    """

    load: Load
    variant: str
    speedup: Estimate | None
    judgement: Judgement
    reason: str
    baseline_usd_per_million_output_tokens: float | None
    variant_usd_per_million_output_tokens: float | None

    @property
    def saving_share(self) -> float | None:
        """The part of the baseline's cost that is saved."""
        ours = self.baseline_usd_per_million_output_tokens
        theirs = self.variant_usd_per_million_output_tokens
        return 1 - theirs / ours if ours and theirs is not None else None


def judge_mix(
    blocks: Sequence[BlockResult],
    *,
    load: Load,
    variant: str,
    baseline: str,
    weights: Mapping[str, float],
    price: Price | None,
) -> MixVerdict:
    """The verdict on one variant for the weighted classes at one load."""
    groups = {name: Group(prompt_class=name, load=load) for name in weights}
    pairs = {
        name: pairs_by_prompt(blocks, group, variant=variant, baseline=baseline)
        for name, group in groups.items()
    }
    speedup = mix_speedup(pairs, weights) if all(pairs.values()) else None
    judgement, reason = judge(speedup)
    excluded = max(
        excluded_share(blocks, group, name)
        for group in groups.values()
        for name in (baseline, variant)
    )
    if excluded > MAX_EXCLUDED_SHARE:
        judgement, reason = "inconclusive", too_many_excluded(excluded)
    return MixVerdict(
        load=load,
        variant=variant,
        speedup=speedup,
        judgement=judgement,
        reason=reason,
        baseline_usd_per_million_output_tokens=_cost(blocks, groups, weights, baseline, price),
        variant_usd_per_million_output_tokens=_cost(blocks, groups, weights, variant, price),
    )


def mix_speedup(pairs: ClassPairs, weights: Mapping[str, float]) -> Estimate:
    """Weighted baseline ITL / weighted variant ITL, prompts resampled within each class."""
    low = high = None
    if all(len(clusters) >= MIN_CLUSTERS for clusters in pairs.values()):
        generator = random.Random(SEED)  # noqa: S311 (reproducible resampling, not a secret)
        drawn = [
            _ratio({n: generator.choices(c, k=len(c)) for n, c in pairs.items()}, weights)
            for _ in range(RESAMPLES)
        ]
        tail = (1 - CONFIDENCE) / 2
        low, high = quantile(drawn, tail), quantile(drawn, 1 - tail)
    return Estimate(
        value=_ratio(pairs, weights),
        low=low,
        high=high,
        prompts=sum(len(clusters) for clusters in pairs.values()),
        samples=sum(len(pair) for clusters in pairs.values() for pair in clusters),
    )


def _ratio(pairs: ClassPairs, weights: Mapping[str, float]) -> float:
    return _weighted(pairs, weights, side=0) / _weighted(pairs, weights, side=1)


def _weighted(pairs: ClassPairs, weights: Mapping[str, float], *, side: int) -> float:
    return sum(
        weights[name]
        * statistics.median(
            pair[side].inter_token_latency_s or 0.0 for cluster in clusters for pair in cluster
        )
        for name, clusters in pairs.items()
    )


def _cost(
    blocks: Sequence[BlockResult],
    groups: Mapping[str, Group],
    weights: Mapping[str, float],
    variant: str,
    price: Price | None,
) -> float | None:
    total = 0.0
    for name, group in groups.items():
        throughput = output_throughput(blocks, group, variant)
        cost = usd_per_million_tokens(price, variant, throughput)
        if cost is None:
            return None
        total += weights[name] * cost
    return total
