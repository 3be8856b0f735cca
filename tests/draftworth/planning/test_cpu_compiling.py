"""Graphs that CPU nodes compile: which, when, and what that changes of what is billed."""

from __future__ import annotations

from typing import Any

import pytest

from draftworth.experiment.aws import CapacityBlock
from draftworth.experiment.cluster import COMPILE_WAIT_MINUTES
from draftworth.experiment.patterns import EXAMPLE_RESERVATION
from draftworth.planning.assumptions import assumption_data
from draftworth.planning.cpu_compiling import (
    compiled_where,
    compiles_on_cpu,
    graphs_to_compile,
)
from draftworth.planning.resolved import ResolvedNeuron
from draftworth.planning.timeline import IMAGE_PULL, SCALE_UP, STAGE, forecast
from draftworth.planning.timeline_text import compile_lines, time_lines
from draftworth.records.server_state import UNPROVEN_LIMIT_MINUTES
from tests.support.experiments import changed, changed_aws, resolved
from tests.support.timelines import BY_HAND, QWEN

HEADS = "llama-3.1-8b-eagle3"
ON_CPU = compiled_where(QWEN, "cpu_nodes")
PUBLISHED_MINUTES_BEST = 33.6  # docs/timeline.md, before the first measured token


def names(experiment: ResolvedNeuron, *, certain: bool) -> list[str]:
    return [g.variant.name for g in graphs_to_compile(experiment) if g.certain is certain]


def test_every_graph_where_it_is_asked_for_and_none_elsewhere() -> None:
    assert names(ON_CPU, certain=True) == ["baseline", "qwen3-1.7b-k7"]
    assert names(ON_CPU, certain=False) == []
    assert graphs_to_compile(compiled_where(QWEN, "accelerator")) == ()


def test_the_candidates_that_are_certain_come_first() -> None:
    search = compiled_where(resolved("qwen3-32b-search"), "cpu_nodes")
    certain, likely = names(search, certain=True), names(search, certain=False)

    assert search.first_candidate
    assert certain == ["baseline", search.first_candidate.name]
    left_out = {variant.name for variant in search.variants} - {*certain, *likely}
    assert left_out == {"qwen3-0.6b-k14", "qwen3-1.7b-k15", "qwen3-0.6b-k15"}, "large windows first"


def test_what_has_no_room_is_compiled_by_its_server() -> None:
    search = compiled_where(resolved("qwen3-32b-search"), "cpu_nodes")
    compiled = [v.name for v in search.variants if compiles_on_cpu(search, v)]

    assert {*compiled} == {g.variant.name for g in graphs_to_compile(search)}
    assert "qwen3-1.7b-k15" not in compiled


def test_variants_with_one_graph_compile_it_once() -> None:
    control = changed(ON_CPU, control=True, repetitions=2)

    keys = [graph.key for graph in graphs_to_compile(control)]
    assert len(keys) == len(set(keys)) == 2


def test_what_a_cpu_mode_does_not_compile_is_left_to_the_servers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    release = ON_CPU.spec.release_facts
    assert release.cpu_compile
    baseline_only = release.cpu_compile.model_copy(update={"methods": ("none",)})
    monkeypatch.setattr(
        type(ON_CPU.spec),
        "release_facts",
        release.model_copy(update={"cpu_compile": baseline_only}),
    )

    assert names(ON_CPU, certain=True) == ["baseline"]


def test_nodes_start_when_graphs_and_checkpoints_are_there() -> None:
    """Deploy 30, then node 1 + 5, image 4, compile 30: later than 65 seconds of staging and 1."""
    best, worst = (getattr(forecast(ON_CPU, ratio(1.5)).unlimited, c) for c in ("best", "worst"))

    assert best.spans["compile baseline on a CPU node"].end == 30 + 1 + 5 + 4 + 45
    assert best.spans[SCALE_UP].start == best.spans["compile baseline on a CPU node"].end
    assert best.spans["compile baseline"].minutes == 0
    assert worst.spans["compile baseline"].minutes == UNPROVEN_LIMIT_MINUTES + 30
    assert best.spans["load baseline"].start == best.spans[IMAGE_PULL].end
    assert best.billed_minutes_before_first_token < worst.billed_minutes_before_first_token


