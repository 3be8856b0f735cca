"""The steps that any window would give, computed from where the draft predicts the output."""

import random
from statistics import fmean

import pytest

from draftworth import speculation


def flags(hits: str) -> list[bool]:
    return [hit == "1" for hit in hits]


@pytest.mark.parametrize(
    ("hits", "checked", "steps"),
    [
        ("111111", 2, [3, 3]),
        ("000000", 2, [1] * 6),
        ("110110", 7, [3, 3]),
        ("1111", 7, [4]),  # the output ends inside the step
        ("11111", 3, [4, 1]),
        ("10", 0, [1, 1]),
        ("", 7, []),
    ],
)
def test_a_step_yields_accepted_tokens_and_one_more(
    hits: str, checked: int, steps: list[int]
) -> None:
    assert list(speculation.steps_of(flags(hits), checked=checked)) == steps


def test_conventions_differ_by_the_drafts_checked() -> None:
    """With a window of 3, NxD Inference checks 2 of its 3 drafts, and upstream vLLM all 3."""
    hits = flags("1110" * 100)

    assert fmean(speculation.steps_of(hits, checked=2)) == 2.0  # steps of 3 and 1 tokens in turn
    assert fmean(speculation.steps_of(hits, checked=3)) == 4.0


def test_steps_agree_with_formula_where_hits_are_independent() -> None:
    drawn = random.Random(7)
    hits = [drawn.random() < 0.8 for _ in range(200_000)]

    for checked in (1, 6, 14):
        expected = speculation.expected_tokens_per_step(0.8, checked=checked)
        assert fmean(speculation.steps_of(hits, checked=checked)) == pytest.approx(
            expected, rel=0.01
        )


def test_fewer_than_no_drafts_cannot_be_checked() -> None:
    with pytest.raises(ValueError, match="0 or more"):
        list(speculation.steps_of([True], checked=-1))


@pytest.mark.parametrize("acceptance", [-0.1, 1.1])
def test_an_acceptance_is_a_share(acceptance: float) -> None:
    with pytest.raises(ValueError, match="0 to 1"):
        speculation.expected_tokens_per_step(acceptance, checked=3)


def test_acceptance_may_fall_and_never_exceeds_one() -> None:
    falling = speculation.expected_tokens_per_step(0.8, checked=3, decay=0.5)
    assert falling == pytest.approx(1 + 0.8 + 0.8 * 0.4 + 0.8 * 0.4 * 0.2)
    assert speculation.expected_tokens_per_step(0.9, checked=2, decay=2.0) == pytest.approx(2.8)
