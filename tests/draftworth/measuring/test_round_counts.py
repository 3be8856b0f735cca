"""How a budget of requests is divided into rounds over repetitions and loads."""

import pytest

from draftworth.measuring.round_counts import RoundCounts
from tests.support.specifications import sampling


@pytest.mark.parametrize(
    ("counts", "repetitions", "loads", "least", "further"),
    [
        ((8, 8, 64), 1, 1, 1, [7]),
        ((8, 16, 64), 1, 1, 2, [6]),
        ((8, 16, 64), 2, 1, 1, [3, 3]),
        ((8, 16, 64), 2, 2, 1, [2, 2]),
        ((8, 16, 96), 2, 3, 1, [3, 3]),
        ((8, 16, 56), 2, 3, 1, [0, 1]),
        ((8, 16, 72), 3, 2, 1, [1, 1, 1]),
        ((8, 64, 64), 1, 4, 2, [0]),  # the budget has room for two rounds at each load
        ((5, 12, 12), 1, 1, 2, [0]),
        ((8, 8, 8), 4, 1, 1, [0, 0, 0, 0]),  # one round per repetition, above the budget of one
    ],
)
def test_a_budget_is_divided(
    counts: tuple[int, int, int], repetitions: int, loads: int, least: int, further: list[int]
) -> None:
    a_round, at_least, at_most = counts
    budget = sampling(requests_per_round=a_round, min_requests=at_least, max_requests=at_most)
    rounds = RoundCounts(sampling=budget, repetitions=repetitions, loads=loads)

    assert rounds.least == least
    assert [rounds.further(n + 1) for n in range(repetitions)] == further
    assert (rounds.all_least, rounds.all_further) == (least * repetitions * loads, sum(further))
    assert rounds.most == max(at_most // a_round, rounds.all_least)


@pytest.mark.parametrize(
    ("counts", "repetitions", "loads", "looks"),
    [
        ((8, 16, 64), 1, 1, 5),  # after rounds 4 to 8
        ((8, 40, 64), 1, 1, 4),  # after rounds 5 to 8
        ((8, 16, 64), 1, 2, 3),  # the other load takes two of the eight rounds
        ((8, 16, 64), 2, 1, 5),
        ((8, 32, 64), 2, 1, 4),  # after rounds 4, and 6 to 8
        ((8, 8, 8), 1, 1, 1),
    ],
)
def test_looks_begin_after_four_rounds(
    counts: tuple[int, int, int], repetitions: int, loads: int, looks: int
) -> None:
    a_round, at_least, at_most = counts
    budget = sampling(requests_per_round=a_round, min_requests=at_least, max_requests=at_most)
    assert RoundCounts(sampling=budget, repetitions=repetitions, loads=loads).looks == looks
