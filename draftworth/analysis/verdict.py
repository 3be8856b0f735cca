"""The verdict: what speculation does to a prompt class, and every rule that decides it.

Samples are paired: the same prompt in the same round, to the baseline and to the variant. A pair's
speedup is baseline latency / variant latency. Every speedup comes with its sample and an interval
that treats prompts, not requests, as independent (`statistics`).
"""

from __future__ import annotations

import hashlib
import statistics as stdlib_statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from draftworth.analysis import metrics
from draftworth.analysis.metrics import INTER_TOKEN_LATENCY, Metric
from draftworth.analysis.statistics import CONFIDENCE, Estimate, equivalent, estimate
from draftworth.analysis.summary import Group, summarize
from draftworth.records.results import BlockResult, RequestRecord

Judgement = Literal["pays", "does not pay", "costs", "inconclusive"]
Pair = tuple[RequestRecord, RequestRecord]
# Pairs of baseline and variant by case and prompt.
Pairs = Mapping[str, list[Pair]]

SHA256_OF_NOTHING = hashlib.sha256().hexdigest()
# A speedup that lies wholly within 5% of 1 is no gain and no loss worth a second model.
INDIFFERENCE = 0.05
# TTFT counts as unchanged when its difference is shown to be below this part of the baseline's.
TTFT_MARGIN_SHARE = 0.1
# Two one-sided tests at 5% are an interval of 90%.
TTFT_CONFIDENCE = 0.90
# With more excluded samples than this the client, not the server, may have been measured.
MAX_EXCLUDED_SHARE = 0.2


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One speculative variant against the baseline in one group.

    speedups: of every metric that has one. ttft_difference_s: variant - baseline, with a 90%
    interval. ttft_unchanged: shown to be below `TTFT_MARGIN_SHARE` of the baseline's; None:
    inconclusive.
    """

    group: Group
    variant: str
    pairs: int
    identical_outputs: int
    speedups: Mapping[Metric, Estimate | None]
    ttft_difference_s: Estimate | None
    ttft_unchanged: bool | None
    judgement: Judgement
    reason: str

    @property
    def itl_speedup(self) -> Estimate | None:
        """The one that decides the verdict."""
        return self.speedups[INTER_TOKEN_LATENCY]

    @property
    def identical_share(self) -> float | None:
        """Pairs with the same output / pairs."""
        return self.identical_outputs / self.pairs if self.pairs else None


def judge(speedup: Estimate | None, *, excluded_share: float = 0.0) -> tuple[Judgement, str]:
    """The verdict and why, in one sentence: the first rule that applies.

    excluded_share: the largest of all that took part.
    """
    if excluded_share > MAX_EXCLUDED_SHARE:
        return "inconclusive", (
            f"{excluded_share:.0%} of a variant's samples are excluded: the client waited for a "
            f"core (at most {MAX_EXCLUDED_SHARE:.0%}): give the client a core of its own"
        )
    if speedup is None:
        return "inconclusive", "no prompt has an inter-token latency on both sides"
    if speedup.low is None or speedup.high is None:
        return (
            "inconclusive",
            f"{speedup.prompts} prompts are too few for a {CONFIDENCE:.0%} interval",
        )
    if speedup.low > 1 + INDIFFERENCE:
        return "pays", f"decoding is at least {speedup.low:.2f} times as fast"
    if speedup.high < 1 - INDIFFERENCE:
        return "costs", f"decoding takes at least {1 / speedup.high:.2f} times as long"
    if speedup.low >= 1 - INDIFFERENCE and speedup.high <= 1 + INDIFFERENCE:
        return "does not pay", f"the difference is below {INDIFFERENCE:.0%} either way"
    return "inconclusive", (
        f"{speedup.low:.2f} to {speedup.high:.2f} does not decide it; measure more prompts"
    )


def compare(
    blocks: Sequence[BlockResult], group: Group, *, variant: str, baseline: str
) -> Comparison:
    """The verdict on one speculative variant in one group."""
    pairs = paired(blocks, group, variant=variant, baseline=baseline)
    both = [pair for cluster in pairs.values() for pair in cluster]
    speedups = {m: _speedup(pairs, m) for m in metrics.with_speedup()}
    difference = _estimate(pairs, metrics.TTFT, lambda a, b: b - a, confidence=TTFT_CONFIDENCE)
    judgement, reason = judge(
        speedups[INTER_TOKEN_LATENCY],
        excluded_share=max(
            summarize(blocks, group, name).excluded_share for name in (baseline, variant)
        ),
    )
    return Comparison(
        group=group,
        variant=variant,
        pairs=len(both),
        # Text that neither server sent shows nothing: it may be in a field that is not read.
        identical_outputs=sum(
            a.output_sha256 == b.output_sha256 != SHA256_OF_NOTHING for a, b in both
        ),
        speedups=speedups,
        ttft_difference_s=difference,
        ttft_unchanged=_ttft_unchanged(difference, both),
        judgement=judgement,
        reason=reason,
    )


def itl_speedup(
    blocks: Sequence[BlockResult], group: Group, *, variant: str, baseline: str
) -> Estimate | None:
    """Baseline ITL / variant ITL over the pairs of a group; None without a pair."""
    pairs = paired(blocks, group, variant=variant, baseline=baseline)
    return _speedup(pairs, INTER_TOKEN_LATENCY)


def paired(blocks: Sequence[BlockResult], group: Group, *, variant: str, baseline: str) -> Pairs:
    """The requests of a group that count on both sides, by case and prompt.

    Matched by case, round, prompt and its repetition in the block.
    """
    plain, drafted = (_by_identity(group.blocks(blocks, name)) for name in (baseline, variant))
    clusters: defaultdict[str, list[Pair]] = defaultdict(list)
    for key in sorted(plain.keys() & drafted.keys()):
        if plain[key].counts and drafted[key].counts:
            clusters[f"{key[0]}/{key[1]}"].append((plain[key], drafted[key]))
    return clusters


def _by_identity(
    blocks: Iterable[BlockResult],
) -> dict[tuple[str, str, int, int], RequestRecord]:
    found: dict[tuple[str, str, int, int], RequestRecord] = {}
    for block in blocks:
        repetitions: defaultdict[str, int] = defaultdict(int)
        for record in block.requests:
            repetition = repetitions[record.prompt_id]
            found[block.case, record.prompt_id, block.round, repetition] = record
            repetitions[record.prompt_id] += 1
    return found


def _speedup(pairs: Pairs, metric: Metric) -> Estimate | None:
    """How many times as good the variant is as the baseline."""
    if metric.better == "higher":
        return _estimate(pairs, metric, lambda plain, drafted: drafted / plain)
    return _estimate(pairs, metric, lambda plain, drafted: plain / drafted)


def _estimate(
    pairs: Pairs,
    metric: Metric,
    combine: Callable[[float, float], float],
    *,
    confidence: float = CONFIDENCE,
) -> Estimate | None:
    """Over all pairs that have the figure on both sides; None without one."""
    clusters: defaultdict[str, list[float]] = defaultdict(list)
    for prompt, cluster in pairs.items():
        for pair in cluster:
            plain, drafted = (getattr(record, metric.field) for record in pair)
            if plain and drafted:
                clusters[prompt].append(combine(plain, drafted))
    return estimate(clusters, confidence=confidence) if clusters else None


def _ttft_unchanged(difference: Estimate | None, pairs: Iterable[Pair]) -> bool | None:
    baseline = [plain.ttft_s for plain, _ in pairs if plain.ttft_s is not None]
    if difference is None or not baseline:
        return None
    return equivalent(difference, margin=TTFT_MARGIN_SHARE * stdlib_statistics.median(baseline))
