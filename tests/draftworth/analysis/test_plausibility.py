"""Comparisons that cannot be right: token counts that contradict texts, impossible speedups."""

from dataclasses import replace
from typing import Any

import pytest

from draftworth.analysis.output_differences import SHA256_OF_NOTHING
from draftworth.analysis.pairing import Traffic
from draftworth.decision.verdict import Comparison, compare
from draftworth.records.load_shapes import ConcurrencyLoad
from draftworth.records.results import BlockResult, RequestRecord
from draftworth.report.reason_sentences import reason_words
from tests.support.blocks import each_request, make_block, make_price, make_record

TRAFFIC = Traffic(weights={"structured": 1.0}, load=ConcurrencyLoad(concurrency=4))
COUNTED_TWICE = "the servers count tokens differently"


def blocks(*, faster: float = 2.0, most: int | None = None, **drafted: Any) -> list[BlockResult]:
    """Return two rounds of 16 prompts, in which the variant is `faster` times as fast.

    most: the most tokens that a step of the variant can yield; None: not known.
    drafted: other values of the variant's request records.
    """
    made = []
    for number in (1, 2):
        for variant, factor in (("baseline", 1.0), ("k7", faster)):
            records = [
                make_record(index, prompt_id=f"p{index}", end_to_end_latency_s=(1 + i) / factor)
                for index in range(16)
                for i in [index / 10]
            ]
            block = make_block(variant=variant, round=number, requests=tuple(records))
            if variant == "k7":
                block = replace(block, max_tokens_per_step=most)
                block = each_request(block, lambda r: replace(r, **drafted))
            made.append(block)
    return made


def judged(measured: list[BlockResult], **arguments: Any) -> Comparison:
    return compare(measured, TRAFFIC, variant="k7", baseline="baseline", **arguments)


@pytest.mark.parametrize(
    ("drafted", "believed"),
    [
        ({}, True),
        ({"number_output_tokens": 200}, False),
        ({"number_output_tokens": 50}, False),
        ({"number_output_tokens": 101}, True),  # the variant's server also counts the end token
        ({"number_output_tokens": 102}, False),
        # Texts that are not the same, or not known, may have other numbers of tokens.
        ({"number_output_tokens": 200, "output_sha256": "1" * 64}, True),
        ({"number_output_tokens": 200, "output_sha256": None}, True),
        ({"number_output_tokens": 200, "output_sha256": SHA256_OF_NOTHING}, True),
    ],
)
def test_equal_texts_have_equal_counts(drafted: dict[str, Any], believed: bool) -> None:
    comparison = judged(blocks(**drafted))
    assert (COUNTED_TWICE not in reason_words(comparison)) is believed
    assert (comparison.judgement == "inconclusive") is not believed


def test_servers_without_texts_are_compared_by_counts() -> None:
    def without_text(record: RequestRecord) -> RequestRecord:
        return replace(record, output_sha256=SHA256_OF_NOTHING)

    measured = [each_request(b, without_text) for b in blocks(number_output_tokens=200)]
    assert judged(measured).judgement == "cheaper per token"


def test_few_common_texts_reveal_different_token_counts() -> None:
    measured = blocks(number_output_tokens=200, output_sha256="1" * 64)
    one = measured[1].requests[0]
    same = replace(one, output_sha256=measured[0].requests[0].output_sha256)
    measured[1] = replace(measured[1], requests=(same, *measured[1].requests[1:]))
    assert reason_words(judged(measured)) == (
        "the servers count tokens differently; in 1 output with the same text the baseline counts "
        "100 tokens and the variant 200, so a cost per token says nothing"
    )


@pytest.mark.parametrize(
    ("faster", "most", "believed"),
    [
        (5.9, 6, True),
        (6.1, 6, False),
        (17.0, 6, False),  # probably a cache of whole responses
        (15.0, None, True),  # a faster server whose window is not known
        (17.0, None, False),
        (3.0, 1, True),  # a faster server that does not speculate
        (17.0, 1, False),
    ],
)
def test_a_step_gains_at_most_its_tokens(faster: float, most: int | None, believed: bool) -> None:
    comparison = judged(blocks(faster=faster, most=most))
    assert (comparison.judgement == "cheaper per token") is believed
    if not believed:
        assert f"no speculation can gain so much; the variant is {faster:.0f} times as fast" in (
            reason_words(comparison)
        )
        assert comparison.judgement == "inconclusive"


def test_a_cheaper_server_may_gain_its_price_too() -> None:
    price = make_price(node_shares={"baseline": 1.0, "k7": 0.25})
    assert judged(blocks(faster=5.0, most=6), price=price).judgement == "cheaper per token"
    assert judged(blocks(faster=7.0, most=6), price=price).judgement == "inconclusive"
