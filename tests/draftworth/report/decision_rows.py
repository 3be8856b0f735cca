"""Runs of every kind, each with what is decided after it: the rows of the table of decisions."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

from draftworth.decision.run_decision import Missing, NextStep
from draftworth.records.likelihoods import GreedyLikelihood
from draftworth.records.load_shapes import PoissonLoad
from draftworth.records.results import (
    BlockResult,
    Limits,
    PrefixCacheCounters,
    Price,
    PromptCache,
    RequestRecord,
)
from draftworth.records.run_folder import Run
from tests.draftworth.report import runs, searches, states
from tests.support.blocks import each_request, make_failed_record

BASELINE, VARIANT = runs.BASELINE, runs.VARIANT


@dataclass(frozen=True, kw_only=True)
class Row:
    """A run, and what is decided after it.

    serve: the variant or baseline for all traffic; None: neither. classes: the classes that the
    variant serves if the baseline serves the others. first_line: the beginning of every form of the
    answer. missing: what is missing for a decision. cure: the next step, if that removes a doubt.
    """

    run: Callable[[], Run]
    serve: str | None = None
    classes: tuple[str, ...] = ()
    first_line: str
    missing: tuple[Missing, ...] = ()
    cure: NextStep | None = None


def at_rates(
    ttfts_s: dict[str, dict[float, float]],
    *,
    slower: float = 1.0,
    limit_s: float | None = 0.5,
    **overrides: Any,
) -> Run:
    """Return a run whose requests arrive at rates.

    ttfts_s: {variant: {requests per second: TTFT in seconds}}. slower: how many times as long the
    variant takes from end to end. limit_s: the limit on the 95th percentile of TTFT; None: none.
    overrides: fields of the run's result.
    """
    blocks = tuple(
        _at_rate(block, rate, ttft_s, slower if block.variant == VARIANT else 1.0)
        for block in states.many_prompts().blocks
        for rate, ttft_s in ttfts_s[block.variant].items()
    )
    limits = Limits() if limit_s is None else Limits(ttft_p95_s=limit_s)
    return runs.make_run(blocks=blocks, limits=limits, **overrides)


def _at_rate(block: BlockResult, rate: float, ttft_s: float, slower: float) -> BlockResult:
    at = replace(
        block,
        load=PoissonLoad(requests_per_second=rate),
        warmup_requests=64,
        block=block.block + round(1000 * rate),
    )
    return each_request(
        at,
        lambda r: replace(r, ttft_s=ttft_s, end_to_end_latency_s=r.took_s * slower),
    )


FAST, SLOW = 0.2, 0.9


@cache
def equal_rate() -> Run:
    """Return a run in which both sides keep the limit on TTFT at the only rate, 2 per second.

    From end to end, the variant takes 1.4 times as long.
    """
    return at_rates({BASELINE: {2.0: FAST}, VARIANT: {2.0: FAST}}, slower=1.4)


@cache
def higher_rate() -> Run:
    """Return a run in which the variant keeps the limit on TTFT at 4 requests/s, the baseline at 2.

    From end to end, the variant takes 1.4 times as long.
    """
    return at_rates({BASELINE: {2.0: FAST, 4.0: SLOW}, VARIANT: {2.0: FAST, 4.0: FAST}}, slower=1.4)


def baseline_takes_more() -> Run:
    return at_rates({BASELINE: {2.0: FAST, 4.0: FAST}, VARIANT: {2.0: FAST, 4.0: SLOW}})


def with_failures(run: Run, *, allowed_share: float) -> Run:
    """Return a run in which one in 16 of the variant's requests fails, with this limit on them."""
    blocks = tuple(
        block if block.variant == BASELINE else replace(block, requests=_failing(block))
        for block in run.blocks
    )
    limits = replace(run.result.limits, failed_share=allowed_share)
    return replace(run, blocks=blocks, result=replace(run.result, limits=limits))


def _failing(block: BlockResult) -> tuple[RequestRecord, ...]:
    return tuple(
        make_failed_record(number, request_id=r.request_id, prompt_id=r.prompt_id)
        if number % 16 == 0
        else r
        for number, r in enumerate(block.requests)
    )


