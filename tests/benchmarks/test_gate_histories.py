"""Planted histories: how often the gate says a wrong word, with few of them."""

from dataclasses import replace

from benchmarks.gate_histories import MARGIN, WORLDS, judged
from draftworth.decision.upgrade_gate import Word

SEEDS = range(20)
WORLD = replace(WORLDS["starts 0.5%, 12 runs, 3 after"], rounds=2)


def words(change: float) -> list[Word]:
    return [judged(replace(WORLD, change=change), seed).word for seed in SEEDS]


def test_no_change_is_held_and_never_fails() -> None:
    answers = words(1.0)
    assert answers.count(Word.HELD) >= 12
    assert Word.NOT_HELD not in answers


def test_a_change_at_the_margin_is_seldom_decided() -> None:
    """Each of the two words would be wrong in 2% of gates."""
    answers = words(1 + MARGIN)
    assert answers.count(Word.UNDECIDED) >= 17


def test_a_change_of_a_tenth_is_always_found() -> None:
    assert set(words(1.1)) == {Word.NOT_HELD}