def ratio(value: float) -> Any:
    return BY_HAND.replaced([f"cpu_compile_ratio={value}"])


def test_the_wait_for_graphs_has_its_limit() -> None:
    assumed = BY_HAND.replaced(["compile_minutes=60..600"])
    run = forecast(ON_CPU, assumed).unlimited.worst

    assert run.spans["compile baseline on a CPU node"].minutes == COMPILE_WAIT_MINUTES
    assert run.spans[SCALE_UP].start == 30 + COMPILE_WAIT_MINUTES


def test_a_graph_that_comes_too_late_at_best_is_compiled_by_the_server() -> None:
    """Node 1 + 5, image 4: 80 minutes are left to compile."""
    assumed = BY_HAND.replaced(["compile_minutes=40..60", "cpu_compile_ratio=2.1"])
    late = forecast(ON_CPU, assumed)
    accelerator = forecast(compiled_where(QWEN, "accelerator"), assumed)

    compiling = late.unlimited.bounds(lambda run: run.spans["compile baseline"].minutes)
    assert (compiling.best, compiling.worst) == pytest.approx((40, 60))
    assert late.billed_minutes.best == pytest.approx(accelerator.billed_minutes.best)
    assert late.billed_minutes.worst == pytest.approx(accelerator.billed_minutes.worst)
    (line,) = (line for line in compile_lines(late) if "cpu_nodes" in line)
    assert "it saves nothing: 90 minutes after the deploy no graph is there" in line
    assert "rejected" not in line
    just = BY_HAND.replaced(["compile_minutes=40..60", "cpu_compile_ratio=2"])
    assert forecast(ON_CPU, just).unlimited.best.spans["compile baseline"].minutes == 0


def test_the_nodes_of_a_capacity_block_wait_for_no_graph() -> None:
    """Deploy 30, staging 65 seconds + 1 minute; node 1 + 5, image 4 and compile 45 go on."""
    capacity = CapacityBlock(kind="capacity_block", reservation_id=EXAMPLE_RESERVATION)
    block = forecast(changed_aws(ON_CPU, capacity=capacity), ratio(1.5))
    run = block.unlimited.best

    assert run.spans["compile baseline on a CPU node"].minutes == 55
    assert run.spans[SCALE_UP].start == run.spans[STAGE].end < 33
    (line,) = (line for line in compile_lines(block) if "cpu_nodes" in line)
    assert "once it has begun, its nodes wait for no graph" in line
    (elsewhere,) = (x for x in compile_lines(forecast(ON_CPU, ratio(1.5))) if "cpu_nodes" in x)
    assert "Capacity Block" not in elsewhere


def test_candidates_whose_graphs_come_too_late_are_compiled_by_their_servers() -> None:
    late = BY_HAND.replaced(["compile_minutes=60", "cpu_compile_ratio=3"])
    search = compiled_where(resolved("qwen3-32b-search"), "cpu_nodes")
    on_cpu, here = (
        forecast(experiment, late).search
        for experiment in (search, compiled_where(search, "accelerator"))
    )
    assert on_cpu
    assert here
    assert on_cpu.one == here.one


def test_a_graph_that_is_there_is_neither_compiled_nor_waited_for() -> None:
    run = forecast(ON_CPU, BY_HAND, compiled=["baseline", "qwen3-1.7b-k7"]).unlimited.best

    assert not [name for name in run.spans if name.startswith("compile")]


