"""The forecast that a search names: what is read of it, and what is refused."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from draftworth.errors import ExperimentError, Problem
from draftworth.estimate.document import json_text
from draftworth.estimate.forecast import estimate_of
from draftworth.estimate.step_costs import CostRange, StepCosts
from draftworth.experiment.catalog import NGRAM
from draftworth.experiment.forecast import LIMIT_BYTES, MAX_CLASSES
from draftworth.experiment.loading import load_experiment
from draftworth.planning.resolved import load
from draftworth.records.codec import dump_record, load_record
from draftworth.records.search import Search
from tests.support.experiments import Edit, both, put, write_experiment
from tests.support.forecasts import CLASSES, LARGE, SMALL, TARGET, draft_of, write_forecast
from tests.support.present import present
from tests.support.readings import make_reading

SEARCH = "qwen3-32b-search"
NAMED = put("search", "forecast", value="forecast.json")
ALLOWED = "what `python -m draftworth estimate EXPERIMENT --json` printed"


def searched(folder: Path, edit: Edit = lambda _: None) -> Path:
    return write_experiment(folder, both(NAMED, edit), base=SEARCH)


def refused(path: Path) -> Problem:
    with pytest.raises(ExperimentError) as error:
        load_experiment(path)
    (problem,) = error.value.problems
    return problem


def assert_refused(path: Path, reason: str) -> None:
    problem = refused(path)
    assert (problem.code, problem.dotted_key) == ("forecast", "search.forecast")
    assert problem.given == '"forecast.json"'
    assert ALLOWED in problem.allowed
    assert reason in problem.reason


def test_each_candidate_of_a_draft_has_its_tokens_a_step(tmp_path: Path) -> None:
    """NxD Inference checks one draft less than the window."""
    write_forecast(tmp_path, {**draft_of(LARGE), "remark": "mine"})
    found = load_experiment(searched(tmp_path)).forecast
    assert [*found] == [f"qwen3-1.7b-k{window}" for window in range(3, 16)]
    assert found["qwen3-1.7b-k3"] == dict.fromkeys(CLASSES, 1.5)
    assert found["qwen3-1.7b-k15"] == dict.fromkeys(CLASSES, 4.5)


def test_it_travels_to_the_search_that_is_of_one_token_a_step_or_more(tmp_path: Path) -> None:
    write_forecast(tmp_path, draft_of(LARGE), draft_of(SMALL))
    search = present(load(searched(tmp_path)).search)
    assert search.forecast.keys() == {candidate.variant for candidate in search.candidates}
    assert load_record(Search, dump_record(search)) == search
    with pytest.raises(ValueError, match="allowed: 1 token a step or more"):
        replace(search, forecast={"qwen3-1.7b-k3": {"structured": 0.5}})


def test_what_an_estimate_prints_is_read(tmp_path: Path) -> None:
    readings = [
        make_reading("1110" * 10, id=name, prompt_class=name, prompt_id=name) for name in CLASSES
    ]
    estimate = estimate_of(
        TARGET,
        "fused_draft",
        LARGE,
        readings,
        dict.fromkeys(CLASSES, 1.0),
        windows={window: window - 1 for window in range(2, 16)},
        step_costs=StepCosts(known={3: CostRange(low=1, high=2)}, source="card", load="c4"),
        hit_rate=0.75,
    )
    by_ngram = replace(estimate, method=NGRAM, hit_rate=None)
    (tmp_path / "forecast.json").write_text(json_text([by_ngram, estimate]))
    found = load_experiment(searched(tmp_path)).forecast
    assert found["qwen3-1.7b-k4"] == dict.fromkeys(CLASSES, 4.0)


@pytest.mark.parametrize(
    "folder",
    [
        "estimates/checkpoints/0123456789ab/Qwen3-1.7B",
        "/home/me/.cache/models--Qwen--Qwen3-1.7B/snapshots/4a5b",
        "Qwen3-0.6B/Qwen3-1.7B",
    ],
)
def test_a_draft_is_known_by_the_name_of_its_folder(tmp_path: Path, folder: str) -> None:
    write_forecast(tmp_path, draft_of(folder))
    assert "qwen3-1.7b-k3" in load_experiment(searched(tmp_path)).forecast


def test_a_file_that_is_missing_is_refused_with_the_next_step(tmp_path: Path) -> None:
    said = "it cannot be read: No such file or directory; next: leave the key out, run `python -m"
    assert_refused(searched(tmp_path), said)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "another kind of file: not JSON"),
        ("cost of a token", "another kind of file: not JSON"),
        ("[" * 100_000, "another kind of file: not JSON: too deep"),
        (" " * (LIMIT_BYTES + 1), f"another kind of file: more than {LIMIT_BYTES:,} bytes"),
        ("{}", "another kind of file: the whole file: "),
        ("[]", "another kind of file: the whole file: "),
        ('[{"draft": "a"}]', "another kind of file: 0.target: Field required"),
    ],
)
def test_another_kind_of_file_is_refused(tmp_path: Path, content: str, reason: str) -> None:
    (tmp_path / "forecast.json").write_text(content)
    assert_refused(searched(tmp_path), reason)


def with_tokens(tokens: Mapping[str, float]) -> Callable[[dict[str, Any]], None]:
    """The first window yields these."""

    def edit(draft: dict[str, Any]) -> None:
        values = {name: {"value": value} for name, value in tokens.items()}
        draft["windows"][0]["tokens_per_step"] = values

    return edit


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (lambda d: d.update(target="Qwen/Qwen3-8B"), f"Qwen/Qwen3-8B, and this one is {TARGET}"),
        (lambda d: d.update(draft_folder="Qwen3-1.7"), "the draft Qwen3-1.7, and the search has"),
        (lambda d: d["windows"].pop(4), "Qwen3-1.7B with window 7, of which a step checks 6 dra"),
        (lambda d: d["windows"][4]["tokens_per_step"].pop("structured"), "prompt class structured"),
        (with_tokens({"structured": 0.5}), "greater than or equal to 1"),
        (with_tokens({"structured": 3.5}), "more tokens than it checks drafts, and one"),
        (with_tokens({str(n): 1.0 for n in range(MAX_CLASSES + 1)}), f"at most {MAX_CLASSES}"),
    ],
    ids=["target", "draft", "window", "class", "too few", "too many", "too many classes"],
)
def test_a_forecast_of_something_else_is_refused(
    tmp_path: Path, edit: Callable[[dict[str, Any]], object], reason: str
) -> None:
    draft = draft_of(LARGE)
    edit(draft)
    write_forecast(tmp_path, draft)
    assert_refused(searched(tmp_path), reason)


def test_the_file_is_read_only_where_nothing_else_is_wrong(tmp_path: Path) -> None:
    """What it should tell of follows from the rest of the experiment."""
    path = searched(tmp_path, put("search", "method", value="guesswork"))
    assert refused(path).dotted_key == "search.method"
