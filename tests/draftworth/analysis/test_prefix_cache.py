"""Prompts that a server's prefix cache has: a saving with them is none with new prompts."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from draftworth.analysis.doubts import NotCold, PromptsCached, RepeatsFaster
from draftworth.analysis.pairing import Traffic
from draftworth.analysis.prefix_cache import ColdEvidence, cached_share, why_not_cold
from draftworth.decision.verdict import compare
from draftworth.records.load_shapes import ConcurrencyLoad
from draftworth.records.results import BlockResult, PrefixCacheCounters, PromptCache
from draftworth.report.reason_sentences import reason_words
from tests.support.blocks import each_request, make_block, make_failed_record, make_record, make_run

LOAD = ConcurrencyLoad(concurrency=4)
TRAFFIC = Traffic(weights={"structured": 1.0}, load=LOAD)
SIDES = ("baseline", "k7")
PROMPTS = 8


def block(number: int, *, variant: str = "k7", ttft_s: float = 0.5, **fields: Any) -> BlockResult:
    """Return a block in which each prompt is sent once, with a TTFT that differs little by prompt.

    number: of the round, and of the block.
    """
    sign = (-1) ** number
    records = tuple(
        make_record(i, ttft_s=ttft_s * (1 + sign * (i - 3.5) / 200), end_to_end_latency_s=2.0 + i)
        for i in range(PROMPTS)
    )
    made = make_block(variant=variant, round=number, block=number, requests=records)
    return replace(made, **fields)


def rounds(
    *ttfts_s: float, changed: Mapping[int, Mapping[str, Any]] | None = None
) -> list[BlockResult]:
    """Return blocks of `k7` with these TTFTs, one in a round; some fields may be changed by round.

    changed: {number of the round: other fields of its block}.
    """
    return [
        block(number, ttft_s=ttft_s, **(changed or {}).get(number, {}))
        for number, ttft_s in enumerate(ttfts_s, start=1)
    ]


def doubt(
    blocks: Sequence[BlockResult], evidence: ColdEvidence = ColdEvidence.COUNTS_OR_TTFT
) -> NotCold | None:
    return why_not_cold(blocks, TRAFFIC, SIDES, evidence)


def with_counts(of_block: BlockResult, cached: int | None, tokens: int = 100) -> BlockResult:
    return each_request(
        of_block,
        lambda r: replace(r, cached_input_tokens=cached, number_input_tokens=tokens),
    )


@pytest.mark.parametrize(("cached", "is_cold"), [(0, True), (1, True), (2, False), (90, False)])
def test_a_hundredth_of_prompt_tokens_may_be_cached(cached: int, is_cold: bool) -> None:
    doubted = doubt([with_counts(block(1), cached)])
    assert doubted == (None if is_cold else PromptsCached(variant="k7", share=cached / 100))


@pytest.mark.parametrize("side", SIDES)
def test_a_cache_on_either_side_is_told(side: str) -> None:
    doubted = doubt([with_counts(block(1, variant=v), 50 if v == side else 0) for v in SIDES])
    assert doubted == PromptsCached(variant=side, share=0.5)


@pytest.mark.parametrize(
    ("queried", "cached", "share"), [(400, 100, 0.25), (400, 0, 0.0), (0, 0, 0.0)]
)
def test_counters_say_it_where_answers_do_not(queried: int, cached: int, share: float) -> None:
    counters = PrefixCacheCounters(queried_tokens=queried, cached_tokens=cached)
    blocks = rounds(0.9, 0.5, changed={n: {"prefix_cache": counters} for n in (1, 2)})
    assert cached_share(blocks) == share
    # A server that counts no cached token has no cache, however slow its first round was.
    assert doubt(blocks) == (PromptsCached(variant="k7", share=share) if share else None)


def test_a_server_may_tell_of_hits_alone() -> None:
    assert cached_share([with_counts(block(1), None), with_counts(block(2), 50)]) == 0.25


def test_answers_count_more_exactly_than_counters() -> None:
    """Counters include the requests that are not measured."""
    counters = PrefixCacheCounters(queried_tokens=100, cached_tokens=50)
    assert cached_share([with_counts(block(1, prefix_cache=counters), 0)]) == 0.0


def test_other_classes_and_loads_have_their_own_share() -> None:
    warm = with_counts(block(1), 50)
    elsewhere = [
        replace(warm, prompt_class="open_ended"),
        replace(warm, load=ConcurrencyLoad(concurrency=1)),
        replace(warm, variant="k3"),
    ]
    cold = with_counts(block(2), 0)
    assert doubt([cold, *elsewhere]) is None
    assert doubt([cold, warm]) == PromptsCached(variant="k7", share=0.25)


def test_impossible_counters_are_refused() -> None:
    with pytest.raises(ValueError, match="cached_tokens: given 2, allowed: 0 to the 1"):
        PrefixCacheCounters(queried_tokens=1, cached_tokens=2)


@pytest.mark.parametrize(
    ("ttfts_s", "times"),
    [
        ((0.5, 0.5, 0.5), None),
        ((0.54, 0.5, 0.5), None),  # less than what changes a TTFT
        ((0.6, 0.5, 0.5), 1.2),
        ((0.5, 0.1, 0.1), 5.0),
        ((0.5, 0.6, 0.7), None),  # a machine that becomes slower
        ((0.6,), None),  # nothing was sent again
    ],
)
def test_ttft_shows_a_cache_that_is_not_counted(
    ttfts_s: tuple[float, ...], times: float | None
) -> None:
    doubted = doubt(rounds(*ttfts_s))
    if times is None:
        assert doubted is None
    else:
        assert isinstance(doubted, RepeatsFaster)
        assert (doubted.variant, doubted.prompts) == ("k7", PROMPTS)
        assert doubted.times == pytest.approx(times, rel=0.02)


@pytest.mark.parametrize(("first_itl_s", "is_cold"), [(0.015, False), (0.027, True)])
def test_a_machine_that_speeds_up_is_no_cache(first_itl_s: float, is_cold: bool) -> None:
    slow, fast = rounds(0.9, 0.5)
    slow = each_request(slow, lambda r: replace(r, inter_token_latency_s=first_itl_s))
    assert (doubt([slow, fast]) is None) is is_cold


def test_prompts_that_disagree_show_no_cache() -> None:
    """Their first TTFTs are higher in the mean, as they may be by chance."""
    first = block(1)
    slow, *rest = first.requests
    noisy = replace(first, requests=(replace(slow, ttft_s=2.0), *rest))
    assert doubt([noisy, block(2)]) is None


def test_five_prompts_show_no_cache_by_ttft() -> None:
    few = [replace(b, requests=b.requests[:5]) for b in rounds(0.9, 0.5)]
    assert doubt(few) is None
    assert doubt(rounds(0.9, 0.5)) is not None


@pytest.mark.parametrize(
    "changed",
    [
        {"repetition": 2},  # servers were started again in between
        {"run_id": "another-run"},
        {"case": "another"},
        {"load": ConcurrencyLoad(concurrency=1)},  # where requests wait less for each other
        {"load": replace(LOAD, input_tokens=512)},
    ],
)
def test_only_like_requests_are_repeats(changed: dict[str, Any]) -> None:
    assert doubt(rounds(0.9, 0.5, changed={2: changed})) is None


def test_a_failed_first_request_has_no_ttft() -> None:
    """A server may have cached its prompt, so the second request counts as no first one."""
    failed = tuple(make_failed_record(i) for i in range(PROMPTS))
    assert doubt(rounds(0.9, 0.9, 0.5, changed={1: {"requests": failed}})) is None


@pytest.mark.parametrize(
    ("prompt_cache", "weights", "evidence"),
    [
        ("cold", {}, ColdEvidence.COUNTS_OR_TTFT),
        ("salted", {}, ColdEvidence.COUNTS_OR_TTFT),
        ("warm", {}, ColdEvidence.NOTHING),
        # The servers of an experiment are started without a prefix cache.
        ("cold", {"structured": 1.0}, ColdEvidence.COUNTS),
    ],
)
def test_what_counts_depends_on_who_started_servers(
    prompt_cache: PromptCache, weights: dict[str, float], evidence: ColdEvidence
) -> None:
    result = make_run(prompt_cache=prompt_cache, class_weights=weights)
    assert ColdEvidence.in_run(result) is evidence


def test_evidence_that_does_not_count_is_ignored() -> None:
    faster_again, cached = rounds(0.9, 0.5), [with_counts(block(1), 50)]
    assert doubt(faster_again, ColdEvidence.COUNTS) is None
    assert doubt(cached, ColdEvidence.COUNTS) is not None
    assert doubt(cached, ColdEvidence.NOTHING) is None


@pytest.mark.parametrize(
    ("cold", "words"),
    [
        (ColdEvidence.COUNTS_OR_TTFT, "prompts were not new to k7; 75.0% of their tokens came"),
        (ColdEvidence.NOTHING, "a token costs at least"),
    ],
)
def test_a_saving_with_cached_prompts_is_withheld(cold: ColdEvidence, words: str) -> None:
    blocks = []
    for number in (1, 2):
        drafted = each_request(
            with_counts(block(number), 75),
            lambda r: replace(r, end_to_end_latency_s=(r.end_to_end_latency_s or 0.0) / 2),
        )
        blocks += [with_counts(block(number, variant="baseline"), 0), drafted]
    judged = compare(blocks, TRAFFIC, variant="k7", baseline="baseline", cold=cold)
    assert words in reason_words(judged)
    is_withheld = cold is not ColdEvidence.NOTHING
    assert judged.judgement == ("inconclusive" if is_withheld else "cheaper per token")
