"""Acceptance profiles by window and position, of replayed outputs and runs; invalid profiles."""

import math
from dataclasses import replace

import pytest

from draftworth.analysis.acceptance import acceptance_of, profile_of
from draftworth.records.acceptance_profile import Measured, WindowAcceptance, text_hash
from tests.draftworth.report.runs import TOKENS_PER_STEP, VARIANT, WINDOW, make_run
from tests.support.present import present
from tests.support.readings import make_reading
from tests.support.serving_facts import make_serving_facts


def test_shares_of_accepted_drafts_sum_to_a_step() -> None:
    """In each output, the draft predicts two tokens right, then one wrong, and so on (`110`).

    With two or three checked drafted tokens, each step yields 3 tokens; with one, steps yield 2
    tokens and 1 token in turns.
    """
    readings = [make_reading("110" * 4, id=f"{n}", prompt_id=f"p{n}") for n in range(8)]
    one, two, three = acceptance_of(readings, [3, 1, 2], by_position=True)["chat"]
    assert [w.drafts_checked for w in (one, two, three)] == [1, 2, 3]
    assert [share.value for share in three.accepted] == [1.0, 1.0, 0.0]
    assert (three.tokens_per_step.value, three.outputs, three.tokens) == (3.0, 8, 96)
    for window in (one, two, three):
        summed = 1 + math.fsum(share.value for share in window.accepted)
        assert window.tokens_per_step.value == pytest.approx(summed, abs=1e-5)
        assert window.tokens_per_step.low is not None
    assert not acceptance_of(readings, [3])["chat"][0].accepted


def test_a_runs_steps_have_intervals_but_positions_none() -> None:
    run = make_run(temperature=0.8)
    profile = present(profile_of(run))
    (draft,) = profile.drafts
    (window,) = draft.classes["structured"]
    assert (draft.method, draft.draft, profile.temperature) == ("not known", VARIANT, 0.8)
    assert (profile.target, window.drafts_checked) == (run.blocks[0].model, WINDOW - 1)
    assert window.tokens_per_step.value == pytest.approx(TOKENS_PER_STEP["structured"], rel=0.03)
    assert window.tokens_per_step.low is not None
    assert [share.value for share in window.accepted] == [0.9, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2]
    assert {share.low for share in window.accepted} == {None}
    assert profile.text_sha256 == text_hash(["0" * 64])


def test_without_counters_a_run_has_no_positions() -> None:
    blocks = tuple(replace(block, speculation=None) for block in make_run().blocks)
    facts = make_serving_facts()
    drafted = next(decoding for decoding in facts.decoding.values() if decoding.draft)
    run = make_run(blocks=blocks, serving=replace(facts, decoding={VARIANT: drafted}))
    profile = present(profile_of(run))
    assert (profile.target, profile.target_revision) == (facts.target_model, "main")
    draft = profile.drafts[0]
    assert (draft.draft, draft.draft_revision) == (drafted.draft, "abc1234")
    assert profile.drafts[0].classes["structured"][0].accepted == ()


def test_a_run_without_speculation_has_no_profile() -> None:
    assert profile_of(make_run(max_tokens_per_step={})) is None


@pytest.mark.parametrize(
    ("tokens", "shares", "message"),
    [
        (0.9, (), "tokens_per_step: given 0.9, allowed: 1 to 3, as a step yields at most the 2"),
        (3.1, (), "tokens_per_step: given 3.1"),
        (2.0, (0.5, 0.6), "allowed: 2 shares of all steps, from 1 to 0, none above the one before"),
        (2.0, (0.8,), "accepted: given"),
        (2.0, (1.2, 0.1), "accepted: given"),
        (2.0, (0.9, -0.1), "accepted: given"),
    ],
)
def test_what_a_step_cannot_yield_is_refused(
    tokens: float, shares: tuple[float, ...], message: str
) -> None:
    accepted = tuple(Measured(value=share) for share in shares)
    with pytest.raises(ValueError, match=message):
        WindowAcceptance(
            drafts_checked=2, tokens_per_step=Measured(value=tokens), accepted=accepted
        )


def test_an_interval_is_around_its_figure() -> None:
    with pytest.raises(ValueError, match="allowed: low <= value <= high"):
        Measured(value=2.0, low=2.1, high=2.2)


def test_the_hash_of_texts_is_of_the_set() -> None:
    assert text_hash(["b", "a", "b"]) == text_hash(["a", "b"]) != text_hash(["a"])
