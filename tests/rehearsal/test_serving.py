"""A rehearsal whose winner goes on serving: until its budget is spent, and with other prompts."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from draftworth.analysis.drift import LOOKS_NEEDED
from draftworth.cli import main
from draftworth.errors import UserInputError
from draftworth.measuring.keeping import kept_winner
from draftworth.measuring.sink import FolderSink
from draftworth.planning.resolved import load
from draftworth.records.codec import dump_record, load_record
from draftworth.records.live import KeptWinner, LiveProbe, kept_key
from draftworth.records.serving_limits import ServingLimits
from rehearsal.serving import probe_cases, serve_winner, with_cases
from tests.conftest import ROOT
from tests.draftworth.measuring.test_live import Server, spec_of
from tests.support.experiments import both, put, write_experiment
from tests.support.stream_server import stream_server

EXPERIMENT = ROOT / "experiments/rehearsal-serve.yaml"
RUN_ID = "rehearsal-serve-1"


def other_prompts(folder: Path, *cases: str) -> Path:
    """A folder of prompts with some of the shipped cases of the open-ended class."""
    (folder / "open_ended").mkdir(parents=True)
    for name in cases:
        shutil.copy(ROOT / "prompts/open_ended" / f"{name}.jsonl", folder / "open_ended")
    return folder


def looks(folder: Path) -> list[LiveProbe]:
    files = sorted(folder.glob("live/*/*.json"))
    return [load_record(LiveProbe, file.read_bytes()) for file in files]


def test_other_prompts_take_the_place_of_the_experiments(tmp_path: Path) -> None:
    cases = probe_cases(load(EXPERIMENT), other_prompts(tmp_path, "poem", "story"))
    assert [(c.prompt_class, c.name) for c in cases] == [
        ("open_ended", "poem"),
        ("open_ended", "story"),
    ]
    spec = with_cases(spec_of("http://x"), cases)
    assert (spec.cases, spec.class_weights) == (cases, {"open_ended": 1.0})


def test_a_folder_without_prompts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserInputError, match=r"--probe-prompts: .*one folder a prompt class"):
        probe_cases(load(EXPERIMENT), tmp_path)


def test_other_prompts_for_nothing_are_refused(tmp_path: Path) -> None:
    prompts = other_prompts(tmp_path, "poem")
    with pytest.raises(UserInputError, match="with an experiment whose winner goes on serving"):
        probe_cases(load(ROOT / "experiments/rehearsal.yaml"), prompts)


def test_other_prompts_for_own_servers_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(
        [
            *("rehearse", "--experiment", str(EXPERIMENT), "--out", str(tmp_path / "runs")),
            *("--base-url", "http://x:1", "--speculative-url", "http://x:2", "--model", "m"),
            *("--probe-prompts", str(tmp_path)),
        ]
    )
    assert code == 2
    assert "--probe-prompts: allowed: without --base-url" in capsys.readouterr().err


def serve(folder: Path, url: str, *, kept: bool) -> tuple[bool, list[str]]:
    results = FolderSink(folder / "runs")
    lines: list[str] = []
    winner = KeptWinner(run_id=RUN_ID, variant="k7", servers=("k7-1",), since_unix_s=0.0)
    if kept:
        results.write(kept_key(RUN_ID), dump_record(winner))
    limits = ServingLimits(
        serve_until_unix_s=None, budget_usd=1e-9, usd_per_hour={"k7": 1.0}, probe_seconds=1.0
    )
    has_served = serve_winner(
        spec_of(url),
        limits,
        RUN_ID,
        results=results,
        bucket=FolderSink(folder / "bucket"),
        progress=lines.append,
    )
    return has_served, lines


def test_without_a_winner_nothing_serves(tmp_path: Path) -> None:
    (tmp_path / "runs" / RUN_ID).mkdir(parents=True)
    assert serve(tmp_path, "http://x", kept=False) == (False, [])


def test_a_winner_whose_budget_is_spent_goes(tmp_path: Path) -> None:
    with stream_server(Server()) as server:
        has_served, (line,) = serve(tmp_path, server.base_url, kept=True)
    assert has_served
    assert line.startswith("k7 goes: the budget of serving is spent")


def rehearse(folder: Path, *more: str) -> tuple[Path, list[LiveProbe]]:
    python = os.environ.get("DRAFTWORTH_ENGINE_PYTHON")
    if python is None:
        pytest.skip("set DRAFTWORTH_ENGINE_PYTHON to the engine's interpreter (make test-engine)")
    in_place = both(
        put("target", "path", value=str(ROOT / "rehearsal/tiny_pair/target")),
        put("variants", 1, "draft", "path", value=str(ROOT / "rehearsal/tiny_pair/draft")),
        # On a machine that does other work more rounds are needed to know.
        put("workload", "max_requests", value=24),
        put("workload", "target_interval_width", value=0.5),
        # Enough looks for a finding, however long each takes.
        put("after", "budget_usd", value=0.02),
        put("after", "probe_seconds", value=1),
    )
    path = write_experiment(folder, in_place, base="rehearsal-serve")
    arguments = ("--engine", str(Path(python).parents[1]), "--out", str(folder / "runs"))
    assert main(["rehearse", "--experiment", str(path), *arguments, *more]) == 0
    (run,) = (p for p in (folder / "runs").iterdir() if p.name != "live")
    kept = kept_winner(FolderSink(folder / "runs"), run.name)
    assert kept
    assert kept.variant == "tiny-draft-k7"
    return run, looks(folder / "runs")


@pytest.mark.engine
def test_the_real_winner_serves_until_its_budget_is_spent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, found = rehearse(tmp_path)
    output = capsys.readouterr()
    assert "tiny-draft-k7 goes: the budget of serving is spent: 0.02 USD" in output.err
    assert "DRIFT" not in output.err
    assert "The winner stays" in output.out
    assert len(found) >= LOOKS_NEEDED
    assert [probe.number for probe in found] == [*range(1, len(found) + 1)]
    assert all(margin > 1 for margin in margins(found))
    assert not any(probe.drifted for probe in found)


@pytest.mark.engine
def test_other_prompts_raise_the_alarm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prompts = other_prompts(tmp_path / "other", "poem")
    _, found = rehearse(tmp_path, "--probe-prompts", str(prompts))
    assert "DRIFT: tiny-draft-k7 yields" in capsys.readouterr().err
    assert all(margin < 1 for margin in margins(found))
    assert [probe.drifted for probe in found[: LOOKS_NEEDED - 1]] == [False] * (LOOKS_NEEDED - 1)
    assert found[-1].drifted


def margins(found: Iterable[LiveProbe]) -> list[float]:
    known = [probe.margin for probe in found if probe.margin is not None]
    assert len(known) >= LOOKS_NEEDED
    return known
