"""Which word the gate says, and what it refuses to judge."""

from dataclasses import replace

import pytest

from benchmarks.gate_histories import MARGIN
from draftworth.analysis.doubts import ManyExcluded, ManyFailed, PromptsCached
from draftworth.analysis.pooling import pooled
from draftworth.decision.upgrade_gate import (
    Gate,
    NothingToJudgeError,
    NotMeasuredWellError,
    NotSameWorkError,
    Word,
    gate,
)
from draftworth.records.load_shapes import ConcurrencyLoad
from draftworth.records.run_folder import Run
from tests.draftworth.histories import STEADY, changed
from tests.support.blocks import make_failed_record
from tests.support.present import present


def runs_of(change: float, before: int = 4) -> tuple[Run, Run]:
    runs = replace(STEADY, change=change, before=before).runs(seed=0)
    return pooled(runs[:-1]), runs[-1]


def judged(change: float, before: int = 4) -> Gate:
    return gate(*runs_of(change, before), margin=MARGIN)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (0.9, Word.HELD),
        (1.0, Word.HELD),
        (1 + MARGIN, Word.UNDECIDED),
        (1.06, Word.NOT_HELD),
    ],
)
def test_the_interval_beside_the_margin_decides(change: float, word: Word) -> None:
    answer = judged(change)
    (row,) = answer.rows
    low, high = present(row.interval)
    assert low < change < high
    assert answer.word is word


def test_three_starts_before_the_change_decide_nothing() -> None:
    answer = judged(1.5, before=3)
    assert answer.word is Word.UNDECIDED
    assert answer.rows[0].lacks_starts == 1
    assert judged(1.5, before=4).rows[0].lacks_starts == 0


def test_many_failed_requests_do_not_hold() -> None:
    before, after = runs_of(1.0)
    failing = changed(after, lambda r: replace(make_failed_record(), prompt_id=r.prompt_id))
    (row,) = gate(before, failing, margin=MARGIN).rows
    assert row.word is Word.NOT_HELD
    assert isinstance(row.failed, ManyFailed)


def test_failed_requests_of_the_baseline_judge_nothing() -> None:
    before, after = runs_of(1.0)
    failing = changed(before, lambda r: replace(make_failed_record(), prompt_id=r.prompt_id))
    with pytest.raises(NotMeasuredWellError) as refused:
        gate(failing, after, margin=MARGIN)
    assert isinstance(refused.value.doubt, ManyFailed)


@pytest.mark.parametrize("side", [0, 1])
def test_a_busy_client_judges_nothing(side: int) -> None:
    runs = [*runs_of(1.0)]
    runs[side] = changed(runs[side], lambda r: replace(r, excluded="run_queue"))
    with pytest.raises(NotMeasuredWellError) as refused:
        gate(*runs, margin=MARGIN)
    assert isinstance(refused.value.doubt, ManyExcluded)


def test_prompts_of_a_cache_judge_nothing() -> None:
    before, after = runs_of(1.0)
    cached = changed(after, lambda r: replace(r, number_input_tokens=100, cached_input_tokens=90))
    with pytest.raises(NotMeasuredWellError) as refused:
        gate(before, cached, margin=MARGIN)
    assert isinstance(refused.value.doubt, PromptsCached)
    warm = replace(cached, result=replace(cached.result, prompt_cache="warm"))
    warm_before = replace(before, result=replace(before.result, prompt_cache="warm"))
    assert gate(warm_before, warm, margin=MARGIN).word is Word.HELD


def test_other_prompts_are_other_work() -> None:
    before, after = runs_of(1.0)
    other = changed(after, lambda r: replace(r, prompt_id=f"other-{r.prompt_id}"))
    with pytest.raises(NotSameWorkError):
        gate(before, other, margin=MARGIN)


def test_another_server_is_not_judged() -> None:
    before, after = runs_of(1.0)
    other = replace(
        after,
        result=replace(after.result, variants=("other",)),
        blocks=tuple(replace(block, variant="other") for block in after.blocks),
    )
    with pytest.raises(NothingToJudgeError):
        gate(before, other, margin=MARGIN)


def test_each_load_has_to_hold() -> None:
    """One of two loads is dearer; their intervals are wider than that of one."""
    (before, after), (_, dear) = runs_of(1.0), runs_of(1.2)
    load = ConcurrencyLoad(concurrency=2)

    def at_both(run: Run, other: Run) -> Run:
        second = tuple(replace(b, load=load, block=b.block + 10_000) for b in other.blocks)
        return replace(run, blocks=(*run.blocks, *second))

    answer = gate(at_both(before, before), at_both(after, dear), margin=MARGIN)
    assert [row.word for row in answer.rows] == [Word.HELD, Word.NOT_HELD]
    assert answer.word is Word.NOT_HELD
    assert answer.rows[0].confidence > judged(1.0).rows[0].confidence
