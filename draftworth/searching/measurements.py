"""Computes the measured times, costs and tokens per step of a search's candidates from blocks."""

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from statistics import fmean

from draftworth.analysis.checks import acceptance_by_position
from draftworth.analysis.clustering import Sample
from draftworth.analysis.pairing import Pair, Traffic, counting, paired
from draftworth.analysis.ratios import log_cost_ratio
from draftworth.metrics.steps import tokens_per_step
from draftworth.records.results import BlockResult, RequestRecord
from draftworth.searching.next_candidate import ClassTimes, MeasuredCandidate

# The least standard deviation that is assumed for log(measured cost), because a few blocks may show
# a smaller one by chance.
_LEAST_DEVIATION = 0.004


def class_times(
    blocks: Iterable[BlockResult], traffic: Traffic, baseline: str
) -> dict[str, ClassTimes]:
    """Return the baseline's seconds per output token, by prompt class, where there are tokens.

    traffic: the prompt classes with their weights, at one load. baseline: the baseline's name.
    """
    measured = [block for block in blocks if block.variant == baseline]
    times = {}
    for group in traffic.groups:
        of_class = group.blocks(measured, baseline)
        records = [r for block in of_class for r in block.requests if r.counts]
        if tokens := _tokens(records):
            first_s = math.fsum(map(_first_s, records)) / tokens
            whole_s = math.fsum(map(_whole_s, records)) / tokens
            times[group.prompt_class] = ClassTimes(
                weight=traffic.weights[group.prompt_class],
                first_s=first_s,
                decoding_s=whole_s - first_s,
            )
    return times


def measured_of(
    blocks: Sequence[BlockResult], traffic: Traffic, *, variant: str, baseline: str
) -> MeasuredCandidate | None:
    """Return a candidate's measured cost, relative to the baseline's in the same rounds.

    None: in a prompt class, every pair (a prompt's requests to both servers) has a failed or
    excluded request, or the load is Poisson, which has no cost per token.
    """
    pairs = counting(paired(blocks, traffic, variant=variant, baseline=baseline))
    ratio = log_cost_ratio(pairs, traffic)
    if ratio is None:
        return None
    whole_s = _per_token(pairs, traffic, _whole_s, lambda pair: pair.plain)
    first_s = _per_token(pairs, traffic, _first_s, lambda pair: pair.drafted)
    return MeasuredCandidate(
        cost=math.exp(ratio.value),
        deviation=deviation_between_rounds(ratio.parts),
        first=first_s / whole_s,
    )


def deviation_between_rounds(parts: Sequence[Sample]) -> float:
    """Return by how much a candidate's log(cost) would vary if its prompts were measured again.

    The result is a standard deviation, at least `_LEAST_DEVIATION`. Differences between prompts do
    not count, because all candidates get the same prompts.
    parts: for each pair of requests (to the candidate, to the baseline), what it adds to the error
        of log(cost).
    """
    strata: dict[str, list[Sample]] = {}
    for part in parts:
        strata.setdefault(part.stratum, []).append(part)
    by_block = (_variance(stratum, [part.block for part in stratum]) for stratum in strata.values())
    by_request = (_variance(stratum, range(len(stratum))) for stratum in strata.values())
    return max(_LEAST_DEVIATION, math.sqrt(max(math.fsum(by_block), math.fsum(by_request))))


def _variance(parts: Sequence[Sample], clusters: Sequence[Hashable]) -> float:
    """Return the variance of the sum of `parts` that comes from differences between clusters.

    First, the mean value of a prompt's parts is subtracted from each of them. If no prompt is in
    two clusters, differences between prompts cannot be told from differences between clusters; then
    the mean of all parts is subtracted instead. Then the values are added up in each cluster. The
    result is the sum of the squares of these sums, times v / (v - m), where m is the number of
    subtracted means, and v is the number of pairs of such a mean and a cluster that occur.

    parts: one for each pair of requests (to the candidate, to the baseline) in one stratum. Its
        value is what the pair adds to the error of an estimate.
    clusters: for each of `parts`, in the same order, the name of its cluster: its pair of blocks,
        or a name of its own. With only one cluster, 0 is returned.
    """
    groups = [part.prompt for part in parts]
    visits = len({*zip(groups, clusters, strict=True)})
    if visits == len({*groups}):
        groups = [""] * len(parts)
        visits = len({*clusters})
    values: dict[str, list[float]] = defaultdict(list)
    for part, group in zip(parts, groups, strict=True):
        values[group].append(part.value)
    means = {group: fmean(of_group) for group, of_group in values.items()}
    sums: dict[Hashable, float] = defaultdict(float)
    for part, group, cluster in zip(parts, groups, clusters, strict=True):
        sums[cluster] += part.value - means[group]
    free = visits - len(means)
    return visits / free * math.fsum(value**2 for value in sums.values()) if free else 0.0


def longer_than(
    blocks: Iterable[BlockResult], traffic: Traffic, *, variant: str, checked: int
) -> dict[str, list[float]]:
    """Return, by prompt class, the shares of a candidate's steps with more than 1, 2, ... tokens.

    checked: number of drafted tokens that a step checks; the last share is that of steps with more
        than `checked` tokens.
    The shares are computed from the server's counters; classes without counters are left out.
    """
    measured = [block for block in blocks if block.variant == variant]
    counted = {
        g.prompt_class: acceptance_by_position(g.blocks(measured, variant)) for g in traffic.groups
    }
    return {name: [*shares[:checked]] for name, shares in counted.items() if shares}


def step_means(
    blocks: Iterable[BlockResult], traffic: Traffic, *, variant: str
) -> dict[str, float]:
    """Return a candidate's mean tokens per step, by prompt class, where steps can be counted."""
    measured = [block for block in blocks if block.variant == variant]
    means = {g.prompt_class: tokens_per_step(g.blocks(measured, variant)) for g in traffic.groups}
    return {name: mean for name, mean in means.items() if mean}


def _per_token(
    pairs: Sequence[Pair],
    traffic: Traffic,
    seconds: Callable[[RequestRecord], float],
    side: Callable[[Pair], RequestRecord],
) -> float:
    total = 0.0
    for name, weight in traffic.weights.items():
        records = [side(pair) for pair in pairs if pair.prompt_class == name]
        total += weight * math.fsum(map(seconds, records)) / _tokens(records)
    return total


def _tokens(records: Iterable[RequestRecord]) -> int:
    return sum(r.number_output_tokens or 0 for r in records)


def _first_s(record: RequestRecord) -> float:
    return record.ttft_s or 0.0


def _whole_s(record: RequestRecord) -> float:
    return record.end_to_end_latency_s or 0.0
