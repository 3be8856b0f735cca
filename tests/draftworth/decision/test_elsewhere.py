"""A run's winner beside the servers without speculation of a run on something else."""

from dataclasses import replace
from typing import Any

import pytest

from draftworth.analysis.spread import MANY_REPETITIONS
from draftworth.decision.elsewhere import Elsewhere, elsewhere
from draftworth.records.results import AS_SHIPPED, BlockResult, PromptCache
from draftworth.records.run_folder import Run
from draftworth.records.servers import SelfTest
from draftworth.report.contents import elsewhere_section
from tests.draftworth.report import runs, states
from tests.support.blocks import each_request
from tests.support.present import present

# With this traffic the variant of the built run is the winner.
MOSTLY_STRUCTURED = {"structured": 0.9, "open_ended": 0.1}


def old(repetitions: int = MANY_REPETITIONS, **overrides: Any) -> Run:
    """A run in which the variant `k7` wins."""
    run = runs.make_run(**{"class_weights": MOSTLY_STRUCTURED, **overrides})
    return runs.with_repetitions(run, repetitions, between=0.0)


def renamed(block: BlockResult, suffix: str) -> BlockResult:
    return each_request(block, lambda r: replace(r, request_id=f"{r.request_id}-{suffix}"))


def newest(
    repetitions: int = MANY_REPETITIONS,
    *,
    like: str = runs.BASELINE,
    factor: float = 1.0,
    **overrides: Any,
) -> Run:
    """A run of another experiment, of plain decoding: set like a draft's, and as shipped.

    like, factor: its requests take `factor` times as long as those of this variant in `old`.
    """
    plain = [runs.slower(b, factor) for b in old(repetitions).blocks if b.variant == like]
    blocks = (
        replace(renamed(b, name), variant=name, block=b.block * 2 + place)
        for b in plain
        for place, name in enumerate((runs.BASELINE, AS_SHIPPED))
    )
    fields = {
        "run_id": "newest",
        "experiment": "newest",
        "variants": (runs.BASELINE, AS_SHIPPED),
        "max_tokens_per_step": {runs.BASELINE: 1, AS_SHIPPED: 1},
        "repetitions": repetitions,
    }
    return runs.make_run(blocks=tuple(blocks), **(fields | overrides))


def compared(run: Run, other: Run) -> Elsewhere:
    return elsewhere(runs.make_facts(run), runs.make_facts(other))


def test_the_winner_meets_every_plain_server() -> None:
    comparison = compared(old(), newest())
    assert [(w.variant, w.other_variant) for w in comparison.winners] == [
        ("k7", runs.BASELINE),
        ("k7", AS_SHIPPED),
    ]
    assert {w.traffic.name for w in comparison.winners} == {"traffic mix"}


@pytest.mark.parametrize(("factor", "words"), [(1.0, "% less"), (0.2, "% more")])
def test_four_repetitions_of_each_give_a_verdict(factor: float, words: str) -> None:
    comparison = compared(old(), newest(factor=factor))
    assert {w.is_shown for w in comparison.winners} == {True}
    sentences = elsewhere_section(comparison).paragraphs[1:3]
    assert all(words in sentence for sentence in sentences)
    assert "the winner here (k7) against baseline-as-shipped there" in sentences[1]


def test_equal_costs_are_not_shown_to_differ() -> None:
    comparison = compared(old(), newest(like="k7"))
    assert {w.is_shown for w in comparison.winners} == {False}
    assert "no difference is shown" in elsewhere_section(comparison).paragraphs[1]


@pytest.mark.parametrize("few", [(MANY_REPETITIONS, 3), (3, MANY_REPETITIONS)])
def test_fewer_repetitions_of_either_give_none(few: tuple[int, int]) -> None:
    comparison = compared(old(few[0]), newest(few[1], factor=2.0))
    assert {w.is_shown for w in comparison.winners} == {None}
    assert (
        f"takes {MANY_REPETITIONS} repetitions of each run"
        in elsewhere_section(comparison).paragraphs[1]
    )


