"""From result files to the verdict: each prompt class, each variant, and what speculation does.

Samples are paired by case and prompt: the same request to the baseline and to the variant. A
pair's speedup is baseline ITL / speculative ITL; the median over pairs is reported with a
distribution-free 95% interval from order statistics (Conover, Practical Nonparametric Statistics,
"confidence interval for a quantile").
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from draftbench.results import BlockResult, RequestRecord, values_of

Judgement = Literal["pays", "does not pay", "costs", "cannot tell"]

CONFIDENCE = 0.95
# A speedup that lies wholly within 5% of 1 is no gain and no loss worth a second model.
INDIFFERENCE = 0.05


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A median with the interval that holds it with 95% confidence; None: too few samples."""

    median: float
    low: float | None
    high: float | None


@dataclass(frozen=True, kw_only=True)
class VariantSummary:
    """One variant's figures in one prompt class. Medians over requests; seconds and tokens.

    acceptance_rate is by the server's own counters over all blocks, None when it has none.
    """

    prompt_class: str
    variant: str
    requests: int
    failed: int
    spoilt: int
    inter_token_latency_s: float | None
    ttft_s: float | None
    end_to_end_latency_s: float | None
    output_throughput_token_per_s: float | None
    tokens_per_step: float | None
    acceptance_rate: float | None


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One speculative variant against the baseline in one prompt class.

    `pairs` have an inter-token latency on both sides; `usable_pairs` neither failed nor are spoilt.
    """

    prompt_class: str
    variant: str
    pairs: int
    speedup: Interval | None
    identical_outputs: int
    usable_pairs: int
    judgement: Judgement
    reason: str


def summarize(blocks: Sequence[BlockResult], *, prompt_class: str, variant: str) -> VariantSummary:
    """The figures of one variant in one class."""
    own = [b for b in blocks if b.prompt_class == prompt_class and b.variant == variant]
    records = [r for b in own for r in b.requests]
    return VariantSummary(
        prompt_class=prompt_class,
        variant=variant,
        requests=len(records),
        failed=sum(r.failed for r in records),
        spoilt=sum(r.spoilt is not None for r in records),
        inter_token_latency_s=_median(values_of(records, "inter_token_latency_s")),
        ttft_s=_median(values_of(records, "ttft_s")),
        end_to_end_latency_s=_median(values_of(records, "end_to_end_latency_s")),
        output_throughput_token_per_s=_throughput(own),
        tokens_per_step=_tokens_per_step(records),
        acceptance_rate=_acceptance(own),
    )


def compare(
    blocks: Sequence[BlockResult], *, prompt_class: str, variant: str, baseline: str
) -> Comparison:
    """The verdict on one speculative variant in one class."""
    ours = [b for b in blocks if b.prompt_class == prompt_class]
    pairs = _pairs(ours, baseline=baseline, variant=variant)
    ratios = [
        a.inter_token_latency_s / b.inter_token_latency_s
        for a, b in pairs
        if a.inter_token_latency_s and b.inter_token_latency_s
    ]
    speedup = median_interval(ratios) if ratios else None
    judgement, reason = judge(speedup, pairs=len(ratios))
    return Comparison(
        prompt_class=prompt_class,
        variant=variant,
        pairs=len(ratios),
        speedup=speedup,
        identical_outputs=sum(a.output_sha256 == b.output_sha256 for a, b in pairs),
        usable_pairs=len(pairs),
        judgement=judgement,
        reason=reason,
    )


def judge(speedup: Interval | None, *, pairs: int) -> tuple[Judgement, str]:
    """What an interval of the speedup means, and why in one sentence."""
    if speedup is None or speedup.low is None or speedup.high is None:
        return "cannot tell", f"{pairs} usable pairs are too few for a 95% interval"
    if speedup.low > 1 + INDIFFERENCE:
        return "pays", f"decoding is at least {speedup.low:.2f} times as fast"
    if speedup.high < 1 - INDIFFERENCE:
        return "costs", f"decoding is at least {1 / speedup.high:.2f} times slower"
    if speedup.low >= 1 - INDIFFERENCE and speedup.high <= 1 + INDIFFERENCE:
        return "does not pay", f"the difference is below {INDIFFERENCE:.0%} either way"
    return "cannot tell", (
        f"the interval {speedup.low:.2f} to {speedup.high:.2f} allows both; measure more requests"
    )


def median_interval(values: Sequence[float]) -> Interval:
    """Median and its 95% interval by order statistics; no assumption on the distribution.

    The number of values below the true median is binomial(n, 1/2): the interval from the k-th
    smallest to the k-th largest value misses it with probability 2 P(X < k). Below six values there
    is no such interval.
    """
    ordered, count = sorted(values), len(values)
    tail, rank = 0.0, 0
    while rank < count // 2:
        tail += math.comb(count, rank) / 2**count
        if 2 * tail > 1 - CONFIDENCE:
            break
        rank += 1
    median = statistics.median(ordered)
    if rank == 0:
        return Interval(median=median, low=None, high=None)
    return Interval(median=median, low=ordered[rank - 1], high=ordered[count - rank])


def classes_of(blocks: Iterable[BlockResult]) -> tuple[str, ...]:
    """The prompt classes in the order they were measured."""
    return tuple(dict.fromkeys(b.prompt_class for b in sorted(blocks, key=lambda b: b.block)))


def _pairs(
    blocks: Sequence[BlockResult], *, baseline: str, variant: str
) -> list[tuple[RequestRecord, RequestRecord]]:
    """Requests that count on both sides, matched by case, round, prompt and its repetition."""
    sides = (_by_identity(blocks, baseline), _by_identity(blocks, variant))
    common = [key for key in sides[0] if key in sides[1]]
    both = [(sides[0][key], sides[1][key]) for key in common]
    return [(a, b) for a, b in both if a.counts and b.counts]


def _by_identity(
    blocks: Sequence[BlockResult], variant: str
) -> dict[tuple[str, int, str, int], RequestRecord]:
    found: dict[tuple[str, int, str, int], RequestRecord] = {}
    for block in (b for b in blocks if b.variant == variant):
        for record in block.requests:
            repetition = 0
            while (key := (block.case, block.round, record.prompt_id, repetition)) in found:
                repetition += 1
            found[key] = record
    return found


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def _throughput(blocks: Sequence[BlockResult]) -> float | None:
    """Output tokens of all blocks / their measured seconds."""
    rates = [(b, b.output_throughput_token_per_s) for b in blocks]
    tokens = {
        id(b): sum(r.number_output_tokens or 0 for r in b.requests if not r.failed) for b in blocks
    }
    seconds = sum(tokens[id(b)] / rate for b, rate in rates if rate)
    return sum(tokens[id(b)] for b, rate in rates if rate) / seconds if seconds else None


def _tokens_per_step(records: Sequence[RequestRecord]) -> float | None:
    """Tokens after the first chunk / chunks after the first, over all requests that count."""
    counted = [
        r
        for r in records
        if r.counts and r.tokens_per_step is not None and r.number_output_tokens is not None
    ]
    steps = sum(r.chunks - 1 for r in counted)
    tokens = sum((r.number_output_tokens or 0) - (r.first_chunk_tokens or 0) for r in counted)
    return tokens / steps if steps else None


def _acceptance(blocks: Sequence[BlockResult]) -> float | None:
    counters = [b.speculation for b in blocks if b.speculation]
    drafted = sum(c.draft_tokens for c in counters)
    return sum(c.accepted_tokens for c in counters) / drafted if drafted else None
