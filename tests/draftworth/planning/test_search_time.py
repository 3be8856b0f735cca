"""The time line of a search: one example by hand, `search.stop`, and a second run."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftworth.experiment.search_settings import Stop
from draftworth.planning.assumptions import Bounds, replaced
from draftworth.planning.resolved import ResolvedNeuron
from draftworth.planning.timeline import FURTHER_CANDIDATES, RunForecast, forecast
from tests.support.experiments import changed, resolved
from tests.support.present import present
from tests.support.timelines import BY_HAND

SHIPPED = resolved("qwen3-32b-search")
FIRST, SECOND = "qwen3-1.7b-k8", "qwen3-0.6b-k8"
FORECAST = {v.name: {"structured": 2.0, "open_ended": 2.0} for v in SHIPPED.variants[1:]}


def by_hand(*names: str) -> ResolvedNeuron:
    """The shipped search, with some of its candidates listed as variants, so certainly measured."""
    specs = (variant.spec for variant in SHIPPED.variants if variant.name in names)
    return changed(SHIPPED, variants=(*SHIPPED.spec.variants, *specs))


# This search has the same 26 candidates as the shipped one; two are certainly measured.
SEARCH = by_hand(FIRST, SECOND)
ALL = [variant.name for variant in SEARCH.variants]


def stopped(**stop: float) -> ResolvedNeuron:
    search = present(SEARCH.spec.search)
    limited = search.model_copy(update={"stop": Stop.model_validate(stop)})
    return replace(SEARCH, spec=SEARCH.spec.model_copy(update={"search": limited}))


def run(
    experiment: ResolvedNeuron = SEARCH, *, compiled: Collection[str] = (), second: bool = False
) -> RunForecast:
    return forecast(experiment, BY_HAND, compiled=compiled, second=second)


def test_an_example_by_hand() -> None:
    """A round takes 6 minutes: 4 cases x 8 requests / 4 at once x (30 s + 15 s), both variants.

    Half of the requests are warm-up. There are 2 to 4 rounds. Loading takes 64.8 s (62.4 s with the
    smaller draft) and 1 minute.
    """
    first = run()
    spans = first.unlimited.best.spans
    starts = {name: round(span.start, 2) for name, span in [*spans.items()][3:]}
    assert starts == {
        # Staging takes 1.4 s longer than in `test_timeline`, because the second draft has 1.4 GiB.
        "node start": 33.1,
        "image pull": 38.1,
        "compile baseline": 42.1,
        "compile qwen3-1.7b-k8": 42.1,
        "load baseline": 72.1,
        "load qwen3-1.7b-k8": 72.1,
        "measure c4": 74.18,
        "measure further": 86.18,
        "compile qwen3-0.6b-k8": 86.18,
        "load qwen3-0.6b-k8": 116.18,
        "measure qwen3-0.6b-k8": 118.22,
        "other candidates": 130.22,
        "nodes to zero": 130.22,
    }
    # Node start 5, image 4, then compile, load and measure: 30 + 2.08 + 12 for the first candidate,
    # 30 + 2.04 + 12 for the second; teardown 5. In the worst case each is measured for 24 minutes.
    certain = first.minutes_of(2)
    assert (certain.best, certain.worst) == pytest.approx((102.12, 126.12))
    # Each of the other 24 candidates takes 30 + 2.08 + 12 (best case) or 24 (worst case).
    every = first.minutes_of(26)
    assert (every.best, every.worst) == pytest.approx((102.12 + 24 * 44.08, 126.12 + 24 * 56.08))


@pytest.mark.parametrize(
    ("experiment", "certain"),
    [
        (SHIPPED, [FIRST, SECOND]),
        (by_hand(FIRST), [FIRST, SECOND]),
        (by_hand(SECOND), [SECOND, FIRST]),
        (replace(SHIPPED, forecast=FORECAST), [FIRST]),
    ],
    ids=["none by hand", "the first by hand", "the second by hand", "a forecast"],
)
def test_a_forecast_reduces_what_is_certainly_measured(
    experiment: ResolvedNeuron, certain: list[str]
) -> None:
    """With one candidate a run takes 5 + 4 + 30 + 2.08 + (12 to 24) + 5 minutes of a node.

    A second one takes 44.04 to 56.04 minutes more.
    """
    first = run(experiment)
    assert experiment.extent
    assert [candidate.variant for candidate in experiment.extent.certain] == certain
    assert experiment.extent.most == 26
    assert [name for name in first.unlimited.best.spans if name.startswith("compile")] == [
        "compile baseline",
        *(f"compile {name}" for name in certain),
    ]
    more = len(certain) - 1
    minutes = first.minutes_of(len(certain))
    assert (minutes.best, minutes.worst) == pytest.approx(
        (58.08 + more * 44.04, 70.08 + more * 56.04)
    )


def test_the_last_candidate_is_measured_despite_a_stop() -> None:
    """In the worst case the first is measured 60.08 minutes after the start, the second 116.12.

    So before the stop, at 120 minutes, a third candidate begins.
    """
    first = run(stopped(last_start_hours=2))
    # The third begins at 92.12 (best case) or 116.12 minutes, and ends after the stop.
    assert present(first.search).begun_in_all(first.searched_minutes) == Bounds(3, 3)
    assert first.unlimited.worst.spans[FURTHER_CANDIDATES].minutes == pytest.approx(
        120 + 56.08 - 116.12
    )
    # Node start takes 5 minutes, the search two hours and one more candidate, and teardown 5.
    assert first.billed_minutes.worst == pytest.approx(5 + 120 + 56.08 + 5)
    assert first.billed_minutes.best == run().billed_minutes.best


def test_a_stop_after_certain_candidates_allows_no_other() -> None:
    """The stop is at 90 minutes; even at best the second candidate is measured only at 92.12."""
    first = run(stopped(last_start_hours=1.5))
    assert present(first.search).begun_in_all(first.searched_minutes).best == 2
    assert first.needed_minutes.worst == pytest.approx(126.12)


@pytest.mark.parametrize(
    ("stop", "minutes"),
    [
        ({"last_start_usd": 15.09 * 3}, 180),
        ({"last_start_usd": 15.09 * 3, "last_start_hours": 2}, 120),
        ({"last_start_hours": 4}, 240),
    ],
)
def test_whichever_stop_is_first_counts(stop: dict[str, float], minutes: float) -> None:
    assert present(run(stopped(**stop)).search).stop_minutes == pytest.approx(minutes)


def test_without_a_stop_all_candidates_are_measured() -> None:
    first = run(stopped())
    assert present(first.search).begun_in_all(first.searched_minutes).best == 26
    assert first.needed_minutes.worst == pytest.approx(first.minutes_of(26).worst)
    second = run(stopped(), second=True)
    assert not [name for name in second.unlimited.best.spans if name.startswith("compile")]
    assert second.minutes_of(2).best == pytest.approx(102.12 - 60)
    # The first run need not have measured the other 24, so each is compiled.
    assert second.minutes_of(26).worst == pytest.approx(126.12 - 60 + 24 * 56.08)
    every = run(stopped(), compiled=ALL)
    assert every.minutes_of(26).worst == pytest.approx(126.12 - 60 + 24 * 26.08)


stops = st.fixed_dictionaries(
    {},
    optional={
        "last_start_usd": st.floats(1, 80),
        "last_start_hours": st.floats(min_value=0.1, max_value=9),
    },
)


@given(stop=stops, longer=st.floats(min_value=0, max_value=200), second=st.booleans())
def test_best_never_exceeds_worst_nor_longer_compiles_save(
    stop: dict[str, Any], longer: float, second: bool
) -> None:
    experiment = stopped(**stop)
    compile_minutes = replaced(BY_HAND, [f"compile_minutes=10..{60 + longer}"])
    short = forecast(experiment, replaced(BY_HAND, ["compile_minutes=10..60"]), second=second)
    long = forecast(experiment, compile_minutes, second=second)
    assert short.needed_minutes.best <= short.needed_minutes.worst
    assert short.needed_minutes.worst <= long.needed_minutes.worst + 1e-6
