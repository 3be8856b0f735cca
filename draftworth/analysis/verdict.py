"""From result files to the verdict: each prompt class, each variant, and what speculation does.

Samples are paired: the same prompt in the same round, to the baseline and to the variant. A pair's
speedup is baseline latency / variant latency. Every figure comes with its sample and an interval
that treats prompts, not requests, as independent (`statistics`).
"""

from __future__ import annotations

import statistics as stdlib_statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from draftworth.analysis.statistics import (
    Clusters,
    Estimate,
    equivalent,
    estimate,
    requests_for_width,
)
from draftworth.records.load import Load
from draftworth.records.results import BlockResult, Price, RequestRecord

Judgement = Literal["pays", "does not pay", "costs", "inconclusive"]
Pair = tuple[RequestRecord, RequestRecord]

# A speedup that lies wholly within 5% of 1 is no gain and no loss worth a second model.
INDIFFERENCE = 0.05
# TTFT counts as unchanged when its difference is shown to be below this part of the baseline's.
TTFT_MARGIN_SHARE = 0.1
# With more excluded samples than this the client, not the server, may have been measured.
MAX_EXCLUDED_SHARE = 0.2
# Greedy outputs may part in the last bits of a logit; more than this many differing ones is a
# reason to look before believing the speedup.
MIN_IDENTICAL_SHARE = 0.9
SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True, kw_only=True)
class Group:
    """What is judged together: one prompt class at one load."""

    prompt_class: str
    load: Load

    @property
    def label(self) -> str:
        """`structured at c4`."""
        return f"{self.prompt_class} at {self.load.label}"


