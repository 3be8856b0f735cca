"""Computes, from blocks, a search's figures of the baseline, of candidates and of their steps."""

import math
from collections.abc import Callable, Iterable, Sequence

from draftworth.analysis.checks import acceptance_by_position
from draftworth.analysis.clustering import spread
from draftworth.analysis.pairing import Pair, Traffic, counting, paired
from draftworth.analysis.ratios import log_cost_ratio
from draftworth.metrics.definitions import tokens_per_chunk
from draftworth.records.results import BlockResult, RequestRecord
from draftworth.searching.policy import ClassTimes, MeasuredCandidate
from draftworth.speculation import acceptance_of

# Least standard deviation of a measured cost's logarithm: few blocks show less only by chance.
_LEAST_DEVIATION = 0.004


def class_times(
    blocks: Iterable[BlockResult], traffic: Traffic, baseline: str
) -> dict[str, ClassTimes]:
    """Return the baseline's times by prompt class, without classes that have no figures."""
    measured = [block for block in blocks if block.variant == baseline]
    found = {}
    for group in traffic.groups:
        own = group.blocks(measured, baseline)
        records = [r for block in own for r in block.requests if r.counts]
        if tokens := _tokens(records):
            first_s = math.fsum(map(_first_s, records)) / tokens
            whole_s = math.fsum(map(_whole_s, records)) / tokens
            found[group.prompt_class] = ClassTimes(
                weight=traffic.weights[group.prompt_class],
                first_s=first_s,
                decoding_s=whole_s - first_s,
            )
    return found


def measured_of(
    blocks: Sequence[BlockResult], traffic: Traffic, *, variant: str, baseline: str
) -> MeasuredCandidate | None:
    """Return a candidate's cost, relative to the baseline's in the same rounds; None: not known."""
    pairs = counting(paired(blocks, traffic, variant=variant, baseline=baseline))
    ratio = log_cost_ratio(pairs, traffic)
    if ratio is None:
        return None
    found = spread(ratio.parts)
    # All candidates answer the same prompts, so differences between prompts are no error here.
    variance = found.within.variance - found.of_prompts.variance if found else 1.0
    whole_s = _per_token(pairs, traffic, _whole_s, lambda pair: pair.plain)
    first_s = _per_token(pairs, traffic, _first_s, lambda pair: pair.drafted)
    return MeasuredCandidate(
        cost=math.exp(ratio.value),
        deviation=max(_LEAST_DEVIATION, math.sqrt(max(0.0, variance))),
        first=first_s / whole_s,
    )


def longer_than(
    blocks: Iterable[BlockResult], traffic: Traffic, *, variant: str, checked: int
) -> dict[str, list[float]]:
    """Return, by prompt class, which shares of a candidate's steps have more than 1, 2, ... tokens.

    The server's counters give the shares. Without counters, one acceptance is assumed for all
    drafts of a step, and fitted to the mean tokens of a chunk. Classes with neither are left out.
    """
    own = [block for block in blocks if block.variant == variant]
    found = {}
    for group in traffic.groups:
        here = group.blocks(own, variant)
        if counted := acceptance_by_position(here):
            found[group.prompt_class] = [*counted[:checked]]
        elif mean := tokens_per_chunk(here):
            each = acceptance_of(mean, checked=checked)
            found[group.prompt_class] = [each**depth for depth in range(1, checked + 1)]
    return found


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
