"""The time line of a run: examples computed by hand, and properties of all time lines."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftworth.experiment.workload import Workload
from draftworth.planning import timeline
from draftworth.planning.assumptions import (
    Assumption,
    Assumptions,
    Bounds,
    assumption_data,
    replaced,
)
from draftworth.planning.resolved import ResolvedNeuron, load
from tests.support.experiments import changed, changed_aws, with_third_variant
from tests.support.timelines import BY_HAND, QWEN


def limited(
    experiment: ResolvedNeuron, *, deadline_minutes: int = 10_000, budget_usd: float = 1e6
) -> ResolvedNeuron:
    limits = {"deadline_minutes": deadline_minutes, "accelerator_budget_usd": budget_usd}
    return changed_aws(experiment, **limits)


def work(max_requests: int) -> Workload:
    """A workload with concurrency 1 and 4 (`c1`, `c4`), and at least one round at each."""
    least = {"concurrency": (1, 4), "min_requests": 8, "max_requests": max_requests}
    return QWEN.spec.workload.model_copy(update=least)


def run(
    experiment: ResolvedNeuron = QWEN,
    *,
    assumed: Assumptions = BY_HAND,
    compiled: Collection[str] = (),
    second: bool = False,
) -> timeline.RunForecast:
    return timeline.forecast(experiment, assumed, compiled=compiled, second=second)


def test_an_example_by_hand() -> None:
    """Qwen3-32B (61.0 GiB) and a draft (3.8 GiB), 8 cases, 4 requests at once of 600 tokens each.

    A node costs 15.09 USD per hour.
    """
    first = run()

    spans = first.limited.best.spans
    starts = {name: round(span.start, 2) for name, span in spans.items()}
    assert starts == {
        "deploy": 0,
        "stage checkpoints": 30,
        "scale up": 32.08,  # staging takes 1 minute to start and 64.8 s to copy 64.8 GiB
        "node start": 33.08,
        "image pull": 38.08,
        "compile baseline": 42.08,
        "compile qwen3-1.7b-k7": 42.08,
        "load baseline": 72.08,
        "load qwen3-1.7b-k7": 72.08,
        "measure c4": 74.16,  # the slower server loads 64.8 GiB in 64.8 s and warms up for 1 minute
        # Requests take 30 s (baseline) or 15 s, and each of the 4 streams sends three per variant:
        # 135 s per case, 18 minutes per round of 8 cases, and 36 for the two rounds that are sure.
        "measure further": 110.16,  # at most six more rounds
        "nodes to zero": 110.16,
    }
    # Node start 5, image 4, compile 30, load 2.08, measure 36, teardown 5. In the worst case all
    # eight rounds are measured, for 144 minutes instead of 36.
    assert first.billed_minutes.best == pytest.approx(82.08)
    assert first.billed_minutes.worst == pytest.approx(190.08)
    assert first.usd(first.billed_minutes).best == pytest.approx(82.08 / 60 * 15.09)
    assert first.usd(first.billed_minutes).best == pytest.approx(20.64312)
    assert first.usd(first.billed_minutes).worst == pytest.approx(47.80512)


def test_a_second_run_neither_stages_nor_compiles() -> None:
    second = run(second=True)

    assert second.billed_minutes.best == pytest.approx(82.08 - 30)
    assert second.billed_minutes.worst == pytest.approx(190.08 - 30)
    assert second.limited.best.spans[timeline.STAGE].minutes == 0
    assert "compile baseline" not in second.limited.best.spans


def test_one_compiled_graph_saves_nothing_while_another_compiles() -> None:
    first = run(compiled=["baseline"])

    assert "compile baseline" not in first.limited.best.spans
    assert "compile qwen3-1.7b-k7" in first.limited.best.spans
    assert first.billed_minutes.best == pytest.approx(82.08)


def test_the_deadline_counts_from_deploy_and_ends_billing() -> None:
    first = run(limited(QWEN, deadline_minutes=100))

    # Staging and scale-up take 2.08 + 1 of the 100 minutes, before nodes are launched; their
    # teardown takes 5 more.
    assert first.limited.worst.ended_by == timeline.DEADLINE
    assert first.billed_minutes.worst == pytest.approx(100 - 3.08 + 5)
    assert first.limited.best.ended_by is None
    assert first.needed_minutes.worst == pytest.approx(190.08)


def test_the_budget_counts_from_the_launch() -> None:
    first = run(limited(QWEN, budget_usd=15.09 * 2))

    # The budget pays for two hours; then it takes 5 minutes until the node is gone.
    assert first.limited.worst.ended_by == timeline.BUDGET
    assert first.billed_minutes.worst == pytest.approx(120 + 5)
    # The controller may notice late that the budget is spent.
    late = replaced(BY_HAND, ["budget_delay_minutes=0..3"])
    first = run(limited(QWEN, budget_usd=15.09 * 2), assumed=late)
    assert first.billed_minutes.worst == pytest.approx(120 + 5 + 3)


def test_repetitions_loads_and_a_divided_budget_by_hand() -> None:
    """A round takes 72 minutes at concurrency 1 (c1) and 18 at 4 (c4), all 8 cases together.

    A block has 4 warm-up and 8 measured requests, each of 30 s (baseline) or 15 s.
    """
    experiment = changed(QWEN, repetitions=2, workload=work(max_requests=48))
    first = run(experiment)

    minutes = {
        name: (round(span.minutes, 2), round(first.unlimited.worst.spans[name].minutes, 2))
        for name, span in first.unlimited.best.spans.items()
        if name.startswith(("measure", "load again"))
    }
    # `max_requests` allows six rounds: in each repetition one at each load and a further one at c1.
    # In the first repetition this one is needed: one round of a load gives no interval.
    assert minutes == {
        "measure c1, repetition 1": (72, 72),
        "measure c4, repetition 1": (18, 18),
        "measure further, repetition 1": (72, 72),
        "load again, repetition 2": (2.08, 2.08),
        "measure c1, repetition 2": (72, 72),
        "measure c4, repetition 2": (18, 18),
        "measure further, repetition 2": (0, 72),
    }
    assert first.unlimited.best.measured_minutes == pytest.approx(252)
    assert first.unlimited.worst.measured_minutes == pytest.approx(324)


def test_first_rounds_precede_second_ones_of_every_load() -> None:
    experiment = changed(QWEN, workload=work(max_requests=64))
    first = run(experiment).unlimited

    # In the best case there is one more round at c1 and at c4, in the worst case six more at c1.
    assert first.best.spans["measure further"].minutes == pytest.approx(90)
    assert first.worst.spans["measure further"].minutes == pytest.approx(432)


def test_a_control_measures_the_baseline_twice() -> None:
    experiment = changed(QWEN, repetitions=2, control=True, workload=work(max_requests=32))
    spans = run(experiment).unlimited.best.spans

    for number in (1, 2):
        # The target loads in 61.0 s and warms up for 1 minute. As requests of both baseline servers
        # take 30 s, a round takes 96 minutes at c1 and 24 at c4.
        assert spans[f"load control, repetition {number}"].minutes == pytest.approx(121 / 60)
        assert spans[f"measure control, repetition {number}"].minutes == pytest.approx(120)


def test_several_nodes_cost_several_times_as_much() -> None:
    whole = QWEN.spec.serving.model_copy(update={"slot_devices": 16})
    two = limited(changed(QWEN, serving=whole), budget_usd=100)
    assert two.placement.nodes == 2

    assert run(two).billed_minutes == run().billed_minutes
    minutes = Bounds(60, 120)
    assert run(two).usd(minutes) == Bounds(2 * 15.09, 4 * 15.09)
    # This budget pays for two nodes for two hours.
    assert run(limited(two, budget_usd=15.09 * 4)).billed_minutes.worst == pytest.approx(120 + 5)


@st.composite
def assumptions(draw: st.DrawFn) -> Assumptions:
    """Draw any values, with `low` not above `high`, in place of the shipped assumptions' values."""
    numbers = st.floats(min_value=0.1, max_value=200)

    def drawn(row: Assumption) -> Assumption:
        low, high = sorted((draw(numbers), draw(numbers)))
        return row.model_copy(update={"low": low, "high": high})

    return {name: drawn(row) for name, row in assumption_data().assumptions.items()}