@dataclass(frozen=True, kw_only=True)
class VariantSummary:
    """One variant's figures in one group; None where nothing was measured. Seconds and tokens.

    acceptance_rate is by the server's own counters over all blocks, None when it has none.
    """

    group: Group
    variant: str
    requests: int
    failed: int
    excluded: int
    inter_token_latency_s: Estimate | None
    ttft_s: Estimate | None
    end_to_end_latency_s: Estimate | None
    output_throughput_token_per_s: float | None
    tokens_per_step: float | None
    acceptance_rate: float | None
    usd_per_million_output_tokens: float | None

    @property
    def counted(self) -> int:
        """Requests whose figures count."""
        return self.requests - self.failed - self.excluded


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One speculative variant against the baseline in one group.

    ttft_difference_s: variant - baseline, with a 90% interval (two one-sided tests at 5%);
    ttft_unchanged: shown to be below `TTFT_MARGIN_SHARE` of the baseline's; None: inconclusive.
    """

    group: Group
    variant: str
    pairs: int
    identical_outputs: int
    itl_speedup: Estimate | None
    e2e_speedup: Estimate | None
    ttft_difference_s: Estimate | None
    ttft_unchanged: bool | None
    judgement: Judgement
    reason: str

    @property
    def identical_share(self) -> float | None:
        """Pairs with the same output / pairs."""
        return self.identical_outputs / self.pairs if self.pairs else None


def summarize(
    blocks: Sequence[BlockResult], group: Group, variant: str, price: Price | None = None
) -> VariantSummary:
    """The figures of one variant in one group."""
    own = [b for b in _of_group(blocks, group) if b.variant == variant]
    records = [r for b in own for r in b.requests]
    throughput = _throughput(own)
    return VariantSummary(
        group=group,
        variant=variant,
        requests=len(records),
        failed=sum(r.failed for r in records),
        excluded=sum(r.excluded is not None for r in records),
        inter_token_latency_s=_estimate(own, "inter_token_latency_s"),
        ttft_s=_estimate(own, "ttft_s"),
        end_to_end_latency_s=_estimate(own, "end_to_end_latency_s"),
        output_throughput_token_per_s=throughput,
        tokens_per_step=_tokens_per_step(records),
        acceptance_rate=_acceptance(own),
        usd_per_million_output_tokens=usd_per_million_tokens(price, variant, throughput),
    )


def compare(
    blocks: Sequence[BlockResult], group: Group, *, variant: str, baseline: str
) -> Comparison:
    """The verdict on one speculative variant in one group."""
    ours = _of_group(blocks, group)
    pairs = list(_pairs(ours, baseline=baseline, variant=variant))
    both = [pair for _, pair in pairs]
    speedup = _ratio(pairs, "inter_token_latency_s")
    difference = _ttft_difference(pairs)
    identical = sum(a.output_sha256 == b.output_sha256 for a, b in both)
    judgement, reason = judge(speedup)
    excluded = max(excluded_share(ours, group, name) for name in (baseline, variant))
    if excluded > MAX_EXCLUDED_SHARE:
        judgement, reason = "inconclusive", too_many_excluded(excluded)
    return Comparison(
        group=group,
        variant=variant,
        pairs=len(both),
        identical_outputs=identical,
        itl_speedup=speedup,
        e2e_speedup=_ratio(pairs, "end_to_end_latency_s"),
        ttft_difference_s=difference,
        ttft_unchanged=_ttft_unchanged(difference, both),
        judgement=judgement,
        reason=reason,
    )


def itl_speedup(
    blocks: Sequence[BlockResult], group: Group, *, variant: str, baseline: str
) -> Estimate | None:
    """Baseline ITL / variant ITL over the pairs of a group; None without a pair."""
    pairs = list(_pairs(_of_group(blocks, group), baseline=baseline, variant=variant))
    return _ratio(pairs, "inter_token_latency_s")


def pairs_by_prompt(
    blocks: Sequence[BlockResult], group: Group, *, variant: str, baseline: str
) -> list[list[Pair]]:
    """The pairs of a group that have an inter-token latency on both sides, prompt by prompt."""
    clusters: defaultdict[str, list[Pair]] = defaultdict(list)
    found = _pairs(_of_group(blocks, group), baseline=baseline, variant=variant)
    for cluster, (plain, drafted) in sorted(found, key=lambda p: p[0]):
        if plain.inter_token_latency_s and drafted.inter_token_latency_s:
            clusters[cluster].append((plain, drafted))
    return list(clusters.values())


def excluded_share(blocks: Sequence[BlockResult], group: Group, variant: str) -> float:
    """Excluded requests / requests that did not fail, of one variant in one group."""
    own = [b for b in _of_group(blocks, group) if b.variant == variant]
    finished = [r for b in own for r in b.requests if not r.failed]
    return sum(r.excluded is not None for r in finished) / len(finished) if finished else 0.0


def output_throughput(blocks: Sequence[BlockResult], group: Group, variant: str) -> float | None:
    """Output tokens a second of one variant in one group; None where nothing was measured."""
    return _throughput([b for b in _of_group(blocks, group) if b.variant == variant])


def judge(speedup: Estimate | None) -> tuple[Judgement, str]:
    """What a speedup and its interval mean, and why in one sentence."""
    if speedup is None:
        return "inconclusive", "no prompt was answered on both sides"
    if speedup.low is None or speedup.high is None:
        return "inconclusive", f"{speedup.prompts} prompts are too few for a 95% interval"
    if speedup.low > 1 + INDIFFERENCE:
        return "pays", f"decoding is at least {speedup.low:.2f} times as fast"
    if speedup.high < 1 - INDIFFERENCE:
        return "costs", f"decoding takes at least {1 / speedup.high:.2f} times as long"
    if speedup.low >= 1 - INDIFFERENCE and speedup.high <= 1 + INDIFFERENCE:
        return "does not pay", f"the difference is below {INDIFFERENCE:.0%} either way"
    return "inconclusive", (
        f"{speedup.low:.2f} to {speedup.high:.2f} does not decide it; measure more prompts"
    )


def requests_short(speedup: Estimate | None, *, target_width: float) -> int | None:
    """How many more samples would narrow the interval to its target; 0: none, None: cannot say."""
    if speedup is None:
        return None
    needed = requests_for_width(speedup, target_width=target_width)
    return None if needed is None else max(0, needed - speedup.samples)


def too_many_excluded(share: float) -> str:
    """Why a run in which the client had to wait gets no verdict."""
    return (
        f"{share:.0%} of a variant's samples are excluded: the client waited for a core "
        f"(at most {MAX_EXCLUDED_SHARE:.0%}): give the client a core of its own"
    )


def usd_per_million_tokens(
    price: Price | None, variant: str, throughput_token_per_s: float | None
) -> float | None:
    """US dollars for a million output tokens of a slot that decodes at this throughput."""
    if price is None or not throughput_token_per_s:
        return None
    usd_per_second = price.usd_per_node_hour * price.node_shares[variant] / SECONDS_PER_HOUR
    return usd_per_second / throughput_token_per_s * 1e6


def groups_of(blocks: Iterable[BlockResult]) -> tuple[Group, ...]:
    """The groups in the order they were first measured."""
    ordered = sorted(blocks, key=lambda b: b.block)
    return tuple(dict.fromkeys(Group(prompt_class=b.prompt_class, load=b.load) for b in ordered))


def _of_group(blocks: Sequence[BlockResult], group: Group) -> list[BlockResult]:
    return [b for b in blocks if (b.prompt_class, b.load) == (group.prompt_class, group.load)]


def _pairs(
    blocks: Sequence[BlockResult], *, baseline: str, variant: str
) -> Iterator[tuple[str, Pair]]:
    """Cluster (case and prompt) and pair of requests that count on both sides.

    Matched by case, round, prompt and its repetition in the block.
    """
    ours, theirs = _by_identity(blocks, baseline), _by_identity(blocks, variant)
    for key in ours.keys() & theirs.keys():
        if ours[key].counts and theirs[key].counts:
            yield f"{key[0]}/{key[2]}", (ours[key], theirs[key])


def _by_identity(
    blocks: Sequence[BlockResult], variant: str
) -> dict[tuple[str, int, str, int], RequestRecord]:
    found: dict[tuple[str, int, str, int], RequestRecord] = {}
    for block in (b for b in blocks if b.variant == variant):
        repetitions: defaultdict[str, int] = defaultdict(int)
        for record in block.requests:
            key = (block.case, block.round, record.prompt_id, repetitions[record.prompt_id])
            repetitions[record.prompt_id] += 1
            found[key] = record
    return found


def _ratio(pairs: Sequence[tuple[str, Pair]], field: str) -> Estimate | None:
    """Baseline / variant of one figure, over all pairs that have it on both sides."""
    clusters: defaultdict[str, list[float]] = defaultdict(list)
    for cluster, (plain, drafted) in sorted(pairs, key=lambda p: p[0]):
        ours, theirs = getattr(plain, field), getattr(drafted, field)
        if ours and theirs:
            clusters[cluster].append(ours / theirs)
    return estimate(clusters) if clusters else None


def _ttft_difference(pairs: Sequence[tuple[str, Pair]]) -> Estimate | None:
    clusters: defaultdict[str, list[float]] = defaultdict(list)
    for cluster, (plain, drafted) in sorted(pairs, key=lambda p: p[0]):
        if plain.ttft_s is not None and drafted.ttft_s is not None:
            clusters[cluster].append(drafted.ttft_s - plain.ttft_s)
    return estimate(clusters, confidence=0.90) if clusters else None


def _ttft_unchanged(difference: Estimate | None, pairs: Sequence[Pair]) -> bool | None:
    baseline = [plain.ttft_s for plain, _ in pairs if plain.ttft_s is not None]
    if difference is None or not baseline:
        return None
    return equivalent(difference, margin=TTFT_MARGIN_SHARE * stdlib_statistics.median(baseline))


def _estimate(blocks: Sequence[BlockResult], field: str) -> Estimate | None:
    clusters = by_prompt(blocks, field)
    return estimate(clusters) if clusters else None


def by_prompt(blocks: Sequence[BlockResult], field: str) -> Clusters:
    """One figure of the requests that count, by case and prompt."""
    clusters: defaultdict[str, list[float]] = defaultdict(list)
    for block in blocks:
        for record in block.requests:
            value = getattr(record, field)
            if record.counts and value is not None:
                clusters[f"{block.case}/{record.prompt_id}"].append(value)
    return clusters


def _throughput(blocks: Sequence[BlockResult]) -> float | None:
    """Output tokens of all blocks / their measured seconds."""
    tokens = seconds = 0.0
    for block in blocks:
        rate = block.output_throughput_token_per_s
        if rate:
            added = sum(r.number_output_tokens or 0 for r in block.requests if not r.failed)
            tokens += added
            seconds += added / rate
    return tokens / seconds if seconds else None


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
