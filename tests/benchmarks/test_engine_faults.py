"""The planted engines of the calibration: what their faults lose, and a few runs of each day."""

import random
from dataclasses import replace

import pytest

from benchmarks.engine_faults import CELLS, Cell, judged, taken_steps
from draftworth.analysis import engine_loss
from draftworth.analysis.engine_loss import EngineVerdict

RUNS = 8
# What `rejecting_share(0.03)` returns after some seconds.
SHARE_OF_3_PERCENT = 0.0439


def test_an_engine_accepts_all_unless_it_rejects() -> None:
    hits = [True] * 12
    assert taken_steps(hits, 7, 0.0, random.Random(0)) == ([6, 1], 10), "5 beyond the output's end"
    assert taken_steps(hits, 7, 1.0, random.Random(0)) == ([1] * 7, 0)


@pytest.mark.parametrize("merged", [0.0, 0.05])
@pytest.mark.parametrize("counts", [True, False])
def test_an_exact_engine_loses_nothing(*, counts: bool, merged: float) -> None:
    losses = [judged(Cell(loss=0.0, counts=counts, merged=merged), seed) for seed in range(3)]
    assert {loss.verdict for loss in losses} == {EngineVerdict.NONE_LOST}
    assert all(loss.taken_as_allowed == loss.requests == 64 for loss in losses)


@pytest.mark.parametrize("sampled", [False, True])
def test_a_planted_loss_is_found(monkeypatch: pytest.MonkeyPatch, *, sampled: bool) -> None:
    monkeypatch.setattr("benchmarks.engine_faults.rejecting_share", lambda _: SHARE_OF_3_PERCENT)
    losses = [judged(Cell(loss=0.03, sampled=sampled), seed) for seed in range(RUNS)]
    assert [loss.verdict for loss in losses].count(EngineVerdict.LOST) >= RUNS - 1


def test_near_ties_are_no_loss() -> None:
    right = Cell(loss=0.0, near_ties=0.01)
    verdicts = [judged(right, seed).verdict for seed in range(RUNS)]
    assert EngineVerdict.LOST not in verdicts
    assert EngineVerdict.MORE not in verdicts


def test_without_the_interval_near_ties_would_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_loss, "LOSS_CONFIDENCE", 0.01)
    monkeypatch.setattr(engine_loss, "MARGIN", 0.0)
    right = Cell(loss=0.0, near_ties=0.01)
    verdicts = [judged(right, seed).verdict for seed in range(RUNS)]
    assert EngineVerdict.LOST in verdicts


def test_each_kind_of_answer_is_in_the_table() -> None:
    right = [replace(cell, loss=0.0) for cell in CELLS if cell.where == "everywhere" and cell.loss]
    assert all(cell in CELLS for cell in right), "each loss has a cell without it"
