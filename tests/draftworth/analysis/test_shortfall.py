"""How much more to measure for a narrow interval, compared with numbers worked out by hand."""

import pytest

from draftworth.analysis.shortfall import Shortfall, more_rounds_help, shortfall
from tests.support.samples import estimate_between


def test_requests_are_missing_first_and_then_prompts() -> None:
    wide = estimate_between(0.9, 1.1, prompts_width=0.0)
    assert shortfall(wide, target_width=0.3) == Shortfall()
    assert not shortfall(wide, target_width=0.3)
    # The interval's width of 0.2 is halved by four times as many requests.
    assert shortfall(wide, target_width=0.1) == Shortfall(requests=96)
    kept_wide = estimate_between(0.9, 1.1, prompts_width=0.19)
    # Of the width of 0.2, 0.19 comes from the prompts, and more requests do not reduce that. It
    # takes (0.19 / 0.1)^2 times the 8 prompts.
    assert shortfall(kept_wide, target_width=0.1) == Shortfall(prompts=21)
    assert shortfall(estimate_between(None, None), target_width=0.1) is None
    assert shortfall(None, target_width=0.1) is None


@pytest.mark.parametrize(
    ("lasting", "helps"), [(0.05, True), (0.15, True), (0.19, False), (None, True)]
)
def test_more_rounds_help_until_prompts_alone_are_left(lasting: float | None, helps: bool) -> None:
    assert (
        more_rounds_help(estimate_between(0.9, 1.1, prompts_width=lasting), target_width=0.1)
        is helps
    )


@pytest.mark.parametrize(
    ("prompts_width", "repetitions_width", "lacks"),
    [
        # It takes (0.19 / 0.1)^2 times the four repetitions.
        (0.0, 0.19, Shortfall(repetitions=11)),
        # Prompts take 0.06 of the requested width of 0.1, so less is left for the repetitions'
        # part, and it takes more of them.
        (0.06, 0.18, Shortfall(repetitions=17)),
        (0.18, 0.06, Shortfall(prompts=33)),
        (0.14, 0.14, Shortfall(prompts=8, repetitions=4)),
        (0.08, 0.03, Shortfall(requests=356)),
    ],
)
def test_differing_repetitions_demand_more_of_them(
    prompts_width: float, repetitions_width: float, lacks: Shortfall
) -> None:
    wide = estimate_between(
        0.9, 1.1, prompts_width=prompts_width, repetitions_width=repetitions_width
    )
    assert shortfall(wide, target_width=0.1) == lacks


def test_rounds_do_not_help_against_repetitions_that_differ() -> None:
    wide = estimate_between(0.9, 1.1, prompts_width=0.05, repetitions_width=0.19)
    assert not more_rounds_help(wide, target_width=0.1)
    assert more_rounds_help(wide, target_width=0.2)
