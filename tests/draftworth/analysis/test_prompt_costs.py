"""What each prompt costs, sorted, and the outputs of the two at the ends."""

from dataclasses import replace

import pytest

from draftworth.analysis.pairing import Traffic, paired
from draftworth.analysis.prompt_costs import PromptCost, example_outputs, prompt_costs
from draftworth.records.results import BlockResult
from draftworth.records.transcripts import Transcript
from tests.support.blocks import make_block, make_failed_record, make_record

BASELINE_S = 2.0


def block(number: int, variant: str, seconds: dict[str, float]) -> BlockResult:
    records = (
        make_record(
            index,
            request_id=f"{variant}/{number}/{prompt}",
            prompt_id=prompt,
            end_to_end_latency_s=took_s,
        )
        for index, (prompt, took_s) in enumerate(seconds.items())
    )
    return make_block(block=number, variant=variant, requests=tuple(records))


PLAIN = block(1, "baseline", dict.fromkeys("abc", BASELINE_S))
DRAFTED = block(2, "k7", {"a": 3.0, "b": 1.0, "c": 2.0})


def costs_of(*blocks: BlockResult, factor: float = 1.0) -> tuple[PromptCost, ...]:
    traffic = Traffic(weights={"structured": 1.0}, load=PLAIN.load)
    pairs = paired(blocks, traffic, variant="k7", baseline="baseline")
    return prompt_costs(pairs, factor=factor)


def ratios(costs: tuple[PromptCost, ...]) -> dict[str, float]:
    return {cost.prompt: cost.cost_ratio for cost in costs}


def test_the_prompt_that_gains_most_is_first() -> None:
    assert [*ratios(costs_of(PLAIN, DRAFTED)).items()] == [("b", 0.5), ("c", 1.0), ("a", 1.5)]


def test_rounds_of_a_prompt_are_put_together() -> None:
    again = [replace(PLAIN, block=3, round=2), replace(block(4, "k7", {"b": 2.0}), round=2)]
    costs = costs_of(PLAIN, DRAFTED, *again)
    assert ratios(costs)["b"] == pytest.approx(0.75)
    assert {cost.prompt: cost.pairs for cost in costs} == {"a": 1, "b": 2, "c": 1}


def test_a_dearer_server_costs_each_prompt_more() -> None:
    assert ratios(costs_of(PLAIN, DRAFTED, factor=2.0))["b"] == pytest.approx(1.0)


def test_failed_and_uncounted_requests_are_left_out() -> None:
    uncounted = replace(DRAFTED.requests[1], number_output_tokens=None)
    failed = make_failed_record(0, prompt_id="a")
    damaged = replace(DRAFTED, requests=(failed, uncounted, DRAFTED.requests[2]))
    assert ratios(costs_of(PLAIN, damaged)) == {"c": 1.0}


def texts(**by_prompt: str) -> dict[str, Transcript]:
    names = {prompt: f"k7/2/{prompt}" for prompt in by_prompt}
    return {
        names[prompt]: Transcript(request_id=names[prompt], text=text)
        for prompt, text in by_prompt.items()
    }


def test_the_examples_are_of_both_ends() -> None:
    costs = costs_of(PLAIN, DRAFTED)
    examples = example_outputs(costs, texts(a="worst", b="best", c="same"))
    assert [(e.of.prompt, e.text) for e in examples] == [("b", "best"), ("a", "worst")]


def test_without_texts_or_prompts_there_is_no_example() -> None:
    costs = costs_of(PLAIN, DRAFTED)
    assert [*example_outputs(costs, {})] == []
    assert [e.of.prompt for e in example_outputs(costs, texts(a="", b="best"))] == ["b"]
    assert [*example_outputs(costs[:1], texts(b="best"))] == []