any_limits = st.builds(
    limited,
    st.just(QWEN),
    deadline_minutes=st.integers(min_value=1, max_value=2_000),
    budget_usd=st.floats(min_value=1, max_value=200),
)
any_compiled = st.sets(st.sampled_from([variant.name for variant in QWEN.variants]))
any_run = st.fixed_dictionaries({"compiled": any_compiled, "second": st.booleans()})


@given(experiment=any_limits, assumed=assumptions(), options=any_run)
def test_best_never_exceeds_worst_nor_nodes_the_deadline(
    experiment: ResolvedNeuron, assumed: Assumptions, options: dict[str, Any]
) -> None:
    first = run(experiment, assumed=assumed, **options)

    assert 0 <= first.billed_minutes.best <= first.billed_minutes.worst
    assert first.needed_minutes.best <= first.needed_minutes.worst
    assert first.billed_minutes.worst <= first.needed_minutes.worst + 1e-6
    for schedule in (first.limited.best, first.limited.worst):
        if schedule.billed_minutes:
            latest = schedule.spans[timeline.DEPLOY].end + experiment.spec.aws.deadline_minutes
            assert schedule.spans[timeline.TEARDOWN].start <= latest + 1e-6


@given(
    experiment=any_limits,
    assumed=assumptions(),
    options=any_run,
    longer=st.floats(min_value=0, max_value=500),
)
def test_a_longer_compile_never_makes_a_run_cheaper(
    experiment: ResolvedNeuron, assumed: Assumptions, options: dict[str, Any], longer: float
) -> None:
    before = assumed["compile_minutes"]
    after = before.model_copy(update={"low": before.low + longer, "high": before.high + longer})
    slower = {**assumed, "compile_minutes": after}
    short = run(experiment, assumed=assumed, **options).billed_minutes
    long = run(experiment, assumed=slower, **options).billed_minutes

    assert short.best <= long.best + 1e-6
    assert short.worst <= long.worst + 1e-6


