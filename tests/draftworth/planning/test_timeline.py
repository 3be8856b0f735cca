"""The time line: one example by hand, and what holds for all of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftworth.planning.assumptions import Assumption, Assumptions, Bounds, assumption_data
from draftworth.planning.resolved import ResolvedNeuron, load
from draftworth.planning.steps import checkpoint_gib
from draftworth.planning.timeline import (
    BUDGET,
    DEADLINE,
    STAGE,
    Forecast,
    InPlace,
    forecast,
    in_place_after_a_run,
)
from tests.support.experiments import changed, changed_aws, resolved
from tests.support.timelines import BY_HAND, QWEN


def limited(
    experiment: ResolvedNeuron, *, deadline_minutes: int = 10_000, budget_usd: float = 1e6
) -> ResolvedNeuron:
    limits = {"deadline_minutes": deadline_minutes, "budget_usd": budget_usd}
    return changed_aws(experiment, **limits)


def run(
    experiment: ResolvedNeuron = QWEN,
    *,
    assumed: Assumptions = BY_HAND,
    in_place: InPlace | None = None,
) -> Forecast:
    return forecast(experiment, assumed=assumed, in_place=in_place or InPlace())


def test_an_example_by_hand() -> None:
    """Qwen3-32B (61.0 GiB) with a draft of 3.8 GiB, 600 tokens, 4 at once, 8 cases, 8.60 USD/h."""
    first = run()

    spans = first.low.spans
    starts = {name: round(span.start, 2) for name, span in spans.items()}
    assert starts == {
        "deploy": 0,
        "stage checkpoints": 30,
        "scale up": 32.08,  # 1 + 64.8 s
        "node start": 33.08,
        "image pull": 38.08,
        "compile baseline": 42.08,
        "compile qwen3-1.7b-k7": 42.08,
        "load baseline": 72.08,
        "load qwen3-1.7b-k7": 72.08,
        "measure c4": 74.16,  # the slower one: 64.8 s + 1
        # 30 s and 15 s a request, 1 + 2 waves: 135 s a case; 8 cases 18 minutes, two rounds 36.
        "nodes to zero": 110.16,
    }
    # 5 + 4 + 30 + 2.08 + 36 + 5; at most eight rounds: 144 instead of 36.
    assert first.billed_minutes.low == pytest.approx(82.08)
    assert first.billed_minutes.high == pytest.approx(190.08)
    assert first.low.billed_minutes_before_first_token == pytest.approx(41.08)
    assert first.usd(first.billed_minutes).low == pytest.approx(82.08 / 60 * 8.60)
    assert first.usd(first.billed_minutes).low == pytest.approx(11.7648)
    assert first.usd(first.billed_minutes).high == pytest.approx(27.2448)


def test_a_second_run_neither_stages_nor_compiles() -> None:
    second = run(in_place=in_place_after_a_run(QWEN))

    assert second.billed_minutes.low == pytest.approx(82.08 - 30)
    assert second.billed_minutes.high == pytest.approx(190.08 - 30)
    assert second.low.spans[STAGE].minutes == 0
    assert "compile baseline" not in second.low.spans


def test_one_graph_that_is_there_saves_nothing_while_another_compiles() -> None:
    keys = frozenset([QWEN.variants[0].artifact_key])
    first = run(in_place=InPlace(artifact_keys=keys))

    assert "compile baseline" not in first.low.spans
    assert "compile qwen3-1.7b-k7" in first.low.spans
    assert first.billed_minutes.low == pytest.approx(82.08)


def test_the_deadline_counts_from_the_deploy_and_ends_what_is_billed() -> None:
    first = run(limited(QWEN, deadline_minutes=100))

    # 2.08 + 1 minutes of it pass before the launch, 5 follow it.
    assert first.high.stopped_by == DEADLINE
    assert first.billed_minutes.high == pytest.approx(100 - 3.08 + 5)
    assert first.low.stopped_by is None
    assert first.needed_minutes.high == pytest.approx(190.08)


def test_the_budget_counts_from_the_launch() -> None:
    first = run(limited(QWEN, budget_usd=8.60 * 2))

    # Two hours, and 5 minutes until the node is gone.
    assert first.high.stopped_by == BUDGET
    assert first.billed_minutes.high == pytest.approx(120 + 5)


def test_the_guard_may_look_late() -> None:
    late = BY_HAND.replaced(["guard_minutes=0..3"])
    first = run(limited(QWEN, budget_usd=8.60 * 2), assumed=late)

    assert first.billed_minutes.high == pytest.approx(120 + 5 + 3)


def test_every_load_is_a_phase_of_its_own() -> None:
    llama = resolved("llama-3.1-8b-eagle3")
    names = [phase.name for phase in run(llama).low.course.phases]

    assert names[-3:] == ["measure c1", "measure c2", "nodes to zero"]


def test_several_nodes_cost_several_times_as_much() -> None:
    whole = QWEN.spec.serving.model_copy(update={"slot_devices": 16})
    two = changed(QWEN, serving=whole)
    assert two.placement.nodes == 2

    assert run(two).billed_minutes == run().billed_minutes
    minutes = Bounds(low=60, high=120)
    assert run(two).usd(minutes) == Bounds(low=2 * 8.60, high=4 * 8.60)
    # Two hours of two nodes.
    assert run(limited(two, budget_usd=8.60 * 4)).billed_minutes.high == pytest.approx(120 + 5)


def test_a_checkpoint_that_the_catalogue_does_not_know_has_an_assumed_size() -> None:
    unknown = QWEN.spec.target.model_copy(update={"model": "someone/else"})

    assert checkpoint_gib(unknown, BY_HAND) == BY_HAND.unknown_checkpoint_gib.bounds
    assert checkpoint_gib(QWEN.spec.target, BY_HAND) == Bounds(low=61.0, high=61.0)


@st.composite
def assumptions(draw: st.DrawFn) -> Assumptions:
    """Any values, best to worst, in place of the shipped ones."""
    numbers = st.floats(min_value=0.1, max_value=200)

    def drawn(row: Assumption) -> Assumption:
        low, high = sorted((draw(numbers), draw(numbers)))
        return row.model_copy(update={"low": low, "high": high})

    rows = dict(assumption_data().assumptions)
    return Assumptions(**{name: drawn(row) for name, row in rows.items()})


any_limits = st.builds(
    limited,
    st.just(QWEN),
    deadline_minutes=st.integers(min_value=1, max_value=2_000),
    budget_usd=st.floats(min_value=1, max_value=200),
)
keys = st.sets(st.sampled_from([v.artifact_key for v in QWEN.variants])).map(frozenset)
any_in_place = st.builds(
    InPlace,
    cluster=st.booleans(),
    staged=st.sampled_from([frozenset(), in_place_after_a_run(QWEN).staged]),
    artifact_keys=keys,
)


@settings(max_examples=60, deadline=None)
@given(experiment=any_limits, assumed=assumptions(), in_place=any_in_place)
def test_the_low_estimate_is_never_above_the_high_one(
    experiment: ResolvedNeuron, assumed: Assumptions, in_place: InPlace
) -> None:
    first = run(experiment, assumed=assumed, in_place=in_place)

    assert 0 <= first.billed_minutes.low <= first.billed_minutes.high
    assert first.needed_minutes.low <= first.needed_minutes.high
    assert first.billed_minutes.high <= first.needed_minutes.high + 1e-6


@settings(max_examples=60, deadline=None)
@given(
    experiment=any_limits,
    assumed=assumptions(),
    in_place=any_in_place,
    longer=st.floats(min_value=0, max_value=500),
)
def test_a_longer_compile_never_makes_a_run_cheaper(
    experiment: ResolvedNeuron, assumed: Assumptions, in_place: InPlace, longer: float
) -> None:
    before = assumed.compile_minutes
    after = before.model_copy(update={"low": before.low + longer, "high": before.high + longer})
    slower = assumed.model_copy(update={"compile_minutes": after})
    short = run(experiment, assumed=assumed, in_place=in_place).billed_minutes
    long = run(experiment, assumed=slower, in_place=in_place).billed_minutes

    assert short.low <= long.low + 1e-6
    assert short.high <= long.high + 1e-6


@settings(max_examples=60, deadline=None)
@given(experiment=any_limits, assumed=assumptions(), in_place=any_in_place, more=keys)
def test_graphs_that_are_there_never_make_a_run_dearer(
    experiment: ResolvedNeuron,
    assumed: Assumptions,
    in_place: InPlace,
    more: frozenset[str],
) -> None:
    richer = InPlace(
        cluster=in_place.cluster,
        staged=in_place.staged,
        artifact_keys=in_place.artifact_keys | more,
    )
    without = run(experiment, assumed=assumed, in_place=in_place).billed_minutes
    with_more = run(experiment, assumed=assumed, in_place=richer).billed_minutes

    assert with_more.low <= without.low + 1e-6
    assert with_more.high <= without.high + 1e-6


@settings(max_examples=60, deadline=None)
@given(experiment=any_limits, assumed=assumptions(), in_place=any_in_place)
def test_no_node_outlives_the_deadline_and_its_teardown(
    experiment: ResolvedNeuron, assumed: Assumptions, in_place: InPlace
) -> None:
    first = run(experiment, assumed=assumed, in_place=in_place)
    for simulation in (first.low, first.high):
        if simulation.billed_minutes:
            release = simulation.spans[simulation.course.release]
            latest = simulation.spans["deploy"].end + experiment.spec.aws.deadline_minutes
            assert release.start <= latest + 1e-6


def test_the_shipped_experiments_fit_their_limits_in_the_best_case(experiments: Path) -> None:
    for path in sorted(experiments.glob("*.yaml")):
        loaded = load(path)
        if isinstance(loaded, ResolvedNeuron):
            assumed = assumption_data().for_target(loaded.spec.target.model)
            assert run(loaded, assumed=assumed).low.stopped_by is None, path.name
