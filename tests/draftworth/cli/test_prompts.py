"""`prompts`: what it prints of imports and choices, and that it prints no text of a prompt."""

import json
from hashlib import sha256
from pathlib import Path

import pytest

from draftworth.cli.measure import find_cases
from draftworth.errors import PromptSetError
from draftworth.experiment.loading import load_experiment
from draftworth.records.codec import dump_record
from draftworth.records.logged_traffic import (
    PromptForecast,
    PromptForecasts,
    read_logged_traffic,
)
from tests.draftworth.conftest import Ran

SECRET = "my number is 555-0199"


def command(source: Path, *more: str) -> list[str]:
    where = ["--out", str(source.parent / "out"), "--class", "mine"]
    return ["prompts", "import", str(source), "--format", "openai-jsonl", *where, *more]


def write_log(folder: Path) -> Path:
    """Write a log with every kind of line, each with a text that must not be printed."""
    part = {"type": "image_url", "image_url": {"url": SECRET}}
    user = {"role": "user", "content": SECRET}
    lines: list[object] = [
        {"request": {"messages": [user], "max_tokens": 900, "stop": [SECRET]}, "response": SECRET},
        {"messages": [user], "custom_id": SECRET},
        {"messages": [{"role": "user", "content": [part]}]},
        {"messages": [{**user, SECRET: SECRET}]},
        {"messages": [{"role": SECRET, "content": SECRET}]},
        {"messages": [user], "max_tokens": SECRET},
        {"messages": [user], "tools": SECRET},
        {"messages": [user], "response_format": SECRET},
        {SECRET: SECRET},
        SECRET,
    ]
    path = folder / "log.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines) + f"\n{{{SECRET}")
    return path


def test_it_reports_what_was_written_without_any_text(tmp_path: Path, ran: Ran) -> None:
    output = ran(*command(write_log(tmp_path)))
    assert SECRET not in output
    first, *lines = output.splitlines()
    assert first == (
        f"{tmp_path}/out/mine/log.jsonl: 1 prompt, 1 with the answer of the log; not "
        "written: 1 that repeat one of these, and 0 that were not drawn"
    )
    left_out = (
        "9 left out: 1 with images (line 3), 4 of another form (the first: line 4), 1 with a "
        "max_tokens that is not a number of tokens (line 6), 1 without messages or prompt "
        "(line 9), 2 not a JSON object (the first: line 10)"
    )
    own_lengths = (
        "note: prompts have max_tokens of their own, up to 900: workload.output_tokens must be at "
        "least that"
    )
    not_kept = "note: 1 with stop, which is not kept (the first: line 1)"
    assert lines[:-1] == ["11 records read with seed 0", left_out, not_kept, own_lengths]
    assert "people wrote these texts" in lines[-1]


def test_imported_prompts_are_a_class_without_their_answers(tmp_path: Path, ran: Ran) -> None:
    ran(*command(write_log(tmp_path)))
    assert (tmp_path / "out" / "mine" / "answers" / "log.jsonl").exists()
    ran("init", tmp_path / "mine.yaml", "--yes", "--prompts", tmp_path / "out")
    experiment = load_experiment(tmp_path / "mine.yaml")
    sets_of_cases = [
        experiment.cases,
        find_cases(tmp_path / "out"),
        find_cases(tmp_path / "out" / "mine"),
    ]
    for cases in sets_of_cases:
        assert [(case.prompt_class, case.name) for case in cases] == [("mine", "log")]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--class", "Mine"], "--class: given 'Mine', allowed: lower-case letters"),
        (["--case", "../x"], "--case: given '../x', allowed: lower-case letters"),
        (["--case", "x" * 33], "at most 32 characters"),
        (["--format", "sharegpt"], "no prompt in 11 records of the form sharegpt"),
    ],
)
def test_wrong_input_exits_with_2_without_any_text(
    tmp_path: Path, ran: Ran, more: list[str], words: str
) -> None:
    output = ran(*command(write_log(tmp_path), *more), code=2)
    assert words in output
    assert SECRET not in output
    assert not (tmp_path / "out").exists()


def test_any_form_is_imported_by_paths(tmp_path: Path, ran: Ran) -> None:
    log = tmp_path / "log.jsonl"
    records = [{"in": {"q": SECRET, "n": n}, "by": "m-1", "at": f"2026-11-0{n}"} for n in (1, 2)]
    log.write_text("\n".join(map(json.dumps, records)))
    paths = ["--map", "prompt=in.q", "--map", "model=by", "--map", "time=at"]
    output = ran("prompts", "import", log, *paths, "--out", tmp_path / "out", "--class", "mine")
    assert SECRET not in output
    assert "note: the models of these requests: m-1 (2)\n" in output
    assert "note: asked from 2026-11-01 to 2026-11-02\n" in output


@pytest.mark.parametrize("form", [[], ["--format", "csv", "--map", "prompt=q"]])
def test_either_a_form_or_paths_are_needed(tmp_path: Path, ran: Ran, form: list[str]) -> None:
    options = (*form, "--out", str(tmp_path / "out"), "--class", "mine")
    (tmp_path / "log.jsonl").touch()
    output = ran("prompts", "import", tmp_path / "log.jsonl", *options, code=2)
    assert "--format" in output
    assert "--map" in output


def test_the_keys_of_an_unknown_form_are_named(tmp_path: Path, ran: Ran) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(json.dumps({"call": {"question": SECRET, SECRET: 1}}))
    output = ran(*command(log), code=2)
    assert "keys of the first: call.question; next: `draftworth prompts import` with " in output
    assert " with --map prompt=call.question; or --format, one of " in output
    assert SECRET not in output