def with_warmup(run: Run, requests: int) -> Run:
    """Return a run in which each block began with so many requests of warm-up."""
    return replace(run, blocks=tuple(replace(b, warmup_requests=requests) for b in run.blocks))


def with_foreign_outputs(run: Run, variant: str = VARIANT) -> Run:
    """Return a run with a check that shows that a variant's outputs are not the target's."""
    check = GreedyLikelihood(
        variant=variant, outputs=16, tokens=2400, beyond=9, farthest=4.0, chance=1e-6
    )
    return replace(run, likelihoods=(check,))


def from_cache(run: Run, variant: str, prompt_cache: PromptCache = "cold") -> Run:
    """Return a run in which a variant had three quarters of its prompts in a cache.

    Of several loads, it had none at the lowest. prompt_cache: what the user wants a server's cache
    to have.
    """
    loads = {block.load for block in run.blocks}
    lowest = min(loads, key=lambda load: load.order) if len(loads) > 1 else None
    blocks = tuple(
        each_request(b, lambda r: replace(r, number_input_tokens=64, cached_input_tokens=48))
        if b.variant == variant and b.load != lowest
        else b
        for b in run.blocks
    )
    return replace(run, blocks=blocks, result=replace(run.result, prompt_cache=prompt_cache))


def limited(run: Run, **limits: float) -> Run:
    return replace(run, result=replace(run.result, limits=Limits(**limits)))


def of_own_vllm(prompt_cache: PromptCache) -> Run:
    """Return a run of `compare` with vLLM servers, which had prompts in their caches."""
    counts = PrefixCacheCounters(queried_tokens=640, cached_tokens=480)
    run = states.with_factor(0.6, class_weights={}, prompt_cache=prompt_cache)
    return replace(run, blocks=tuple(replace(b, prefix_cache=counts) for b in run.blocks))


def with_another_model() -> Run:
    run = states.with_factor(0.6)
    blocks = tuple(
        b if b.variant == BASELINE else replace(b, answering_models=("other",)) for b in run.blocks
    )
    named = (replace(b, answering_models=b.answering_models or ("target",)) for b in blocks)
    return replace(run, blocks=tuple(named))


def third_variant_at_rates() -> Run:
    """Return `higher_rate` with a third variant, `k3`, which takes what the baseline takes."""
    blocks = higher_rate().blocks
    third = tuple(
        replace(block, variant="k3", block=block.block + 100_000)
        for block in blocks
        if block.variant == BASELINE
    )
    most = {BASELINE: 1, VARIANT: runs.WINDOW, "k3": runs.WINDOW}
    return runs.make_run(
        blocks=(*blocks, *third),
        variants=(BASELINE, VARIANT, "k3"),
        max_tokens_per_step=most,
        limits=higher_rate().result.limits,
    )


def at_two_contexts() -> Run:
    blocks = tuple(
        replace(b, load=replace(b.load, input_tokens=length), block=b.block + length)
        for length in (2000, 8000)
        for b in states.with_factor(0.6).blocks
    )
    return runs.make_run(blocks=blocks)


def search_without_gain() -> Run:
    """Return the run of a search whose best candidate costs more than no draft."""
    run = searches.make_search_run()
    blocks = tuple(b if b.variant == BASELINE else runs.slower(b, 4.0) for b in run.blocks)
    return replace(run, blocks=blocks)


Status = Literal["complete", "failed"]


def ended(run: Run, status: Status) -> Run:
    reason = "" if status == "complete" else "the deadline passed"
    return replace(run, result=replace(run.result, status=status, reason=reason))


HALF_A_NODE = Price(
    usd_per_node_hour=10.0,
    as_of="2026-11-20",
    source="a test",
    node_shares={BASELINE: 1.0, VARIANT: 0.5},
    nodes=2,
)


def controlled(factor: float) -> Run:
    blocks = tuple(
        b if b.variant == BASELINE else runs.slower(b, 0.6) for b in runs.make_run().blocks
    )
    return runs.with_control(runs.make_run(blocks=blocks), factor=factor)


