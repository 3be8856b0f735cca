"""The acceptance profile that `search.forecast` names: what is read, and which are refused."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from draftworth.errors import ExperimentError, Problem
from draftworth.experiment.catalog import NGRAM
from draftworth.experiment.loading import load_experiment
from draftworth.planning.resolved import load
from draftworth.records.acceptance_profile import LIMIT_BYTES
from draftworth.records.codec import dump_record, load_record
from draftworth.records.search_result import Search
from tests.support.experiments import Edit, both, put, write_experiment
from tests.support.present import present
from tests.support.profiles import CLASSES, LARGE, SMALL, TARGET, draft_of, write_profile_of

SEARCH = "qwen3-32b-search"
NAMED = put("search", "forecast", value="profile.json")
ALLOWED = "which `draftworth estimate EXPERIMENT --profile FILE` writes"


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
    assert problem.actual == '"profile.json"'
    assert ALLOWED in problem.allowed
    assert reason in problem.reason


def test_each_candidate_has_its_tokens_per_step(tmp_path: Path) -> None:
    """The search's release (NxD Inference) checks one drafted token fewer than the window."""
    write_profile_of(tmp_path, {**draft_of(LARGE), "remark": "mine"})
    forecast = load_experiment(searched(tmp_path)).forecast
    assert [*forecast] == [f"qwen3-1.7b-k{window}" for window in range(3, 16)]
    assert forecast["qwen3-1.7b-k3"] == dict.fromkeys(CLASSES, 1.5)
    assert forecast["qwen3-1.7b-k15"] == dict.fromkeys(CLASSES, 4.5)


def test_it_reaches_the_search_with_plausible_values_only(tmp_path: Path) -> None:
    write_profile_of(tmp_path, draft_of(LARGE), draft_of(SMALL))
    search = present(load(searched(tmp_path)).search)
    assert search.forecast.keys() == {candidate.variant for candidate in search.candidates}
    assert load_record(Search, dump_record(search)) == search
    with pytest.raises(ValueError, match="allowed: 1 token per step or more"):
        replace(search, forecast={"qwen3-1.7b-k3": {"structured": 0.5}})


def test_ngram_drafting_is_no_candidate(tmp_path: Path) -> None:
    write_profile_of(tmp_path, {**draft_of("2 to 4 tokens"), "method": NGRAM}, draft_of(LARGE))
    assert len(load_experiment(searched(tmp_path)).forecast) == 13


@pytest.mark.parametrize("temperature", [None, 0])
def test_the_temperature_is_the_workloads(tmp_path: Path, temperature: float | None) -> None:
    write_profile_of(tmp_path, draft_of(LARGE), temperature=temperature)
    assert load_experiment(searched(tmp_path)).forecast
    write_profile_of(tmp_path, draft_of(LARGE), temperature=0.8)
    assert_refused(searched(tmp_path), "it is of temperature 0.8, and this workload has 0")


def test_an_estimates_output_is_refused_with_advice(tmp_path: Path) -> None:
    (tmp_path / "profile.json").write_text('[{"target": "Qwen/Qwen3-32B", "draft_folder": "x"}]')
    message = (
        "it is the output of `estimate --json`, which a search read before there were profiles"
    )
    assert_refused(searched(tmp_path), f"{message}; next: `draftworth estimate")


@pytest.mark.parametrize(
    "folder",
    [
        "estimates/checkpoints/0123456789ab/Qwen3-1.7B",
        "/home/me/.cache/models--Qwen--Qwen3-1.7B/snapshots/4a5b",
        "Qwen3-0.6B/Qwen3-1.7B",
    ],
)
def test_a_draft_is_recognized_by_its_folders_name(tmp_path: Path, folder: str) -> None:
    write_profile_of(tmp_path, draft_of(folder))
    assert "qwen3-1.7b-k3" in load_experiment(searched(tmp_path)).forecast


def test_a_missing_file_is_refused_with_next_step(tmp_path: Path) -> None:
    message = (
        "it cannot be read: No such file or directory; next: leave the key out, run `draftworth"
    )
    assert_refused(searched(tmp_path), message)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "another kind of file: not JSON"),
        ("cost of a token", "another kind of file: not JSON"),
        ("[" * 100_000, "another kind of file: not JSON: too deep"),
        (" " * (LIMIT_BYTES + 1), f"another kind of file: more than {LIMIT_BYTES:,} bytes"),
        ("{}", "another kind of file: schema: given None, allowed 'draftworth.acceptance/1'"),
        ("[]", "another kind of file: given list, allowed: an object"),
    ],
)
def test_another_kind_of_file_is_refused(tmp_path: Path, content: str, reason: str) -> None:
    (tmp_path / "profile.json").write_text(content)
    assert_refused(searched(tmp_path), reason)


def with_tokens(tokens: float) -> Callable[[dict[str, Any]], None]:
    """An edit of a draft's acceptance: its only window yields this many tokens per step."""
    window = {"drafts_checked": 2, "tokens_per_step": {"value": tokens}}
    return lambda draft: draft["classes"].update(structured=[window])


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (lambda d: d.update(draft="Qwen3-1.7"), "the draft Qwen3-1.7, and the search has"),
        (
            lambda d: d["classes"].update(structured=d["classes"]["structured"][:4]),
            "Qwen3-1.7B with window 7, of which a step checks 6 dra",
        ),
        (lambda d: d["classes"].pop("structured"), "prompt class structured"),
        (with_tokens(0.5), "tokens_per_step: given 0.5, allowed: 1 to 3"),
        (with_tokens(3.5), "tokens_per_step: given 3.5, allowed: 1 to 3"),
    ],
    ids=["draft", "window", "class", "too few", "too many"],
)
def test_a_forecast_of_something_else_is_refused(
    tmp_path: Path, edit: Callable[[dict[str, Any]], object], reason: str
) -> None:
    draft = draft_of(LARGE)
    edit(draft)
    write_profile_of(tmp_path, draft)
    assert_refused(searched(tmp_path), reason)


def test_a_profile_of_another_target_is_refused(tmp_path: Path) -> None:
    write_profile_of(tmp_path, draft_of(LARGE), target="Qwen/Qwen3-8B")
    assert_refused(searched(tmp_path), f"Qwen/Qwen3-8B, and this one is {TARGET}")


def test_the_file_is_read_after_all_other_checks(tmp_path: Path) -> None:
    """Other mistakes come first: they decide which candidates the file must have."""
    path = searched(tmp_path, put("search", "method", value="guesswork"))
    assert refused(path).dotted_key == "search.method"