def test_at_best_a_quarter_of_the_published_sequence_is_billed() -> None:
    assumed = assumption_data().for_target(QWEN.spec.target.model)
    billed = {
        where: forecast(compiled_where(QWEN, where), assumed).unlimited.bounds(
            lambda run: run.billed_minutes_before_first_token
        )
        for where in ("accelerator", "cpu_nodes")
    }

    assert billed["cpu_nodes"].best <= PUBLISHED_MINUTES_BEST / 4 < billed["accelerator"].best
    # Being wrong costs the start that shows it, and nothing else.
    lost = billed["cpu_nodes"].worst - billed["accelerator"].worst
    assert lost == pytest.approx(UNPROVEN_LIMIT_MINUTES)


def test_the_plan_shows_both_ways_and_what_they_cost() -> None:
    """41.08 and 11.08 minutes; 82.08 to 190.08 billed with a compile of 30. A CPU node has 30 to 45
    and 10 to start; the accelerators an unproven start of 15 more at the worst."""
    lines = list(compile_lines(forecast(ON_CPU, BY_HAND)))

    accelerator, cpu, nodes = lines[2:]
    assert accelerator == "  compile_where accelerator  41.1 minutes, first run 11.76 to 27.24 USD"
    # 52.08 and 205.08 minutes at 8.60; 40 to 55 minutes of two nodes at 4.2336.
    assert (
        "11.1 to 56.1 minutes, as here, first run 7.46 to 29.39 USD + at most 5.64 to 7.76" in cpu
    )
    assert "USD of CPU nodes = at most 13.11 to 37.16 USD; at the worst what they make is" in cpu
    assert "2 x r7i.16xlarge as Spot, at most at the on-demand rate: minutes 40.0 to 55.0" in nodes


def test_the_cost_of_a_first_run_names_its_cpu_nodes() -> None:
    def of_nodes(experiment: ResolvedNeuron) -> list[str]:
        first = forecast(experiment, BY_HAND)
        lines = [*time_lines(first, forecast(experiment, BY_HAND, second=True))]
        return [line for line in lines if line.startswith("  compiling ")]

    (line,) = of_nodes(ON_CPU)
    assert "at most 5.64 to 7.76 USD of CPU nodes in the first run, in addition" in line
    assert "aws.budget_usd does not count them" in line
    assert of_nodes(changed_aws(ON_CPU, price=None)) == [line]
    assert of_nodes(compiled_where(QWEN, "accelerator")) == []


def test_where_accelerators_cost_the_same_both_ways_cpu_nodes_alone_are_told() -> None:
    capacity = CapacityBlock(kind="capacity_block", reservation_id=EXAMPLE_RESERVATION)
    for experiment in (changed_aws(ON_CPU, price=None), changed_aws(ON_CPU, capacity=capacity)):
        accelerator, cpu, _ = list(compile_lines(forecast(experiment, BY_HAND)))[2:]
        assert "USD" not in accelerator
        assert "as here, with at most 5.64 to 7.76 USD of CPU nodes" in cpu


def cpu_nodes_line(name: str) -> str:
    return " ".join([*compile_lines(forecast(resolved(name), BY_HAND))][3:])


def test_where_a_release_cannot_the_plan_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = resolved(HEADS).spec
    cannot = spec.release_facts.model_copy(update={"cpu_compile": None})
    monkeypatch.setattr(type(spec), "release_facts", cannot)

    assert cpu_nodes_line(HEADS).endswith("not on neuron-2.32.0")


def test_where_only_the_baseline_can_the_plan_says_that_it_saves_nothing() -> None:
    experiment = compiled_where(resolved(HEADS), "cpu_nodes")
    billed = {
        where: forecast(compiled_where(experiment, where), BY_HAND).unlimited.bounds(
            lambda run: run.billed_minutes_before_first_token
        )
        for where in ("accelerator", "cpu_nodes")
    }

    assert names(experiment, certain=True) == ["baseline"]
    assert billed["cpu_nodes"].best == billed["accelerator"].best
    line = cpu_nodes_line(HEADS)
    assert "it saves nothing" in line
    assert line.endswith("takes no speculation: the other graphs are compiled on the accelerator")
    assert "saves nothing" not in cpu_nodes_line("qwen3-32b")
