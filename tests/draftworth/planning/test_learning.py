"""What a plan learns from a run: its figures, in the units of the assumptions, and from where."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from draftworth.cli import main
from draftworth.errors import UserInputError
from draftworth.planning.assumptions import Assumptions, assumption_data
from draftworth.planning.learning import learnt
from draftworth.records.reading import Run
from draftworth.records.results import AS_SHIPPED, ServerStart, TimeAccount
from tests.conftest import ROOT
from tests.draftworth.report.runs import (
    PLAIN_ITL_S,
    STEP_S,
    VARIANT,
    make_drafted_block,
    make_plain_block,
    make_run,
    with_control,
    write_run,
)

MODEL = "Qwen/Qwen3-32B"
ASSUMED: Assumptions = assumption_data().for_target(MODEL)
START = ServerStart(
    startup_s=1000.0, compilation_s=600.0, graphs=2, load_s=100.0, load_bytes=62.5e9
)
CACHED = ServerStart(startup_s=160.0, compilation_s=5.0, graphs=2, load_s=100.0, load_bytes=62.5e9)


def ends(run: Run) -> dict[str, tuple[float, float]]:
    return {name: (row.low, row.high) for name, row in learnt(run, ASSUMED, model=MODEL).items()}


def test_speeds_are_the_medians_of_its_classes() -> None:
    """Two classes: six tokens a step and fewer."""
    found = ends(make_run())
    plain_ms, fastest_ms = PLAIN_ITL_S * 1e3, STEP_S / 6 * 1e3
    assert found["baseline_ms_per_token"] == pytest.approx((plain_ms, plain_ms), rel=0.05)
    low, high = found["speculative_ms_per_token"]
    assert low == pytest.approx(fastest_ms, rel=0.05)
    assert high > low
    assert found["first_token_seconds"] == pytest.approx((0.25, 0.25), rel=0.05)


def test_the_time_between_blocks_is_shared_by_them() -> None:
    run = make_run(time=TimeAccount(measuring_s=100.0, idle_s=6.0))
    assert ends(run)["block_overhead_seconds"] == (0.75, 0.75)


def test_a_run_whose_servers_say_how_they_started_has_compile_and_load_times() -> None:
    found = ends(make_run(server_starts={"baseline": START, VARIANT: START}))
    assert found["compile_minutes"] == (10.0, 10.0)
    assert found["load_gbit_per_s"] == (5.0, 5.0)
    assert found["warm_up_minutes"] == (5.0, 5.0)


def test_graphs_that_came_out_of_a_cache_say_nothing_of_compiling() -> None:
    found = ends(make_run(server_starts={"baseline": CACHED}))
    assert "compile_minutes" not in found
    assert found["warm_up_minutes"] == pytest.approx((55 / 60, 55 / 60), rel=0.01)


@pytest.mark.parametrize(
    "start",
    [
        ServerStart(),
        ServerStart(startup_s=10.0, compilation_s=600.0, load_s=1e-18, load_bytes=1e18),
        ServerStart(compilation_s=0.0, load_s=0.0, load_bytes=0.0),
    ],
)
def test_what_cannot_be_is_not_learnt(start: ServerStart) -> None:
    found = ends(make_run(server_starts={"baseline": start}))
    assert not {"load_gbit_per_s", "warm_up_minutes"} & found.keys()


def test_the_baseline_as_shipped_is_no_speculation() -> None:
    shipped = replace(make_plain_block(3, "structured"), variant=AS_SHIPPED)
    blocks = (make_plain_block(1, "structured"), make_drafted_block(2, "structured"), shipped)
    run = make_run(blocks=blocks, variants=("baseline", VARIANT, AS_SHIPPED))
    low, high = ends(run)["speculative_ms_per_token"]
    assert low == high == pytest.approx(STEP_S / 6 * 1e3, rel=0.05)


def test_the_control_is_no_speculation_either() -> None:
    speeds = "speculative_ms_per_token"
    assert ends(with_control(make_run(), factor=3.0))[speeds] == ends(make_run())[speeds]


def test_every_row_says_from_which_run_it_is() -> None:
    rows = learnt(make_run(server_starts={"baseline": START}), ASSUMED, model=MODEL)
    assert len(rows) == 7
    for name, row in rows.items():
        assert row.source.startswith("built-run: "), name
        assert row.unit == ASSUMED.named(name).unit


@pytest.mark.parametrize(
    ("run", "given"),
    [
        (make_run(blocks=(replace(make_plain_block(1, "x"), model="tiny"),)), "measured tiny"),
        (make_run(blocks=()), "measured nothing"),
        (
            make_run(
                blocks=(make_plain_block(1, "x"), replace(make_plain_block(2, "x"), model="t"))
            ),
            "measured Qwen/Qwen3-32B, t",
        ),
    ],
    ids=["another model", "no block", "two models"],
)
def test_a_run_of_something_else_is_refused(run: Run, given: str) -> None:
    with pytest.raises(UserInputError, match=f"given run built-run, which {given}, allowed: a run"):
        learnt(run, ASSUMED, model=MODEL)


EXPERIMENT = str(ROOT / "experiments" / "qwen3-32b.yaml")


def planned(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    assert main(["plan", EXPERIMENT, *options]) == 0
    return capsys.readouterr().out


def test_the_plan_uses_what_it_learnt_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(write_run(make_run(server_starts={"baseline": START}), tmp_path / "run"))

    text = planned(capsys, "--learn", folder)
    assert "10.0    10.0   compile_minutes 10\n" in text
    assert "  compile_minutes 10 minutes: built-run: compilation, by the servers' gauges" in text
    assert "  not by it: deploy_minutes, redeploy_minutes," in text

    text = planned(capsys, "--learn", folder, "--assume", "compile_minutes=30..90")
    assert "compile_minutes 30 to 90" in text
    assert "compile_minutes 10" not in text
    assert "learnt" not in planned(capsys)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((EXPERIMENT, "--learn", "nowhere"), "no run.json there"),
        ((str(ROOT / "experiments" / "rehearsal.yaml"), "--learn", "x"), "--learn: given for rel"),
    ],
)
def test_a_run_that_is_not_there_or_not_wanted_is_told_in_a_sentence(
    options: tuple[Any, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", *options]) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.out == ""
