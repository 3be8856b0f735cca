"""A search with the real engine finds the candidate that measuring all of them finds."""

from pathlib import Path
from typing import Any

import pytest

from draftworth.cli import main
from draftworth.records.search_result import SearchResult, read_search
from tests.conftest import ROOT
from tests.rehearsal.engines import OUTPUT_TOKENS, engine_python
from tests.support.experiments import Edit, write_experiment

WINDOWS = range(2, 13)


def short(data: dict[str, Any]) -> None:
    """Search two windows with one case per class, four requests each, half the tokens."""
    data["search"]["windows"] = [4, 7]
    for prompt_class, case in zip(data["workload"]["classes"], ("count", "poem"), strict=True):
        prompt_class["cases"] = [case]
    data["workload"] |= {"min_requests": 4, "max_requests": 4, "output_tokens": OUTPUT_TOKENS}


def all_of_them(data: dict[str, Any]) -> None:
    """Replace the search by one variant per window, so that each window is measured."""
    (draft,) = data["search"]["drafts"]
    data["variants"] += [
        {"name": f"k{w}", "method": "draft_model", "window": w, "draft": {"path": draft["path"]}}
        for w in WINDOWS
    ]


def rehearse(folder: Path, edit: Edit) -> SearchResult:
    engine = engine_python().parents[1]
    folder.mkdir()
    code = main(
        [
            "rehearse",
            *("--experiment", str(write_experiment(folder, edit, base="rehearsal-search"))),
            *("--engine", str(engine), "--out", str(folder / "runs")),
        ]
    )
    assert code == 0
    (run,) = (folder / "runs").iterdir()
    search = read_search(run, run.name)
    assert search
    return search


@pytest.mark.engine
@pytest.mark.usefixtures("_every_request_counts")
def test_servers_take_turns_and_every_window_is_predicted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    search = rehearse(tmp_path / "search", short)

    assert search.order[0] == "draft-k7"
    assert search.best in search.order
    assert not search.failed
    results = {result.variant: result for result in search.results}
    assert results.keys() == {"draft-k4", "draft-k7"}
    assert {v for v, r in results.items() if r.measured} == {*search.order}
    # Predicted from what the draft proposes for outputs: it can continue counts, and no poems.
    yields = {variant: result.tokens_per_step for variant, result in results.items()}
    assert yields["draft-k7"]["structured"] > 6 > yields["draft-k4"]["structured"] > 4
    assert all(tokens["open_ended"] < 2 for tokens in yields.values())


@pytest.mark.slow
def test_the_winner_equals_the_best_of_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    search = rehearse(tmp_path / "search", lambda _: None)
    whole = rehearse(tmp_path / "all", all_of_them)

    assert len(search.order) <= len(WINDOWS) / 2
    assert len(whole.order) == len(WINDOWS)
    won = next(r.measured for r in search.results if r.variant == search.best)
    best = next(r.measured for r in whole.results if r.variant == whole.best)
    assert won
    assert best
    assert won.low <= best.high
    assert best.low <= won.high


def test_a_search_is_not_repeated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    experiment = write_experiment(tmp_path, lambda _: None, base="rehearsal-search")
    for option in (("--control",), ("--repetitions", "2")):
        code = main(["rehearse", "--experiment", str(experiment), *option])
        assert code == 2
        assert "rehearse the winner in an experiment of its own" in capsys.readouterr().err
