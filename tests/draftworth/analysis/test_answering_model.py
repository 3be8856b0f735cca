"""Answers with another model name than the requested one, from one server or from both."""

from dataclasses import replace

import pytest

from draftworth.decision.facts import RunFacts
from draftworth.records.load_shapes import ConcurrencyLoad
from draftworth.report.attention import attention_of
from draftworth.report.reason_sentences import reason_words
from tests.draftworth.report import runs
from tests.support.blocks import make_block

REQUESTED = make_block().model
DATED = f"{REQUESTED}-2026-11-20"
NAMES: dict[str, tuple[tuple[str, ...], tuple[str, ...], str]] = {
    "none": ((), (), ""),
    "the one asked for": ((REQUESTED,), (REQUESTED,), ""),
    "the same other one": ((DATED,), (DATED,), ""),
    "none beside another one": ((), (DATED,), ""),
    "two": (("a",), ("b",), "baseline answers as a, k7 answers as b: that may be different"),
    "one as asked for": ((REQUESTED,), ("b",), f"baseline answers as {REQUESTED}, k7 answers as b"),
    "two of one server": ((), ("a", "b"), "k7 answers as a and b: that may be different models"),
    "two of both": (("a", "b"), ("a", "b"), "baseline answers as a and b, k7 answers as a and b"),
    "two with escapes": (("\x1b[2J",), ("b",), r"baseline answers as \x1b[2J, k7 answers as b"),
}


def facts_with(plain: tuple[str, ...], drafted: tuple[str, ...]) -> RunFacts:
    names = {runs.BASELINE: plain, runs.VARIANT: drafted}
    run = runs.make_run()
    blocks = tuple(replace(block, answering_models=names[block.variant]) for block in run.blocks)
    return runs.make_facts(replace(run, blocks=blocks))


@pytest.mark.parametrize(("plain", "drafted", "why"), NAMES.values(), ids=NAMES)
def test_two_names_leave_no_decision(
    plain: tuple[str, ...], drafted: tuple[str, ...], why: str
) -> None:
    before, after = facts_with((), ()).comparisons, facts_with(plain, drafted).comparisons
    assert [c.cost_ratio for c in before] == [c.cost_ratio for c in after]
    if not why:
        assert [(c.judgement, c.reason) for c in before] == [(c.judgement, c.reason) for c in after]
        return
    assert {c.judgement for c in before} != {"inconclusive"}
    assert {c.judgement for c in after} == {"inconclusive"}
    assert all(why in reason_words(c) for c in after), after[0].reason
    assert "next: serve one model under one name (vLLM: --served-model-name" in reason_words(
        after[0]
    )


@pytest.mark.parametrize(("plain", "drafted"), [row[:2] for row in NAMES.values()], ids=NAMES)
def test_an_unrequested_model_name_calls_for_attention(
    plain: tuple[str, ...], drafted: tuple[str, ...]
) -> None:
    lines = [line for line in attention_of(facts_with(plain, drafted)) if "name the model" in line]
    assert len(lines) == bool({*plain, *drafted} - {REQUESTED})
    assert all(f" and {REQUESTED} was asked for." in line and line.isprintable() for line in lines)


def test_only_the_load_with_different_models_is_inconclusive() -> None:
    run = runs.make_run()
    load = ConcurrencyLoad(concurrency=8)
    more = [replace(block, load=load, answering_models=(block.variant,)) for block in run.blocks]
    facts = runs.make_facts(replace(run, blocks=(*run.blocks, *more)))
    assert {c.judgement == "inconclusive" for c in facts.comparisons if c.traffic.load == load} == {
        True
    }
    assert {c.judgement for c in facts.comparisons if c.traffic.load != load} == {
        c.judgement for c in runs.make_facts(run).comparisons
    }
