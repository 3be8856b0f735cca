"""Goodput: what of a server's output keeps the latency limits of the user's service.

A request keeps them when each of its own latencies does (DistServe, Zhong et al. 2024,
arXiv:2401.09670, which counts requests a second; tokens a second beside it are of those requests).
The verdict's limits are on 95% of all requests; here each request is looked at by itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from draftworth.analysis.limits import LATENCIES
from draftworth.analysis.pairing import Traffic
from draftworth.analysis.summary import Group
from draftworth.records.load import ConcurrencyLoad
from draftworth.records.results import BlockResult, Limits, RequestRecord


@dataclass(frozen=True, kw_only=True)
class Goodput:
    """One variant in a traffic: what keeps every limit, of one server at this load.

    kept, requests: requests that keep them, and all that were looked at.
    """

    traffic: Traffic
    variant: str
    kept: int
    requests: int
    requests_per_s: float
    tokens_per_s: float


def goodput(
    blocks: Sequence[BlockResult], traffic: Traffic, limits: Limits, variant: str
) -> Goodput | None:
    """None without a limit on latencies, or where a class has no output."""
    if not limits.are_on_latencies:
        return None
    sums = [_Sums.of(blocks, group, limits, variant) for group in traffic.groups]
    if not all(s.tokens and s.seconds for s in sums):
        return None
    weighted = list(zip(traffic.weights.values(), sums, strict=True))
    # The traffic's classes have their parts of its tokens: each sum is taken for one token.
    seconds = math.fsum(w * s.seconds / s.tokens for w, s in weighted)
    return Goodput(
        traffic=traffic,
        variant=variant,
        kept=sum(s.kept for s in sums),
        requests=sum(s.requests for s in sums),
        requests_per_s=math.fsum(w * s.kept / s.tokens for w, s in weighted) / seconds,
        tokens_per_s=math.fsum(w * s.kept_tokens / s.tokens for w, s in weighted) / seconds,
    )


def keeps(record: RequestRecord, limits: Limits) -> bool:
    """Whether one request keeps every limit; what was not measured is not kept."""
    if record.failed:
        return False
    for _, field, limit_field in LATENCIES:
        limit_s: float | None = getattr(limits, limit_field)
        value_s: float | None = getattr(record, field)
        # An output of one token has no time between tokens.
        is_single = field == "inter_token_latency_s" and record.number_output_tokens == 1
        if limit_s is not None and not is_single and (value_s is None or value_s > limit_s):
            return False
    return True


@dataclass(frozen=True, kw_only=True)
class _Sums:
    """Of one class, without requests that the client was too late for.

    seconds: that the requests took of the server, as in its throughput.
    """

    requests: int
    kept: int
    tokens: int
    kept_tokens: int
    seconds: float

    @classmethod
    def of(cls, blocks: Sequence[BlockResult], group: Group, limits: Limits, variant: str) -> _Sums:
        own = group.blocks(blocks, variant)
        records = [r for block in own for r in block.requests if r.excluded is None]
        kept = [record for record in records if keeps(record, limits)]
        return cls(
            requests=len(records),
            kept=len(kept),
            tokens=_tokens(records),
            kept_tokens=_tokens(kept),
            seconds=_seconds(group, own, records),
        )


def _tokens(records: Sequence[RequestRecord]) -> int:
    return sum(r.number_output_tokens or 0 for r in records if not r.failed)


def _seconds(
    group: Group, blocks: Sequence[BlockResult], records: Sequence[RequestRecord]
) -> float:
    if not isinstance(group.load, ConcurrencyLoad):
        return sum(block.output_seconds for block in blocks)
    took = (r.timed_out_after_s or r.end_to_end_latency_s or 0.0 for r in records)
    return sum(took) / group.load.concurrency
