"""Built runs of every kind, with which tests compare all forms of a run's answer."""

from dataclasses import replace
from functools import cache
from typing import Any

from draftworth.decision.facts import RunFacts
from draftworth.records.load_shapes import ConcurrencyLoad, PoissonLoad
from draftworth.records.results import Limits, PromptCache
from draftworth.records.run_folder import Run
from tests.draftworth.report import runs, searches
from tests.draftworth.report.runs import LOST
from tests.support.blocks import each_request


def with_factor(factor: float, **overrides: object) -> Run:
    """Return the built run with a variant that takes `factor` times as long."""
    blocks = tuple(
        b if b.variant == runs.BASELINE else runs.slower(b, factor) for b in runs.make_run().blocks
    )
    return runs.make_run(blocks=blocks, **overrides)


def at_loads(*factors: float) -> Run:
    """Return a run at 1, 2, 4 ... requests in flight; the variant takes `factors` times as long."""
    blocks = tuple(
        replace(b, load=ConcurrencyLoad(concurrency=2**i), block=b.block + 100 * i)
        for i, factor in enumerate(factors)
        for b in with_factor(factor).blocks
    )
    return runs.make_run(blocks=blocks)


def few_prompts() -> Run:
    blocks = (replace(b, requests=b.requests[:2], speculation=None) for b in runs.make_run().blocks)
    return runs.make_run(blocks=tuple(blocks))


def many_prompts(**overrides: object) -> Run:
    """Return a run with enough prompts for the 95th percentile of a latency."""
    blocks = tuple(
        replace(
            b,
            requests=tuple(
                replace(r, request_id=f"{r.request_id}/{n}", prompt_id=f"{r.prompt_id}/{n}")
                for n in range(16)
                for r in b.requests
            ),
        )
        for b in runs.make_run().blocks
    )
    return runs.make_run(blocks=blocks, **overrides)


def at_a_rate(**overrides: object) -> Run:
    """Return a run of many prompts whose requests arrive at random times, 2 per second."""
    blocks = tuple(
        replace(block, load=PoissonLoad(requests_per_second=2.0), warmup_requests=32)
        for block in many_prompts().blocks
    )
    return runs.make_run(blocks=blocks, **overrides)


def faster_server(*, chunks: int = 100) -> Run:
    """Return a run whose variant does not speculate, and takes 0.6 of the baseline's time."""
    plain = [b for b in runs.make_run().blocks if b.variant == runs.BASELINE]
    faster = [
        replace(
            runs.slower(b, 0.6), variant=runs.VARIANT, block=b.block + 100, max_tokens_per_step=None
        )
        for b in plain
    ]
    faster = [each_request(b, lambda r: replace(r, chunks=chunks)) for b in faster]
    return runs.make_run(blocks=(*plain, *faster), max_tokens_per_step={runs.BASELINE: 1})


def with_requests(**values: Any) -> Run:
    """Return a run with a cheaper variant, whose requests have the given values in some fields."""
    blocks = tuple(
        b if b.variant == runs.BASELINE else each_request(b, lambda r: replace(r, **values))
        for b in with_factor(0.6).blocks
    )
    return runs.make_run(blocks=blocks)


def from_prefix_cache(prompt_cache: PromptCache) -> Run:
    """Return a run with a cheaper variant, which took three quarters of its prompts from a cache.

    prompt_cache: what the user wants a server's cache to have.
    """
    run = with_requests(number_input_tokens=64, cached_input_tokens=48)
    return replace(run, result=replace(run.result, prompt_cache=prompt_cache))


# In `make_run()` without a factor, a token costs as much with the variant as with the baseline.
STATES = {
    "more expensive": with_factor(1.3),
    "cheaper": with_factor(0.6),
    "cheaper without speculation": faster_server(),
    "tokens that are counted twice": with_requests(number_output_tokens=200),
    "answers from a cache": with_requests(ttft_s=0.01, end_to_end_latency_s=0.05),
    "prompts from a cache": from_prefix_cache("cold"),
    "prompts from a wanted cache": from_prefix_cache("warm"),
    "no difference": runs.make_run(),
    "inconclusive": few_prompts(),
    "within the limits at a rate": at_a_rate(limits=Limits(ttft_p95_s=9.0)),
    "outside the limits at a rate": at_a_rate(limits=Limits(ttft_p95_s=0.1)),
    "at a rate without limits": at_a_rate(),
    "outside the limits": many_prompts(limits=Limits(ttft_p95_s=0.1)),
    "failed run": runs.make_run(blocks=(), status="failed", reason="no server started"),
    "interrupted run": runs.make_run(interruptions=(LOST,)),
    "search": searches.make_search_run(),
    "repetitions": runs.with_repetitions(runs.make_run(), 2),
    "ladder": at_loads(0.6, 0.7, 1.0),
    "warnings": runs.make_run(temperature=0.7, price=None),
    "one server": runs.make_run(
        blocks=tuple(b for b in runs.make_run().blocks if b.variant == runs.BASELINE),
        variants=(runs.BASELINE,),
    ),
}


@cache
def facts_of_state(name: str) -> RunFacts:
    """Return the facts of a run of `STATES`, which tests share: computing them takes long."""
    return runs.make_facts(STATES[name])
