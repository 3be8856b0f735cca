"""The cost ratio of all prompts of a log, from a few measured ones and a forecast for all."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from draftworth.analysis.clustering import Sample
from draftworth.analysis.pairing import Pair
from draftworth.analysis.traffic_ratio import (
    MeasuredPart,
    TooFewMeasured,
    TrafficRatio,
    measured_part,
    traffic_ratio,
)
from draftworth.records.logged_traffic import MIN_MEASURED, ChosenPrompt, LoggedTraffic
from tests.support.blocks import make_failed_record, make_record

BASELINE_S_PER_TOKEN = 0.02


def traffic(steps: Sequence[float], *, of_all: float = 0.3, tokens: int = 100) -> LoggedTraffic:
    return LoggedTraffic(
        prompt_class="chat",
        case="log",
        draft="draft",
        window=5,
        prompts=2000,
        tokens=200_000,
        steps_per_token=of_all,
        seed=0,
        chosen=tuple(
            ChosenPrompt(id=str(i), tokens=tokens, steps_per_token=each)
            for i, each in enumerate(steps)
        ),
    )


def pair(prompt: int, ratio: float, *, number: int = 0, tokens: int = 100) -> Pair:
    plain, drafted = (
        make_record(
            prompt_id=str(prompt),
            number_output_tokens=tokens,
            end_to_end_latency_s=BASELINE_S_PER_TOKEN * tokens * factor,
        )
        for factor in (1.0, ratio)
    )
    place = Sample(
        stratum="chat/log", prompt=f"log/{prompt}", block=str(number), case="log", value=0.0
    )
    return Pair(prompt_class="chat", round=number, place=place, plain=plain, drafted=drafted)


STEPS = [0.2 + 0.01 * i for i in range(20)]
# Costs follow the forecast, and prompts differ by 5% besides.
RATIOS = [2 * s * (1.05 if i % 2 else 0.95) for i, s in enumerate(STEPS)]
PAIRS = [pair(i, r, number=n) for n in range(2) for i, r in enumerate(RATIOS)]


def of(pairs: Sequence[Pair], logged: LoggedTraffic) -> TrafficRatio:
    ratio = traffic_ratio(pairs, logged)
    assert isinstance(ratio, TrafficRatio)
    return ratio


def part(pairs: Sequence[Pair], logged: LoggedTraffic) -> MeasuredPart:
    measured = measured_part(pairs, logged)
    assert measured is not None
    return measured


def test_a_forecast_makes_the_interval_narrower() -> None:
    ratio = of(PAIRS, traffic(STEPS))
    widths = [e.relative_width or 0.0 for e in (ratio.cost_ratio, ratio.without_forecast)]
    assert 0 < widths[0] < widths[1] / 3


def test_a_dearer_log_has_a_higher_cost_ratio() -> None:
    """The chosen prompts have 0.295 steps per token, and cost 0.59."""
    for of_all in (0.25, 0.295, 0.35):
        ratio = of(PAIRS, traffic(STEPS, of_all=of_all))
        assert ratio.cost_ratio.value == pytest.approx(2 * of_all, rel=0.02)
        assert ratio.without_forecast.value == pytest.approx(0.59, rel=0.02)


def test_a_forecast_wrong_by_a_factor_changes_nothing() -> None:
    right = of(PAIRS, traffic(STEPS, of_all=0.35)).cost_ratio
    wrong = of(PAIRS, traffic([3 * s for s in STEPS], of_all=3 * 0.35)).cost_ratio
    assert wrong.value == pytest.approx(right.value)
    assert wrong.interval == pytest.approx(right.interval)


def test_an_equal_forecast_for_all_changes_nothing() -> None:
    ratio = of(PAIRS, traffic([0.3] * 20))
    assert ratio.cost_ratio.value == pytest.approx(ratio.without_forecast.value)


def test_a_useless_forecast_is_hardly_wider() -> None:
    ratio = of(PAIRS, traffic([STEPS[7 * i % 20] for i in range(20)], of_all=0.295))
    width, without = (e.relative_width or 0.0 for e in (ratio.cost_ratio, ratio.without_forecast))
    assert without * 0.9 < width < without * 1.2


def test_each_distance_is_from_the_others_line() -> None:
    """As if the prompt had not been measured: fitted again without it."""
    logged = traffic(STEPS)
    whole = part(PAIRS[:20], logged)
    distances = {p.prompt: p.value for p in whole.with_forecast().parts}
    costs, forecasts = (
        {p.prompt: p.value for p in each.parts} for each in (whole.cost, whole.forecast)
    )
    left_out = "log/3"
    rest = [p for p in costs if p != left_out]
    means = [math.fsum(values[p] for p in rest) / len(rest) for values in (costs, forecasts)]
    slope = math.fsum((costs[p] - means[0]) * (forecasts[p] - means[1]) for p in rest) / math.fsum(
        (forecasts[p] - means[1]) ** 2 for p in rest
    )
    line = means[0] + slope * (forecasts[left_out] - means[1])
    assert distances[left_out] == pytest.approx(costs[left_out] - line, rel=1e-6)


def test_a_prompt_counts_by_parts_and_tokens() -> None:
    """Half of the prompts are ten times as long, and were chosen ten times as often."""
    ratios = [0.5 if i % 2 else 1.0 for i in range(20)]
    logged = traffic([0.3] * 20)
    long = replace(
        logged,
        chosen=tuple(
            replace(p, tokens=1000 if i % 2 else 100) for i, p in enumerate(logged.chosen)
        ),
    )
    pairs = [
        pair(i, r, number=n, tokens=1000 if i % 2 else 100)
        for n in range(2)
        for i, r in enumerate(ratios)
    ]
    assert of(pairs, long).cost_ratio.value == pytest.approx(0.75)
    twice = replace(long, chosen=(replace(long.chosen[0], parts=2), *long.chosen[1:]))
    assert of(pairs, twice).cost_ratio.value == pytest.approx((11 + 5) / 21)


def test_a_prompt_measured_more_often_counts_once() -> None:
    again = [pair(0, RATIOS[0], number=n) for n in range(2, 9)]
    often, once = (of(p, traffic(STEPS)).cost_ratio for p in ((*PAIRS, *again), PAIRS))
    assert often.value == pytest.approx(once.value)


def test_too_few_measured_prompts_are_refused() -> None:
    few = [p for p in PAIRS if int(p.plain.prompt_id) < MIN_MEASURED - 1]
    assert traffic_ratio(few, traffic(STEPS)) == TooFewMeasured(measured=15, chosen=20)
    enough = [p for p in PAIRS if int(p.plain.prompt_id) < MIN_MEASURED]
    assert of(enough, traffic(STEPS)).measured == MIN_MEASURED


def test_requests_to_other_prompts_are_left_out() -> None:
    others_case = replace(PAIRS[0], place=PAIRS[0].place._replace(case="other"))
    other_prompts = (pair(77, 9.0), others_case, replace(PAIRS[0], prompt_class="other"))
    assert of((*PAIRS, *other_prompts), traffic(STEPS)) == of(PAIRS, traffic(STEPS))


def test_a_failed_request_costs_its_lost_time() -> None:
    failed = make_failed_record(prompt_id="0", failed_after_s=20.0)
    costly = (replace(PAIRS[0], drafted=failed), *PAIRS[1:])
    assert of(costly, traffic(STEPS)).cost_ratio.value > 1.2 * RATIOS[9]


def test_prices_count() -> None:
    half, whole = (traffic_ratio(PAIRS, traffic(STEPS), factor=f) for f in (0.5, 1.0))
    assert isinstance(half, TrafficRatio)
    assert isinstance(whole, TrafficRatio)
    assert half.cost_ratio.value == pytest.approx(whole.cost_ratio.value / 2)
