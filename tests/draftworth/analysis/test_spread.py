"""Errors of sums of correlated measurements, compared with values worked out by hand.

`tests/benchmarks/test_calibration.py` tests how often the resulting intervals are right.
"""

import math

import pytest

from draftworth.analysis.clustering import Sample, VariancePart
from draftworth.analysis.spread import MANY_REPETITIONS, Spread, half_width_of, spread
from tests.support.present import present
from tests.support.samples import samples


def variance_within(error: Spread) -> float:
    return sum(part.variance for part in error.within)


def test_repeated_prompts_do_not_reduce_the_error() -> None:
    """Prompts differ, but repeated requests of a prompt do not, so they add no information."""
    levels = [0.5, -0.5, 0.2, -0.2, 0.4, -0.4]
    two, many = (present(spread(samples([[v / n] * n for v in levels]))) for n in (2, 50))
    assert variance_within(many) == pytest.approx(variance_within(two))
    assert variance_within(many) == pytest.approx(6 / 5 * sum(v**2 for v in levels))


def test_prompts_seen_once_show_no_lasting_difference() -> None:
    """If each prompt was sent once, differences may come from the prompt or from the minute.

    So no part of the error is put down to prompts, and a report asks for more requests.
    """
    once = [
        Sample(stratum="case", prompt=f"p{i}", block=str(i % 2), value=value)
        for i, value in enumerate((0.3, -0.3, 0.1, -0.1, 0.2, -0.2))
    ]
    error = present(spread(once))
    assert error.of_prompts.variance == 0
    lasting = present(spread(samples([[v / 4] * 4 for v in (0.3, -0.3, 0.1, -0.1, 0.2, -0.2)])))
    assert lasting.of_prompts.variance > 0.6 * variance_within(lasting)


def test_many_prompts_do_not_reduce_a_blocks_error() -> None:
    few, many = (present(spread(samples([[1 / n, -1 / n]] * n))) for n in (6, 60))
    assert variance_within(many) == pytest.approx(variance_within(few)) == pytest.approx(4.0)
    assert many.of_rounds.degrees_of_freedom == 1


def test_what_lasts_is_free_of_single_requests() -> None:
    """Requests differ by 0.1 from their prompt's mean: more rounds reduce this part."""
    levels, noise = (0.3, -0.3, 0.1, -0.1, 0.2, -0.2), (0.1, -0.1)
    error = present(spread(samples([[v + n for n in noise] for v in levels])))
    # For each prompt, 2 / 1 times the squares of its two differences.
    of_requests = 6 * 2 * 2 * 0.1**2
    by_prompt = 6 / 5 * sum((2 * v) ** 2 for v in levels)
    assert error.of_prompts.variance == pytest.approx(by_prompt - of_requests)
    # The sums of both blocks differ from 0 by 0.6.
    assert error.of_rounds.variance == pytest.approx(2 * 2 * 0.6**2)


def test_each_part_has_its_own_t() -> None:
    """Eleven prompts differ much, and two blocks hardly."""
    levels = [0.3, -0.3, 0.1, -0.1, 0.2, -0.2, 0.4, -0.4, 0.15, -0.15, 0.0]
    error = present(spread(samples([[v + 0.001, v - 0.001] for v in levels])))
    assert [part.degrees_of_freedom for part in error.within] == pytest.approx([10, 1])
    parts = [part.half_width(0.95) for part in error.within]
    assert min(parts) > 0
    assert error.half_width(0.95) == pytest.approx(math.hypot(*parts))
    # The t of one degree of freedom would make the whole interval five times as wide.
    assert error.half_width(0.95) < 1.1 * VariancePart(variance_within(error), 10).half_width(0.95)


def test_prompts_differences_are_no_error_of_their_blocks() -> None:
    """Each prompt is sent in two of four blocks: the blocks differ by their prompts alone.

    They have two degrees of freedom: what a prompt's requests differ from their mean by adds up to
    0 over its two blocks.
    """
    rows = [
        Sample(stratum="case", prompt=f"p{number}", block=str(block), value=level)
        for number, level in enumerate((3.0, 3.1, 2.9, -3.0, -3.1, -2.9))
        for block in ((0, 1) if level > 0 else (2, 3))
    ]
    error = present(spread(rows))
    assert error.of_rounds.variance == pytest.approx(0)
    assert error.of_rounds.degrees_of_freedom == pytest.approx(2)
    assert error.of_prompts.variance > 0


def test_prompts_sent_once_vary_like_the_others() -> None:
    """Half of the prompts were sent twice, and their requests differ by 0.1 from the mean."""
    levels, noise = (0.3, -0.3, 0.1, -0.1, 0.2, -0.2, 0.4, -0.4), (0.1, -0.1)
    twice = samples([[v + n for n in noise] for v in levels[:4]])
    once = samples([[v] for v in levels])[4:]
    error = present(spread([*twice, *once]))
    sums = [2 * v for v in levels[:4]] + [*levels[4:]]
    of_requests = 4 * 2 * 2 * 0.1**2 * (8 + 4) / 8
    assert error.of_prompts.variance == pytest.approx(8 / 7 * sum(v**2 for v in sums) - of_requests)


