"""Whether a class needs another round: only if its interval is wide and a round would narrow it."""

from dataclasses import replace

import pytest

from benchmarks.planted import GROUP, PlantedRun, planted_blocks, planted_spec
from benchmarks.planted import Cell as Planted
from draftworth.measuring.precision import Precision
from draftworth.measuring.run_specification import RunSpec
from draftworth.records.load_shapes import PoissonLoad
from draftworth.records.results import BlockResult

CELL = Planted(cost_ratio=0.5, cases=2, prompts=8, spread=0.01)
ALIKE = planted_blocks(CELL, rounds=3, seed=1)
NOISY = planted_blocks(replace(CELL, block_error=0.3), rounds=3, seed=1)
DIFFERING = planted_blocks(replace(CELL, spread=0.8), rounds=8, seed=1)


def spec(*, width: float = 0.2, prompts: int = 8) -> RunSpec:
    cell = replace(CELL, prompts=prompts)
    wanted = replace(cell.sampling, target_interval_width=width)
    return planted_spec(replace(cell, sampling=wanted))


def precision(of: RunSpec, blocks: list[BlockResult], lines: list[str] | None = None) -> Precision:
    progress = lines if lines is not None else []
    return Precision(spec=of, progress=progress.append, blocks=blocks)


def needs_no_more(
    blocks: list[BlockResult], *, of: RunSpec, requests: int, lines: list[str] | None = None
) -> bool:
    return precision(of, blocks, lines).needs_no_more(GROUP, requests=requests)


@pytest.mark.parametrize(("width", "enough"), [(0.3, True), (0.001, False)])
def test_rounds_continue_until_the_interval_is_narrow_twice(width: float, enough: bool) -> None:
    lines: list[str] = []
    asking = precision(spec(width=width), ALIKE, lines)
    assert not asking.needs_no_more(GROUP, requests=24)
    assert asking.needs_no_more(GROUP, requests=24) is enough
    assert [line for line in lines if "of the cost ratio is" in line] == (lines if enough else [])


def test_a_wide_interval_restarts_the_count() -> None:
    blocks = [*ALIKE]
    asking = precision(spec(width=0.3), blocks)
    assert not asking.needs_no_more(GROUP, requests=24)
    blocks[:] = NOISY
    assert not asking.needs_no_more(GROUP, requests=24)
    blocks[:] = ALIKE
    assert not asking.needs_no_more(GROUP, requests=24)
    assert asking.needs_no_more(GROUP, requests=24)


def test_it_stops_where_only_other_prompts_would_help() -> None:
    lines: list[str] = []
    assert needs_no_more(DIFFERING, of=spec(), requests=64, lines=lines)
    (line,) = lines
    assert "more rounds would hardly narrow the interval" in line
    assert "more prompts would make the interval 20% wide" in line


def test_but_not_before_every_prompt_was_sent() -> None:
    assert not needs_no_more(DIFFERING, of=spec(prompts=65), requests=64)


def test_without_a_cost_every_round_is_measured() -> None:
    load = PoissonLoad(requests_per_second=1.0)
    blocks = [replace(block, load=load) for block in ALIKE]
    group = replace(GROUP, load=load)
    assert not precision(spec(width=0.9), blocks).needs_no_more(group, requests=24)


def test_what_is_missing_at_the_end_is_told() -> None:
    lines: list[str] = []
    precision(spec(width=0.01), DIFFERING, lines).report_missing(GROUP)
    (line,) = lines
    assert line.startswith(
        "planted at one request at a time: the cost ratio of variant has an interval "
    )
    assert "more prompts would make the interval 1% wide" in line


def test_a_doubt_replaces_what_is_missing() -> None:
    """More prompts would repeat the error of a server that warms up."""
    lines: list[str] = []
    warms_up = planted_blocks(replace(CELL, spread=0.8, warm_up=0.6), rounds=8, seed=1)
    asking = precision(spec(width=0.01), warms_up, lines)
    asking.report_missing(GROUP)
    assert asking.needs_no_more(GROUP, requests=64)
    at_the_end, stopped = lines
    assert "variant is not decided: a server still warmed up; in the first round" in at_the_end
    assert "a server still warmed up; more rounds would hardly narrow the interval" in stopped
    assert not any("more prompts" in line for line in lines)


def test_it_stops_where_only_other_repetitions_would_help() -> None:
    """Costs differ by the servers' start, not by prompt: more rounds of a start hardly help."""
    cell = replace(CELL, repetitions=4, between=0.3)
    run = PlantedRun(cell, 1)
    run.measure()
    assert len({block.round for block in run.blocks}) < cell.rounds
    lines: list[str] = []
    assert needs_no_more(run.blocks, of=spec(), requests=64, lines=lines)
    (line,) = lines
    assert "more rounds would hardly narrow the interval" in line
    assert "more repetitions would make the interval 20% wide" in line
    # Three repetitions are too few to show how much starts differ, so no message mentions them.
    few = [block for block in run.blocks if block.repetition < 4]
    lines.clear()
    needs_no_more(few, of=spec(width=0.3), requests=64, lines=lines)
    assert not any("repetitions" in line for line in lines)