@given(experiment=any_limits, assumed=assumptions(), graphs=any_compiled, more=any_compiled)
def test_compiled_graphs_never_make_a_run_dearer(
    experiment: ResolvedNeuron, assumed: Assumptions, graphs: set[str], more: set[str]
) -> None:
    without = run(experiment, assumed=assumed, compiled=graphs).billed_minutes
    with_more = run(experiment, assumed=assumed, compiled=graphs | more).billed_minutes

    assert with_more.best <= without.best + 1e-6
    assert with_more.worst <= without.worst + 1e-6


# (best case, worst case) minutes in which requests are measured, by experiment.
MEASURED = {
    "qwen3-32b": (97, 151),
    "qwen3-32b-newest": (145, 151),
    "qwen3-32b-search": (20, 62),
    "llama-3.1-8b-dflash": (30, 97),
    "llama-3.1-8b-eagle3": (34, 106),
    "llama-3.3-70b-eagle3": (27, 151),
    "published": (55, 114),
    "smoke": (3, 5),
}


def test_shipped_experiments_fit_their_limits_at_worst(experiments: Path) -> None:
    """No limit ends a shipped experiment's first run, even if it sends all requests that it may."""
    for path in sorted(experiments.glob("*.yaml")):
        # Rehearsals with trained models can be loaded only after these models were downloaded.
        loaded = None if "../.models" in path.read_text() else load(path)
        if isinstance(loaded, ResolvedNeuron):
            first = timeline.forecast(loaded)
            assert first.limited.best.ended_by is None, path.name
            assert first.limited.worst.ended_by is None, path.name
            measured = first.measured_minutes
            assert (round(measured.best), round(measured.worst)) == MEASURED[loaded.name]