def test_the_winners_interval_is_wider() -> None:
    """The run's winner was chosen, and is compared with two servers."""
    noisy = runs.with_repetitions(runs.make_run(class_weights=MOSTLY_STRUCTURED), 4, between=0.02)
    comparison = compared(noisy, newest())
    winner = comparison.winners[0]
    row = next(
        r
        for r in comparison.rows
        if (r.traffic, r.variant, r.other_variant) == (winner.traffic, "k7", runs.BASELINE)
    )
    assert present(winner.ratio).value == present(row.ratio).value
    assert present(present(winner.ratio).relative_width) > present(
        present(row.ratio).relative_width
    )


def cached(run: Run, variant: str) -> Run:
    """A run in which a variant's server had three quarters of its prompts in a prefix cache."""
    blocks = (
        each_request(b, lambda r: replace(r, number_input_tokens=64, cached_input_tokens=48))
        if b.variant == variant
        else b
        for b in run.blocks
    )
    return replace(run, blocks=tuple(blocks))


@pytest.mark.parametrize(("run", "other"), [("cold", "cold"), ("warm", "warm")])
def test_a_cache_of_the_other_run_is_doubted(run: PromptCache, other: PromptCache) -> None:
    there = cached(newest(factor=2.0, prompt_cache=other), runs.BASELINE)
    comparison = compared(old(prompt_cache=run), there)
    is_open = run == "cold"
    by_server = {w.other_variant: w.is_shown for w in comparison.winners}
    assert (by_server[runs.BASELINE] is None) is is_open
    text = " ".join(map(str, elsewhere_section(comparison).paragraphs))
    assert ("against baseline there: which costs less is open." in text) is is_open
    words = "What baseline of the other one costs is open: prompts were not new to baseline;"
    assert text.count(words) == is_open


def test_a_doubted_pair_is_doubted_elsewhere_too() -> None:
    """The variant counts twice as many tokens in the same texts: neither server is believed."""
    comparison = compared(states.with_requests(number_output_tokens=200), newest())
    assert {row.is_shown for row in comparison.rows} == {None}
    text = " ".join(map(str, elsewhere_section(comparison).paragraphs))
    for name in (runs.BASELINE, runs.VARIANT):
        assert f"What {name} of this run costs is open: the servers count tokens" in text


def test_one_servers_cache_is_doubted_without_a_pair() -> None:
    run = newest()
    plain = tuple(b for b in run.blocks if b.variant == runs.BASELINE)
    there = replace(run, blocks=plain, result=replace(run.result, variants=(runs.BASELINE,)))
    for server, is_open in ((there, False), (cached(there, runs.BASELINE), True)):
        rows = compared(old(), server).rows
        assert {row.is_shown is None for row in rows} == {is_open}


def test_without_a_decision_nothing_is_judged() -> None:
    failed = compared(old(status="failed", reason="the budget is spent"), newest())
    assert failed.rows
    assert failed.winners == ()


def test_other_prompts_are_named_and_not_judged() -> None:
    other = newest()
    blocks = (
        each_request(b, lambda r: replace(r, prompt_id=r.prompt_id.replace("7", "70")))
        for b in other.blocks
    )
    comparison = compared(old(), replace(other, blocks=tuple(blocks)))
    assert comparison.winners == ()
    assert any("Not the same: prompts of" in p for p in elsewhere_section(comparison).paragraphs)


def test_image_devices_and_runtime_are_named() -> None:
    serving = replace(
        runs.SERVING, release="neuron-2.33.0", image="registry/vllm:2", slot_devices=4
    )
    tests = {
        name: {"baseline": SelfTest(driver=driver, runtime=name, seconds=1.0)}
        for name, driver in (("2.28.23", "2.28.0.0"), ("2.35.30", "2.29.0.0"))
    }
    before = old(serving=runs.SERVING, self_tests=tests["2.28.23"])
    text = " ".join(
        elsewhere_section(
            compared(before, newest(serving=serving, self_tests=tests["2.35.30"]))
        ).paragraphs
    )
    for words in (
        "Not the same: image 'registry/vllm:1' and 'registry/vllm:2'.",
        "Not the same: devices of a slot 8 and 4.",
        "Not the same: Neuron runtime '2.28.23' and '2.35.30'.",
        "Not the same: Neuron driver '2.28.0.0' and '2.29.0.0'.",
    ):
        assert words in text