def test_progress_is_told_of_a_long_log(
    tmp_path: Path, ran: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("draftworth.cli.prompts._PROGRESS_RECORDS", 5)
    lines = ran(*command(write_log(tmp_path))).splitlines()
    assert lines[-2:] == ["5 records read", "10 records read"]


def write_estimated_log(folder: Path, *, prompts: int = 40) -> Path:
    """Write the prompts of a log and the forecasts for them; return the file of the forecasts."""
    ids = [f"log-{number:06d}" for number in range(prompts)]
    lines = [json.dumps({"id": i, "prompt": f"{SECRET} {i}"}) + "\n" for i in ids]
    (folder / "log" / "chat").mkdir(parents=True)
    (folder / "log" / "chat" / "log.jsonl").write_text("".join(lines))
    forecasts = PromptForecasts(
        draft="n-grams",
        window=5,
        prompts=tuple(
            PromptForecast(prompt_class="chat", case="log", id=i, tokens=100, steps=30 + number)
            for number, i in enumerate(ids)
        ),
    )
    path = folder / "forecasts.json"
    path.write_bytes(dump_record(forecasts))
    return path


def choose(forecasts: Path, *more: str | Path) -> list[str | Path]:
    folder = forecasts.parent
    where = ("--prompts", folder / "log", "--out", folder / "out", "--class", "chosen_chat")
    return ["prompts", "choose", forecasts, *where, *more]


def test_chosen_prompts_are_a_class_with_a_record(tmp_path: Path, ran: Ran) -> None:
    output = ran(*choose(write_estimated_log(tmp_path), "--count", "20"))
    assert SECRET not in output
    assert "chosen.jsonl: 20 of 40 prompts, chosen by tokens" in output
    (case,) = find_cases(tmp_path / "out")
    assert (case.prompt_class, case.name) == ("chosen_chat", "chosen")
    traffic = read_logged_traffic(tmp_path / "out" / "chosen_chat.traffic.json")
    assert [prompt.id for prompt in case.prompts] == [prompt.id for prompt in traffic.chosen]
    assert all(prompt.texts[0] == f"{SECRET} {prompt.id}" for prompt in case.prompts)
    record = (tmp_path / "out" / "chosen_chat.traffic.json").read_bytes()
    assert case.chosen_by == sha256(record).hexdigest()
    assert (traffic.prompts, traffic.tokens) == (40, 4000)
    assert traffic.steps_per_token == pytest.approx(0.495)
    ran("init", tmp_path / "mine.yaml", "--yes", "--prompts", tmp_path / "out")
    assert [c.name for c in load_experiment(tmp_path / "mine.yaml").cases] == ["chosen"]
    assert "exists already" in ran(*choose(tmp_path / "forecasts.json"), code=2)
    (tmp_path / "out" / "chosen_chat" / "chosen.jsonl").unlink()
    assert "traffic.json: exists already" in ran(*choose(tmp_path / "forecasts.json"), code=2)
    assert not [*(tmp_path / "out" / "chosen_chat").iterdir()]


def test_prompts_without_a_record_were_not_chosen(tmp_path: Path, ran: Ran) -> None:
    """A record beside a class says nothing of its other prompt files."""
    ran(*choose(write_estimated_log(tmp_path), "--count", "20"))
    chosen = tmp_path / "out" / "chosen_chat" / "chosen.jsonl"
    chosen.with_stem("others").write_bytes(chosen.read_bytes())
    assert [bool(c.chosen_by) for c in find_cases(tmp_path / "out")] == [True, False]
    (tmp_path / "out" / "chosen_chat.traffic.json").unlink()
    assert not any(c.chosen_by for c in find_cases(tmp_path / "out"))


def test_a_record_that_cannot_be_read_is_named(tmp_path: Path, ran: Ran) -> None:
    ran(*choose(write_estimated_log(tmp_path), "--count", "20"))
    record = tmp_path / "out" / "chosen_chat.traffic.json"
    record.unlink()
    record.mkdir()
    with pytest.raises(PromptSetError, match=r"chosen_chat\.traffic\.json: cannot be read: "):
        find_cases(tmp_path / "out")


def test_what_cannot_be_chosen_is_refused(tmp_path: Path, ran: Ran) -> None:
    forecasts = write_estimated_log(tmp_path)
    for more, words in (
        (("--class", "Mine"), "--class: given 'Mine'"),
        (("--prompts", tmp_path / "nowhere"), "allowed: a file or folder that exists"),
    ):
        assert words in ran(*choose(forecasts, *more), code=2)
    assert "--count: given '15', allowed: a whole number" in ran(
        *choose(forecasts, "--count", "15"), code=2
    )
    log = tmp_path / "log" / "chat" / "log.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(lines[:20]))
    assert "allowed: the folder whose prompts the forecasts are for" in ran(
        *choose(forecasts), code=2
    )
    log.write_text("".join((*lines, *lines)))
    assert "allowed: ids that are unique in all prompt files" in ran(*choose(forecasts), code=2)
    assert not (tmp_path / "out").exists()


def test_a_file_without_forecasts_is_refused(tmp_path: Path, ran: Ran) -> None:
    none = write_estimated_log(tmp_path, prompts=0)
    assert "prompts: given none, allowed: one or more" in ran(*choose(none), code=2)
    none.write_text("{}")
    assert "--by-prompt` wrote; next: give its path" in ran(*choose(none), code=2)
    assert "allowed: a file or folder that exists" in ran(*choose(tmp_path / "no.json"), code=2)
