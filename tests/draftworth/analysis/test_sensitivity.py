"""The cost ratio by the share of a class and by the price ratio, and where costs are equal.

In the run that `make_run` builds, a request takes 1.27465 s on average with the baseline and, with
the variant, 0.748465 s in `structured` and 1.738465 s in `open_ended`. All have 100 tokens.
"""

import math
from dataclasses import replace

import pytest

from draftworth.analysis.sensitivity import SHARES, CostByShare
from draftworth.records.load_shapes import PoissonLoad
from draftworth.records.run_folder import Run
from tests.draftworth.report import runs
from tests.draftworth.report.runs import VARIANT, make_facts, make_run
from tests.draftworth.report.states import STATES, with_factor
from tests.support.blocks import each_request, make_price
from tests.support.present import present

PLAIN_S, STRUCTURED_S, OPEN_ENDED_S = 1.27465, 0.748465, 1.738465


def by_hand(share: float) -> float:
    return (share * STRUCTURED_S + (1 - share) * OPEN_ENDED_S) / PLAIN_S


def curve_of(run: Run) -> CostByShare:
    (curve,) = make_facts(run).decision.by_share
    return curve


def test_costs_by_share_match_figures_by_hand() -> None:
    curve = curve_of(make_run())
    assert (curve.prompt_class, curve.variant, curve.judged_share) == ("structured", VARIANT, 0.5)
    assert len(SHARES) == 11
    for share in SHARES:
        assert curve.ratios[share].value == pytest.approx(by_hand(share))
    assert curve.falls
    equal = present(curve.equal)
    assert equal.value == pytest.approx((OPEN_ENDED_S - PLAIN_S) / (OPEN_ENDED_S - STRUCTURED_S))
    assert 0.3 < present(equal.low) < equal.value < present(equal.high) < 0.6


def test_the_intervals_are_those_of_the_verdicts() -> None:
    facts = make_facts(make_run())
    (mix,), (curve,) = facts.mixes, facts.decision.by_share
    structured, open_ended = (present(v.comparison).cost_ratio for v in facts.speculative)
    assert curve.ratios[0.5] == mix.cost_ratio
    assert curve.ratios[1.0] == structured
    assert curve.ratios[0.0] == open_ended


def test_the_break_evens_interval_is_where_costs_cross() -> None:
    curve = curve_of(make_run())
    equal = present(curve.equal)
    low, high = present(equal.low), present(equal.high)
    assert 0 < low < high < 1
    for share in SHARES:
        contains_one = present(curve.ratios[share].low) < 1 < present(curve.ratios[share].high)
        assert contains_one == (low < share < high)


def test_a_losing_class_breaks_even_from_above() -> None:
    run = make_run()
    blocks = tuple(sorted(run.blocks, key=lambda block: block.prompt_class))
    turned = make_run(blocks=blocks, class_weights={"open_ended": 0.5, "structured": 0.5})
    curve, other = curve_of(turned), curve_of(run)
    assert curve.prompt_class == "open_ended"
    assert not curve.falls
    equal, mirrored = present(curve.equal), present(other.equal)
    assert equal.value == pytest.approx(1 - mirrored.value)
    assert present(equal.low) == pytest.approx(1 - present(mirrored.high))
    assert present(equal.high) == pytest.approx(1 - present(mirrored.low))


def test_prices_move_the_break_even_share() -> None:
    price = make_price(node_shares={runs.BASELINE: 0.25, VARIANT: 0.3})
    curve = curve_of(make_run(price=price))
    plain_s = PLAIN_S / 1.2
    equal = (OPEN_ENDED_S - plain_s) / (OPEN_ENDED_S - STRUCTURED_S)
    assert present(curve.equal).value == pytest.approx(equal)


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_costs_may_be_equal_at_no_share(factor: float) -> None:
    curve = curve_of(with_factor(factor))
    assert curve.equal is None
    assert curve.falls


def test_an_interval_may_reach_to_100_percent() -> None:
    curve = curve_of(with_factor(PLAIN_S / STRUCTURED_S / 1.001))
    equal = present(curve.equal)
    assert equal.value == pytest.approx(1.0, abs=0.01)
    assert present(equal.low) < equal.value
    assert equal.high == 1.0


def test_each_of_three_classes_has_a_curve() -> None:
    run = make_run()
    third = [
        replace(
            each_request(b, lambda r: replace(r, request_id=f"chat-{r.request_id}")),
            prompt_class="chat",
            block=b.block + 100,
        )
        for b in run.blocks
        if b.prompt_class == "open_ended"
    ]
    weights = {"structured": 0.5, "open_ended": 0.3, "chat": 0.2}
    facts = make_facts(make_run(blocks=(*run.blocks, *third), class_weights=weights))
    curves = facts.decision.by_share
    assert [c.prompt_class for c in curves] == list(weights)
    for share in (0.0, 0.3, 1.0):
        assert curves[0].ratios[share].value == pytest.approx(by_hand(share))
        # If `open_ended` has this share, `structured` has 0.5 / 0.7 of the rest. `chat` costs the
        # same as `open_ended`, as it is made of the same blocks.
        structured = (1 - share) * 0.5 / 0.7
        assert curves[1].ratios[share].value == pytest.approx(by_hand(structured))
    assert present(curves[2].equal).value < present(curves[1].equal).value


@pytest.mark.parametrize("name", ["one server", "failed run"])
def test_a_run_without_a_comparison_has_neither(name: str) -> None:
    facts = make_facts(STATES[name])
    assert facts.decision.by_share == ()
    assert facts.decision.by_price is None


def test_arrivals_at_a_rate_have_no_cost_curve() -> None:
    load = PoissonLoad(requests_per_second=2.0)
    blocks = tuple(replace(block, load=load) for block in make_run().blocks)
    facts = make_facts(make_run(blocks=blocks))
    assert facts.decision.by_share == ()
    assert facts.decision.by_price is None


def test_one_class_has_the_price_ratio_alone() -> None:
    facts = make_facts(runs.structured_run(4))
    assert facts.decision.by_share == ()
    equal = present(facts.decision.by_price).equal
    assert equal.value == pytest.approx(PLAIN_S / STRUCTURED_S)


def test_cost_ratio_is_proportional_to_price_ratio() -> None:
    price = make_price(node_shares={runs.BASELINE: 0.25, VARIANT: 0.5})
    cost = present(make_facts(make_run(price=price)).decision.by_price)
    assert cost.judged_price_ratio == 2.0
    assert cost.ratio.value == pytest.approx(2 * by_hand(0.5))
    assert cost.equal.value == pytest.approx(1 / by_hand(0.5))
    value, ends = cost.at(cost.equal.value)
    assert value == pytest.approx(1.0)
    low, high = present(ends)
    assert low < 1 < high
    assert present(cost.at(present(cost.equal.low))[1])[1] == pytest.approx(1.0)
    assert present(cost.at(present(cost.equal.high))[1])[0] == pytest.approx(1.0)


def test_few_prompts_give_values_without_intervals() -> None:
    facts = make_facts(STATES["inconclusive"])
    (curve,), cost = facts.decision.by_share, present(facts.decision.by_price)
    assert {ratio.interval for ratio in curve.ratios.values()} == {None}
    for equal in (present(curve.equal), cost.equal):
        assert (equal.low, equal.high) == (None, None)
        assert math.isfinite(equal.value)


def test_the_curves_are_at_the_answers_load() -> None:
    facts = make_facts(STATES["ladder"])
    (curve,) = facts.decision.by_share
    assert curve.traffic.load.label == present(facts.decision.by_price).traffic.load.label == "c1"