def test_only_differences_within_cases_are_errors() -> None:
    far = [samples([[level, level]] * 3, stratum=name) for name, level in (("a", 5.0), ("b", -5.0))]
    within_cases = present(spread([*far[0], *far[1]]))
    assert variance_within(within_cases) == 0
    assert within_cases.of_rounds.degrees_of_freedom == 2
    as_one = present(spread([s._replace(stratum="all") for s in (*far[0], *far[1])]))
    assert variance_within(as_one) > 100


def test_cases_of_one_prompt_are_put_together() -> None:
    rows = [sample for i in range(6) for sample in samples([[i, i]], stratum=f"case-{i}")]
    error = present(spread(rows))
    assert variance_within(error) > 0
    assert error.prompts == 6


def repeated(levels: list[float], *, side: str = "", cases: int = 1) -> list[Sample]:
    """Return samples in which all prompts are alike, and repetitions differ by `levels`.

    levels: for each repetition, what it adds to the sum of all samples, times the number of
    repetitions.
    """
    count = len(levels) * cases
    return [
        sample._replace(repetition=f"r{number}", side=side, block=f"{sample.block}/{number}")
        for number, level in enumerate(levels)
        for case in range(cases)
        for sample in samples([[level / count / 12] * 2] * 6, stratum=f"case-{case}")
    ]


def test_few_repetitions_are_no_sample() -> None:
    error = present(spread(repeated([1.0, -1.0, 0.0])))
    assert (error.between, error.repetitions) == ((), 3)
    assert error.of_repetitions.variance == 0


def test_many_are_clustered_over_all_cases_at_once() -> None:
    """A start of the servers affects every case, so four cases show no more of it than one."""
    levels = [1.0, -1.0, 0.5, -0.5]
    assert len(levels) == MANY_REPETITIONS
    one, four = (present(spread(repeated(levels, cases=cases))) for cases in (1, 4))
    by_hand = VariancePart(4 / 3 * sum((level / 4) ** 2 for level in levels), 3)
    for error in (one, four):
        assert error.between[-1].variance == pytest.approx(by_hand.variance)
        assert error.between[-1].degrees_of_freedom == 3
        assert error.half_width(0.95) == pytest.approx(by_hand.half_width(0.95))
        # All blocks of a repetition are alike, so more rounds would not reduce the error.
        assert error.of_repetitions.variance == pytest.approx(by_hand.variance)
    assert half_width_of(four.within, 0.95) < 0.6 * four.half_width(0.95)


@pytest.mark.parametrize("cases_are_strata", [True, False])
def test_an_unfinished_repetition_is_not_counted(cases_are_strata: bool) -> None:
    """In the last repetition, only one of two cases was measured.

    If it is the fourth, the three whole ones are too few for a sample; if it is the fifth, there
    are three degrees of freedom, as with four repetitions.
    """

    def found_of(levels: list[float]) -> Spread:
        rows = repeated(levels, cases=2)
        if not cases_are_strata:
            rows = [s._replace(case=s.stratum, stratum="class") for s in rows]
        last = f"r{len(levels) - 1}"
        return present(spread([s for s in rows if s.repetition != last or "case-0" in s.prompt]))

    three, four = found_of([1.0, -1.0, 0.5, -0.5]), found_of([1.0, -1.0, 0.5, -0.5, 0.1])
    assert (three.repetitions, three.between) == (3, ())
    assert four.repetitions == 4
    assert four.between[-1].degrees_of_freedom == 3


def test_repetitions_and_prompts_have_separate_degrees_of_freedom() -> None:
    prompts = [0.5, -0.5, 0.2, -0.2, 0.4, -0.4]
    rows = [
        s._replace(repetition=f"r{number}", block=f"{s.block}/{number}")
        for number in range(4)
        for s in samples([[value / 8] * 2 for value in prompts])
    ]
    alike = present(spread(rows))
    # Repetitions that do not differ do not widen the interval, although they are few.
    assert alike.half_width(0.95) == pytest.approx(half_width_of(alike.within, 0.95))
    both = present(spread([*rows, *repeated([1.0, -1.0, 0.5, -0.5])]))
    parts = [part.half_width(0.95) for part in both.between]
    assert both.half_width(0.95) == pytest.approx(math.hypot(*parts))
    assert [part.degrees_of_freedom for part in both.between] == pytest.approx([10, 3])


def test_repetitions_of_two_compared_runs_are_two_samples() -> None:
    """Two repetitions in each of two runs are too few for a sample, although they are four in all.

    A constant difference between the two runs is no error.
    """
    few = present(spread([*repeated([1, -1], side="one"), *repeated([1, -1], side="other")]))
    assert (few.between, few.repetitions) == ((), 2)
    levels = [5.0, 5.0, 5.0, 5.0]
    many = present(
        spread(
            [*repeated(levels, side="one"), *repeated([-level for level in levels], side="other")]
        )
    )
    assert many.between[-1].variance == pytest.approx(0.0)
    assert many.between[-1].degrees_of_freedom == 6