def test_the_nat_gateway_bills_checkpoints_once() -> None:
    """The models have 61.0 and 3.8 GiB, the image 16.8 to 19; each GiB costs 0.045 USD."""
    first, second = (run(assumed=assumption_data().assumptions, second=s) for s in (False, True))

    assert (first.nat_gib.best, first.nat_gib.worst) == pytest.approx((81.6, 83.8))
    assert (second.nat_gib.best, second.nat_gib.worst) == (16.8, 19)
    assert first.nat_usd.worst == pytest.approx(3.771)


def test_a_kept_bucket_may_spare_all_staging() -> None:
    kept = changed_aws(QWEN, checkpoints_bucket="draftworth-x-storagecheckpoints-abc")
    new, imported = run(), run(kept)

    assert imported.nat_gib.best == run(second=True).nat_gib.best
    assert imported.nat_gib.worst == new.nat_gib.worst
    staging = imported.unlimited.best.minutes_of(timeline.STAGE)
    assert staging == pytest.approx(BY_HAND["stager_start_minutes"].low)


def test_every_node_pulls_the_image_itself() -> None:
    two_nodes = with_third_variant(QWEN)

    assert two_nodes.placement.nodes == 2
    assert run(two_nodes, second=True).nat_gib == run(second=True).nat_gib.times(2)


RUN = timeline.Schedule(
    spans={
        "prepare": timeline.Span(start=0, end=10, billed=False),
        "node": timeline.Span(start=10, end=12),
        "a": timeline.Span(start=12, end=15),
        "b": timeline.Span(start=12, end=17),
        "work": timeline.Span(start=17, end=37, measured=True),
        timeline.TEARDOWN: timeline.Span(start=37, end=38),
    }
)


def cut_at(minute: float) -> timeline.Schedule:
    return RUN.until([(minute, "deadline")])


def test_nodes_are_billed_from_launch_to_release() -> None:
    assert RUN.billed_minutes == 2 + 5 + 20 + 1
    assert RUN.measured_minutes == 20


def test_a_limit_cuts_a_phase_and_releases_nodes() -> None:
    run = cut_at(27)

    assert run.ended_by == "deadline"
    assert run.spans["work"] == timeline.Span(start=17, end=27, measured=True, cut=True)
    assert run.spans[timeline.TEARDOWN] == timeline.Span(start=27, end=28)
    assert run.billed_minutes == 2 + 5 + 10 + 1
    # Of two limits, the earlier one counts.
    assert RUN.until([(30, "late"), (27, "deadline")]) == run
    for minute in (37, 37.5, 38, 100):
        assert cut_at(minute) == RUN, "the work is done"


@pytest.mark.parametrize(
    ("minute", "phases", "cut", "billed"),
    [
        # Before nodes are launched, nothing is billed or torn down.
        (4, ["prepare"], ["prepare"], 0),
        (10, ["prepare"], [], 0),
        # A phase that ends at the limit is complete, and nothing follows it.
        (12, ["prepare", "node", timeline.TEARDOWN], [], 2 + 1),
        # Two parallel phases (`a` and `b`) are both cut, and no later phase begins.
        (14, ["prepare", "node", "a", "b", timeline.TEARDOWN], ["a", "b"], 2 + 2 + 1),
    ],
)
def test_an_early_limit_leaves_what_has_begun(
    minute: float, phases: list[str], cut: list[str], billed: float
) -> None:
    run = cut_at(minute)
    assert run.ended_by == "deadline"
    assert [*run.spans] == phases
    assert (run.billed_minutes, run.measured_minutes) == (billed, 0)
    assert [n for n, span in run.spans.items() if span.cut] == cut
