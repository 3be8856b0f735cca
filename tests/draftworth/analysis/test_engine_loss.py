"""What an engine loses of the tokens per step that texts and draft allow, and where."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from draftworth.analysis.engine_loss import EngineLoss, EngineVerdict, engine_losses_of
from draftworth.analysis.lost_where import Contexts, Rounds
from draftworth.analysis.pooling import pooled
from draftworth.records.allowed_steps import AllowedSteps, RequestSteps, VariantSteps
from draftworth.records.load_shapes import ConcurrencyLoad
from draftworth.records.results import RequestRecord
from draftworth.records.run_folder import Run
from tests.support.blocks import make_block, make_record, make_run

VARIANT = "qwen3-1.7b-k7"
ROUNDS, PROMPTS, ALLOWED = 4, 8, 25
# Steps that a request takes beyond the allowed ones, by its round (from 1) and prompt (from 0).
More = Callable[[int, int], int]


def lossy_run(more: More, *, steps: dict[str, Any] | None = None, **block: Any) -> Run:
    """Return a run in which each request has 99 tokens after the first and 25 allowed steps.

    steps: more fields of each request's `RequestSteps`. block: fields of all blocks.
    """
    blocks, requests = [], []
    for number in range(1, ROUNDS + 1):
        records: list[RequestRecord] = []
        for prompt in range(PROMPTS):
            taken, name = ALLOWED + more(number, prompt), f"{block.get('load')} {number}-{prompt}"
            records.append(
                make_record(
                    prompt,
                    request_id=name,
                    chunks=taken + 1,
                    number_input_tokens=100 * (prompt + 1),
                    number_total_tokens=None,
                )
            )
            values: dict[str, Any] = {
                "tokens": 99,
                "steps": ALLOWED,
                "taken_as_allowed": taken == ALLOWED,
            }
            requests.append(RequestSteps(request_id=name, **{**values, **(steps or {})}))
        fields: dict[str, Any] = {"round": number, "block": number, "speculation": None}
        blocks.append(make_block(requests=tuple(records), max_tokens_per_step=8, **fields, **block))
    result = make_run(*blocks, max_tokens_per_step={VARIANT: 8})
    allowed = VariantSteps(variant=VARIANT, draft="draft", requests=tuple(requests))
    record = AllowedSteps(run_id=result.run_id, variants=(allowed,))
    return Run(result=result, blocks=tuple(blocks), allowed_steps=(record,))


def loss_of(more: More, **fields: Any) -> EngineLoss:
    (loss,) = engine_losses_of(lossy_run(more, **fields))
    return loss


@pytest.mark.parametrize(
    ("more", "verdict"),
    [
        (lambda *_: 0, EngineVerdict.NONE_LOST),
        (lambda number, prompt: int(number == prompt == 1), EngineVerdict.NONE_LOST),
        (lambda *_: 3, EngineVerdict.LOST),
        (lambda *_: -3, EngineVerdict.MORE),
        (lambda number, prompt: 20 * (number == prompt == 1), EngineVerdict.OPEN),
    ],
)
def test_the_verdict_follows_from_interval_and_margin(more: More, verdict: EngineVerdict) -> None:
    assert loss_of(more).verdict is verdict


def test_tokens_per_step_stand_beside_the_allowed() -> None:
    loss = loss_of(lambda number, _: 5 * (number > 1))
    assert (loss.requests, loss.taken_as_allowed) == (32, 8)
    assert loss.allowed == pytest.approx(99 / 25)
    assert loss.taken == pytest.approx(99 / (25 + 5 * 3 / 4))
    assert loss.ratio.value == pytest.approx(loss.taken / loss.allowed)


def test_few_prompts_leave_it_open_unless_exact() -> None:
    run = lossy_run(lambda *_: 3)
    few = tuple(replace(block, requests=block.requests[:2]) for block in run.blocks)
    (loss,) = engine_losses_of(replace(run, blocks=few))
    assert (loss.verdict, loss.ratio.interval) == (EngineVerdict.OPEN, None)
    exact = lossy_run(lambda *_: 0)
    few = tuple(replace(block, requests=block.requests[:2]) for block in exact.blocks)
    (loss,) = engine_losses_of(replace(exact, blocks=few))
    assert loss.verdict is EngineVerdict.NONE_LOST


def test_without_steps_on_both_sides_nothing_is_compared() -> None:
    run = lossy_run(lambda *_: 3)
    assert engine_losses_of(replace(run, allowed_steps=())) == ()
    token_by_token = lossy_run(lambda *_: 99 - ALLOWED)
    assert engine_losses_of(token_by_token) == (), "chunks of one token may be no steps"


def test_merged_chunks_do_not_hide_a_loss() -> None:
    (loss,) = engine_losses_of(lossy_run(lambda *_: 0, steps={"taken_as_allowed": False}))
    assert loss.ratio.value == 1
    fields = {"taken_as_allowed": False, "taken_at_least": 28}
    assert loss_of(lambda *_: 0, steps=fields).ratio.value == pytest.approx(25 / 28)


@pytest.mark.parametrize(
    ("at_least", "verdict"), [(0, EngineVerdict.LOST), (25, EngineVerdict.OPEN)]
)
def test_chunks_alone_show_no_small_loss(at_least: int, verdict: EngineVerdict) -> None:
    """A step more in each of a quarter to a half of the requests is a loss of 1 to 2%."""
    fields = {"taken_as_allowed": False, "taken_at_least": at_least}
    loss = loss_of(lambda number, prompt: int((number + prompt) % 3 == 0), steps=fields)
    assert 0.98 < loss.ratio.value < 0.99
    assert loss.verdict is verdict


def test_each_load_has_a_loss_alone() -> None:
    slow, fast = (ConcurrencyLoad(concurrency=c) for c in (1, 8))
    whole, lossy = lossy_run(lambda *_: 0, load=slow), lossy_run(lambda *_: 3, load=fast)
    later = tuple(replace(b, block=b.block + ROUNDS, round=b.round + ROUNDS) for b in lossy.blocks)
    steps = [run.allowed_steps[0].variants[0] for run in (whole, lossy)]
    both = replace(steps[0], requests=(*steps[0].requests, *steps[1].requests))
    record = replace(whole.allowed_steps[0], variants=(both,))
    run = replace(whole, blocks=(*whole.blocks, *later), allowed_steps=(record,))
    losses = {loss.load: loss.verdict for loss in engine_losses_of(run)}
    assert losses == {slow: EngineVerdict.NONE_LOST, fast: EngineVerdict.LOST}


def test_more_is_lost_in_the_first_round() -> None:
    loss = loss_of(lambda number, prompt: 10 * (number == 1) + prompt % 2)
    (place,) = loss.places
    assert place.where == Rounds(first=True)
    assert place.taken < place.allowed
    assert loss_of(lambda _, prompt: 5 + prompt % 2).places == ()


def test_more_is_lost_at_long_contexts() -> None:
    def long(number: int, prompt: int) -> int:
        return 10 * (prompt > 5) + number % 2

    (place,) = loss_of(long, steps={"taken_as_allowed": False}).places
    assert isinstance(place.where, Contexts)
    assert place.where.most == 800 + 99 / 2
    assert place.beside_rest.high is not None
    assert place.beside_rest.high < 0.99


def at_positions(accepted: Sequence[int], acceptable: Sequence[int]) -> EngineLoss:
    steps = {"accepted": tuple(accepted), "acceptable": tuple(acceptable)}
    return loss_of(lambda *_: 3, steps=steps)


def test_a_loss_is_told_at_its_draft_position() -> None:
    loss = at_positions((28, 20, 10), (20, 15))
    (position,) = loss.positions
    assert (position.position, position.acceptable, position.accepted) == (2, 0.75, 0.5)
    assert position.low == pytest.approx(0.25)
    assert at_positions((28, 20, 15), (20, 15)).positions == ()


def test_a_position_that_accepts_nothing_is_told() -> None:
    (position,) = at_positions((28, 20, 0), (20, 15)).positions
    assert position.accepted == 0


def test_pooled_runs_have_the_requests_of_all() -> None:
    runs = []
    for name in ("a", "b"):
        run = lossy_run(lambda *_: 3)
        blocks = tuple(replace(block, run_id=name) for block in run.blocks)
        record = replace(run.allowed_steps[0], run_id=name)
        result = replace(run.result, run_id=name)
        runs.append(replace(run, result=result, blocks=blocks, allowed_steps=(record,)))
    (loss,) = engine_losses_of(pooled(runs))
    assert loss.requests == 2 * ROUNDS * PROMPTS
