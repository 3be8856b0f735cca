"""Checks that requests allow a verdict and keep the latency limits, and computes goodput.

A variant keeps a limit if 95% of its requests do. Goodput is the number of requests that keep every
limit, and of their output tokens, per second (DistServe, Zhong et al. 2024, arXiv:2401.09670).
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from draftworth.analysis.answering_model import different_models
from draftworth.analysis.doubts import (
    FailedUnequally,
    LatencyAtLimit,
    ManyExcluded,
    ManyFailed,
    NotComparable,
    SeveralModels,
    ShortWarmup,
)
from draftworth.analysis.pairing import Traffic, samples_of, weighted
from draftworth.analysis.statistics import (
    CONFIDENCE,
    SAMPLES_BEYOND,
    Estimate,
    quantile_estimate,
)
from draftworth.analysis.summary import Group, count_requests, latency_s
from draftworth.analysis.warmup_length import short_warmup
from draftworth.metrics.definitions import COST
from draftworth.records.load_shapes import Load
from draftworth.records.results import BlockResult, Limits, Price, RequestRecord

# The share of requests that must keep a latency limit.
LIMIT_SHARE = 0.95
# With at least this many requests, their 95th percentile can have an interval.
LIMIT_REQUESTS = math.ceil(SAMPLES_BEYOND / (1 - LIMIT_SHARE))
# Two shares of failed requests differ by more than chance if their difference is more than this
# many standard errors (a two-sided test at 1%).
_UNEQUAL_Z = 2.58
# Requests are excluded if the client was too busy to time them. With more than this share of them,
# figures may show the client and not the server.
MAX_EXCLUDED_SHARE = 0.2
# For each latency: its name, its field in `RequestRecord`, and the field of its limit in `Limits`.
LATENCIES = (
    ("TTFT", "ttft_s", "ttft_p95_s"),
    ("ITL", "inter_token_latency_s", "itl_p95_s"),
    ("E2E", "end_to_end_latency_s", "e2e_p95_s"),
)


@dataclass(frozen=True, kw_only=True)
class LimitCheck:
    """Whether a variant keeps the latency limits of the service.

    kept: True if it keeps all limits, False if one is shown to be broken, None if neither is shown.
    latency: the latency because of which `kept` is not True.
    warmup: a warm-up that is too short, if that is the only reason why `kept` is None: the measured
        latencies keep their limits, but read too low.
    """

    kept: bool | None
    latency: LatencyAtLimit | None = None
    warmup: ShortWarmup | None = None


def why_not_comparable(
    blocks: Sequence[BlockResult], traffic: Traffic, limits: Limits, variants: Sequence[str]
) -> NotComparable | None:
    """Return why the variants' requests in a traffic allow no verdict; None if they allow one.

    There are three reasons. Answers name several models; the client could not time many requests
    well; or many requests failed: on an overloaded server the slow requests fail, so those that
    succeed make it look fast.
    variants: the names of one variant, or of the two that are compared.
    """
    for group in traffic.groups:
        if models := different_models({name: group.blocks(blocks, name) for name in variants}):
            return SeveralModels(group=group, models=models)
        sides = [count_requests(blocks, group, variant) for variant in variants]
        for side in sides:
            if side.excluded_share > MAX_EXCLUDED_SHARE:
                return ManyExcluded(group=group, variant=side.variant, share=side.excluded_share)
            if side.failed > limits.failed_share * side.requests:
                return ManyFailed(
                    group=group,
                    variant=side.variant,
                    failed=side.failed,
                    requests=side.requests,
                    timed_out=_timed_out(blocks, group, side.variant),
                    allowed_share=limits.failed_share,
                )
        counts = {side.variant: (side.failed, side.requests) for side in sides}
        if len(sides) > 1 and _unequal([*counts.values()]):
            return FailedUnequally(group=group, counts=counts)
    return None


def limit_check(
    blocks: Sequence[BlockResult],
    traffic: Traffic,
    limits: Limits,
    variant: str,
    *,
    confidence: float = CONFIDENCE,
) -> LimitCheck:
    """Check whether a variant keeps the latency limits in every class of the traffic.

    A request that timed out counts with the time that the client waited for it. After a warm-up
    that is too short for a request rate, latencies read too low: a limit that is broken then is
    broken, but none is shown to be kept. confidence: that of the interval of each 95th percentile
    (0 to 1).
    """
    not_kept = [
        latency
        for group in traffic.groups
        for latency in _limited(blocks, group, limits, variant, confidence)
        if not latency.is_kept
    ]
    broken = [latency for latency in not_kept if latency.is_kept is False]
    if not not_kept:
        short = (short_warmup(blocks, group, variant) for group in traffic.groups)
        warmup = next(filter(None, short), None)
        return LimitCheck(kept=None if warmup else True, warmup=warmup)
    latency = (broken or not_kept)[0]
    return LimitCheck(kept=latency.is_kept, latency=latency)


@dataclass(frozen=True, kw_only=True)
class RateBounds:
    """The two measured request rates between which a variant ceases to keep the latency limits.

    input_tokens: the length of the prompts; None: prompts keep their own lengths.
    kept: the load with the highest measured rate such that the limits are kept at this and every
        lower measured rate; None: the limits are not kept at the lowest measured rate.
    broken: the load with the lowest measured rate at which the limits are shown to be broken; None:
        they are shown to be broken at no measured rate.
    warmup: at the lowest rate where a short warm-up is the only doubt, that warm-up; None: there is
        no such rate.
    """

    variant: str
    input_tokens: int | None
    kept: Load | None
    broken: Load | None
    warmup: ShortWarmup | None = None


def rate_bounds(
    blocks: Sequence[BlockResult],
    weights: Mapping[str, float],
    limits: Limits,
    *,
    variant: str,
    input_tokens: int | None,
    confidence: float = CONFIDENCE,
) -> RateBounds:
    """Return between which request rates a variant ceases to keep the latency limits.

    At a rate whose requests allow no verdict (`why_not_comparable`), the limits count neither as
    kept nor as broken. weights: each class's share of the output tokens.
    input_tokens: the loads with prompts of this length are looked at; None: those whose prompts
    keep their own lengths. confidence: that of the interval of each 95th percentile (0 to 1).
    """
    rates = {b.load for b in blocks if not b.load.has_cost_per_token}
    bounds = RateBounds(variant=variant, input_tokens=input_tokens, kept=None, broken=None)
    is_kept = True
    for load in sorted(rates, key=lambda load: load.order):
        if load.input_tokens != input_tokens:
            continue
        traffic = Traffic(weights=weights, load=load)
        doubt = why_not_comparable(blocks, traffic, limits, [variant])
        check = limit_check(blocks, traffic, limits, variant, confidence=confidence)
        if not doubt and check.kept is False:
            return replace(bounds, broken=load)
        is_kept = is_kept and not doubt and bool(check.kept)
        bounds = replace(
            bounds,
            kept=load if is_kept else bounds.kept,
            warmup=bounds.warmup or (None if doubt else check.warmup),
        )
    return bounds


def _limited(
    blocks: Sequence[BlockResult], group: Group, limits: Limits, variant: str, confidence: float
) -> Iterator[LatencyAtLimit]:
    for name, field, limit_field in LATENCIES:
        limit_s: float | None = getattr(limits, limit_field)
        if limit_s is not None:
            p95 = latency_p95(blocks, group, variant, field, confidence=confidence)
            yield LatencyAtLimit(
                latency=name, group=group, variant=variant, p95=p95, limit_s=limit_s
            )


def latency_p95(
    blocks: Sequence[BlockResult],
    group: Group,
    variant: str,
    field: str,
    *,
    confidence: float = CONFIDENCE,
) -> Estimate | None:
    """Return the 95th percentile of a latency, in seconds, with its interval.

    None if no request of the variant in the group (a prompt class at one load) has the latency.
    field: the latency's field in `RequestRecord`.
    """
    # The limits are about the user's own prompts and not about similar ones, so differences between
    # prompts must not widen the interval, as they do if the requests of a prompt form a cluster. So
    # each request gets a prompt name of its own.
    samples = [
        place._replace(prompt=str(number), value=value)
        for number, (place, record) in enumerate(samples_of(blocks, group, variant))
        if (value := latency_s(record, field)) is not None
    ]
    return quantile_estimate(samples, LIMIT_SHARE, confidence=confidence) if samples else None


def _timed_out(blocks: Sequence[BlockResult], group: Group, variant: str) -> int:
    records = (r for block in group.blocks(blocks, variant) for r in block.requests)
    return sum(r.timed_out_after_s is not None for r in records)


def _unequal(sides: Sequence[tuple[int, int]]) -> bool:
    """Return whether two variants' shares of failed requests differ by more than chance.

    The test uses the normal approximation. sides: (failed requests, all requests) of each variant.
    """
    (failed, requests), (other_failed, other_requests) = sides
    if not (failed or other_failed) or not (requests and other_requests):
        return False
    both = (failed + other_failed) / (requests + other_requests)
    error = math.sqrt(both * (1 - both) * (1 / requests + 1 / other_requests))
    difference = abs(failed / requests - other_failed / other_requests)
    return difference > _UNEQUAL_Z * error


@dataclass(frozen=True, kw_only=True)
class Goodput:
    """The rate at which one server of a variant completes requests that keep every limit.

    kept: number of requests that keep every limit. requests: number of all requests, without those
        whose timing cannot be trusted.
    requests_per_s, tokens_per_s: requests that keep every limit, and their output tokens, per
        second.
    usd: cost in US dollars of a million output tokens, whether or not their requests keep the
        limits; None without a price.
    """

    traffic: Traffic
    variant: str
    kept: int
    requests: int
    requests_per_s: float
    tokens_per_s: float
    usd: float | None


def goodput(
    blocks: Sequence[BlockResult],
    traffic: Traffic,
    limits: Limits,
    variant: str,
    price: Price | None = None,
) -> Goodput | None:
    """Return a variant's goodput; None without a latency limit, or if a class has no output."""
    if not limits.are_on_latencies:
        return None
    kept = requests = 0
    sums = []
    for group in traffic.groups:
        of_group = group.blocks(blocks, variant)
        # Excluded requests have wrong times, because the client did not get a processor in time.
        records = [r for block in of_group for r in block.requests if r.excluded is None]
        good = [record for record in records if keeps(record, limits)]
        seconds = group.load.server_seconds(
            (record.took_s for record in records),
            span_seconds=sum(block.span_seconds for block in of_group),
        )
        tokens = _tokens(records)
        if not (tokens and seconds):
            return None
        kept, requests = kept + len(good), requests + len(records)
        # A class's weight is its share of the output tokens. So the class's sums are divided by its
        # number of output tokens before they are multiplied by the weight.
        weight = traffic.weights[group.prompt_class]
        sums.append([weight * x / tokens for x in (seconds, len(good), _tokens(good))])
    of_seconds, of_requests, of_tokens = map(math.fsum, zip(*sums, strict=True))
    return Goodput(
        traffic=traffic,
        variant=variant,
        kept=kept,
        requests=requests,
        requests_per_s=of_requests / of_seconds,
        tokens_per_s=of_tokens / of_seconds,
        usd=weighted(blocks, traffic, variant, COST, price=price),
    )


def keeps(record: RequestRecord, limits: Limits) -> bool:
    """Return whether one request keeps every latency limit; a missing latency breaks its limit.

    An output of one token has no ITL, and keeps the limit of the ITL.
    """
    if record.failed:
        return False
    for _, field, limit_field in LATENCIES:
        limit_s: float | None = getattr(limits, limit_field)
        value_s: float | None = getattr(record, field)
        is_single = field == "inter_token_latency_s" and record.number_output_tokens == 1
        if limit_s is not None and not is_single and (value_s is None or value_s > limit_s):
            return False
    return True


def _tokens(records: Sequence[RequestRecord]) -> int:
    return sum(r.number_output_tokens or 0 for r in records if not r.failed)