def two_variants() -> Run:
    """Return a run in which `k7` costs 41% less than the baseline, and `k3` as much."""
    cheaper = states.with_factor(0.6).blocks
    equal = [
        replace(runs.slower(b, 1.0), variant="k3", block=b.block + 100)
        for b in runs.make_run().blocks
        if b.variant == VARIANT
    ]
    most = {BASELINE: 1, VARIANT: runs.WINDOW, "k3": runs.WINDOW}
    return runs.make_run(
        blocks=(*cheaper, *equal), variants=(BASELINE, VARIANT, "k3"), max_tokens_per_step=most
    )


BY_CLASS = f"Decision: serve structured with {VARIANT}, open_ended without speculation."
TABLE = {
    "cost: cheaper": Row(
        run=lambda: states.with_factor(0.6),
        serve=VARIANT,
        first_line=f"Decision: serve {VARIANT}. Speculation pays.",
    ),
    "cost: cheaper, one class": Row(
        run=lambda: runs.structured_run(4),
        serve=VARIANT,
        first_line=f"Decision: serve {VARIANT}. Speculation pays.",
    ),
    "cost: cheaper, and not by speculation": Row(
        run=states.faster_server,
        serve=VARIANT,
        first_line=f"Decision: serve {VARIANT}. Cheaper, and not by speculation.",
    ),
    "cost: more expensive in both classes": Row(
        run=lambda: states.with_factor(2.5),
        serve=BASELINE,
        first_line="Decision: serve without speculation. Speculation does not pay.",
    ),
    "cost: no difference, and classes differ in sign": Row(
        run=runs.make_run, serve=BASELINE, classes=("structured",), first_line=BY_CLASS
    ),
    "cost: more expensive, and classes differ in sign": Row(
        run=lambda: states.with_factor(1.3),
        serve=BASELINE,
        classes=("structured",),
        first_line=BY_CLASS,
    ),
    "cost: open, and classes differ in sign": Row(
        run=lambda: runs.with_repetitions(runs.make_run(), 2),
        classes=("structured",),
        first_line=BY_CLASS,
    ),
    "cost: open": Row(
        run=states.few_prompts,
        first_line="No decision: too few prompts or rounds",
        missing=(Missing.VERDICT,),
    ),
    "cost: cheaper, a limit broken": Row(
        run=lambda: states.many_prompts(limits=Limits(ttft_p95_s=0.1)),
        serve=BASELINE,
        first_line="Decision: serve without speculation. Speculation does not keep the limits.",
    ),
    "cost: too few requests for a limit": Row(
        run=lambda: states.with_factor(0.6, limits=Limits(ttft_p95_s=9.0)),
        first_line="No decision: TTFT p95 of k7 in structured at 4 requests at a time",
        missing=(Missing.VERDICT,),
    ),
    "cost: several variants": Row(
        run=two_variants,
        serve=VARIANT,
        first_line=f"Decision: serve {VARIANT}. Speculation pays.",
    ),
    "cost: a ladder of loads": Row(
        run=lambda: states.at_loads(0.6, 0.7, 1.0),
        serve=VARIANT,
        first_line=f"Decision: serve {VARIANT}. Speculation pays.",
    ),
    "cost: cheaper than the control differs": Row(
        run=lambda: controlled(1.0),
        serve=VARIANT,
        first_line=f"Decision: serve {VARIANT}. Speculation pays.",
    ),
    "cost: cheaper, as a second server is": Row(
        run=lambda: controlled(0.5),
        first_line="No decision: a token costs at least",
        missing=(Missing.VERDICT,),
    ),
    "cost: tokens not counted": Row(
        run=lambda: states.with_requests(number_output_tokens=None),
        first_line="No decision: no prompt of each class has its tokens counted on both sides.",
        missing=(Missing.COUNTED_TOKENS,),
        cure=NextStep.COUNT_TOKENS,
    ),
    "cost: not believed": Row(
        run=lambda: states.with_requests(number_output_tokens=200),
        first_line="No decision: the servers count tokens differently.",
        missing=(Missing.EQUAL_WORK,),
        cure=NextStep.MAKE_WORK_EQUAL,
    ),
    "cost: faster than speculation can be": Row(
        run=lambda: states.STATES["answers from a cache"],
        first_line="No decision: no speculation can gain so much.",
        missing=(Missing.EQUAL_WORK,),
        cure=NextStep.MAKE_WORK_EQUAL,
    ),
    "cost: cheaper, and another model answers": Row(
        run=with_another_model,
        first_line="No decision: in structured at 4 requests at a time, baseline answers as target",
        missing=(Missing.EQUAL_WORK,),
        cure=NextStep.MAKE_WORK_EQUAL,
    ),
    "cost: cheaper, and the client was busy": Row(
        run=lambda: states.with_requests(excluded="waited for a core"),
        first_line="No decision: 100% of the samples of k7 in structured at 4 requests at a",
        missing=(Missing.FREE_CLIENT,),
        cure=NextStep.FREE_THE_CLIENT,
    ),
    "cost: cheaper, from a prefix cache": Row(
        run=lambda: states.from_prefix_cache("cold"),
        first_line="No decision: prompts were not new to k7.",
        missing=(Missing.COLD_PROMPTS,),
        cure=NextStep.MEASURE_COLD,
    ),
    "cost: cheaper, from a cache of vLLM": Row(
        run=lambda: of_own_vllm("cold"),
        first_line="No decision: prompts were not new to baseline.",
        missing=(Missing.COLD_PROMPTS,),
        cure=NextStep.MEASURE_SALTED,
    ),
    "cost: cheaper, from a cache in spite of salts": Row(
        run=lambda: of_own_vllm("salted"),
        first_line="No decision: prompts were not new to baseline.",
        missing=(Missing.COLD_PROMPTS,),
        cure=NextStep.MEASURE_COLD,
    ),
    "cost: a limit is open, and prompts came from a cache": Row(
        run=lambda: limited(states.from_prefix_cache("cold"), ttft_p95_s=9.0),
        first_line="No decision: prompts were not new to k7.",
        missing=(Missing.COLD_PROMPTS,),
        cure=NextStep.MEASURE_COLD,
    ),
    "cost: a limit is broken in spite of a cache": Row(
        run=lambda: from_cache(limited(states.many_prompts(), ttft_p95_s=0.1), VARIANT),
        serve=BASELINE,
        first_line="Decision: serve without speculation. Speculation does not keep the limits.",
    ),
    "cost: cheaper, from a wanted cache": Row(
        run=lambda: states.from_prefix_cache("warm"),
        serve=VARIANT,
        first_line=f"Decision: serve {VARIANT}. Speculation pays.",
    ),
    "cost: cheaper, with other outputs": Row(
        run=lambda: with_foreign_outputs(states.with_factor(0.6)),
        first_line="No decision: k7: its answers are not the target's",
        missing=(Missing.EQUAL_WORK,),
        cure=NextStep.MAKE_WORK_EQUAL,
    ),
    "cost: cheaper, and more requests fail": Row(
        run=lambda: with_failures(states.many_prompts(), allowed_share=0.1),
        first_line="No decision: ",
        missing=(Missing.ANSWERS,),
        cure=NextStep.LET_REQUESTS_SUCCEED,
    ),
    "cost: two lengths of prompts": Row(
        run=at_two_contexts,
        serve=VARIANT,
        first_line=f"Decision: serve {VARIANT}. Speculation pays.",
    ),
    "rate: both keep the limits": Row(
        run=equal_rate,
        first_line="No decision: all keep the limits at every measured rate.",
        missing=(Missing.HIGHER_RATES,),
    ),
    "rate: the variant takes more": Row(
        run=higher_rate,
        serve=VARIANT,
        first_line=f"Decision: serve {VARIANT}. It takes more requests within the limits.",
    ),
    "rate: the variant takes more, beside a third": Row(
        run=third_variant_at_rates,
        serve=VARIANT,
        first_line=f"Decision: serve {VARIANT}. It takes more requests within the limits.",
    ),
    "rate: equal rates, at half the price": Row(
        run=lambda: at_rates(
            {BASELINE: {2.0: FAST, 4.0: SLOW}, VARIANT: {2.0: FAST, 4.0: SLOW}}, price=HALF_A_NODE
        ),
        serve=VARIANT,
        first_line=f"Decision: serve {VARIANT}. It takes more requests per dollar within the",
    ),
    "rate: the variant takes more, and the run failed": Row(
        run=lambda: ended(higher_rate(), "failed"),
        first_line="No decision, the run is not complete: the deadline passed.",
        missing=(Missing.COMPLETE_RUN,),
    ),
    "rate: the variant takes more, and fails more": Row(
        run=lambda: with_failures(higher_rate(), allowed_share=0.1),
        first_line="No decision at 2 requests per second: requests in structured at 2 requests per "
        "second failed unequally: 0 of 256 of",
        missing=(Missing.ANSWERS,),
        cure=NextStep.LET_REQUESTS_SUCCEED,
    ),
    "rate: the variant takes more, with other outputs": Row(
        run=lambda: with_foreign_outputs(higher_rate()),
        first_line="No decision at 2 requests per second: k7: its answers are not the target's",
        missing=(Missing.EQUAL_WORK,),
        cure=NextStep.MAKE_WORK_EQUAL,
    ),
    "rate: the variant takes more, from a prefix cache": Row(
        run=lambda: from_cache(higher_rate(), VARIANT),
        first_line="No decision at 4 requests per second: prompts were not new to k7.",
        missing=(Missing.COLD_PROMPTS,),
        cure=NextStep.MEASURE_COLD,
    ),
    "rate: the variant takes more, from a wanted cache": Row(
        run=lambda: from_cache(higher_rate(), VARIANT, "warm"),
        serve=VARIANT,
        first_line=f"Decision: serve {VARIANT}. It takes more requests within the limits.",
    ),
    "rate: the baseline takes more, from a prefix cache": Row(
        run=lambda: from_cache(baseline_takes_more(), BASELINE),
        first_line="No decision at 4 requests per second: prompts were not new to baseline.",
        missing=(Missing.COLD_PROMPTS,),
        cure=NextStep.MEASURE_COLD,
    ),
    "rate: the baseline takes more": Row(
        run=baseline_takes_more,
        serve=BASELINE,
        first_line="Decision: serve without speculation. It takes more requests within the limits.",
    ),
    "rate: both end between the same rates": Row(
        run=lambda: at_rates({BASELINE: {2.0: FAST, 4.0: SLOW}, VARIANT: {2.0: FAST, 4.0: SLOW}}),
        first_line="No decision: the highest rates within the limits are not shown to differ.",
        missing=(Missing.OTHER_RATES,),
    ),
    "rate: the variant takes more, after a short warm-up": Row(
        run=lambda: with_warmup(higher_rate(), 31),
        first_line="No decision: the warm-up is too short to show which rates keep the limits.",
        missing=(Missing.LONGER_WARMUP,),
    ),
    "rate: none keeps the limits": Row(
        run=lambda: at_rates({BASELINE: {2.0: SLOW}, VARIANT: {2.0: SLOW}}),
        first_line="No decision: none keeps the limits at the lowest measured rate.",
        missing=(Missing.LOWER_RATES,),
    ),
    "rate: without limits": Row(
        run=lambda: at_rates({BASELINE: {2.0: FAST}, VARIANT: {2.0: FAST}}, limit_s=None),
        first_line="No decision: arrivals at a rate have no cost per token.",
        missing=(Missing.LIMITS,),
    ),
    "status: failed": Row(
        run=lambda: ended(states.with_factor(0.6), "failed"),
        first_line="No decision, the run is not complete: the deadline passed.",
        missing=(Missing.COMPLETE_RUN,),
    ),
    "status: one server": Row(
        run=lambda: states.STATES["one server"],
        first_line="One server was measured: there is nothing to compare it with.",
        missing=(Missing.ANOTHER_SERVER,),
    ),
    "search": Row(
        run=searches.make_search_run,
        serve="a-k6",
        first_line="Decision: serve a-k6 (window 6 of hub/a). Speculation pays.",
    ),
    "search: nothing pays": Row(
        run=search_without_gain,
        serve=BASELINE,
        first_line="Decision: serve without speculation. Speculation does not pay.",
    ),
    "search: the best candidate has other outputs": Row(
        run=lambda: with_foreign_outputs(searches.make_search_run(), "a-k6"),
        first_line="No decision: a-k6: its answers are not the target's",
        missing=(Missing.EQUAL_WORK,),
        cure=NextStep.MAKE_WORK_EQUAL,
    ),
    "search: no candidate": Row(
        run=lambda: searches.make_search_run(searches.NOTHING_MEASURED),
        first_line="No decision: no variant was measured beside the baseline.",
        missing=(Missing.VARIANT,),
    ),
}
