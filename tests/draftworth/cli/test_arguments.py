"""Wrong arguments: each gets a message of its own and exit code 2; no request, no secret shown."""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draftworth.cli import arguments, main
from draftworth.errors import UserInputError
from draftworth.records.run_folder import Run, read_run
from tests.conftest import ROOT
from tests.hostile.fuzzing import TEXTS
from tests.support.snapshot import assert_snapshot
from tests.support.stream_server import Request, completion, plain, stream_server

PROMPTS = ROOT / "prompts" / "structured" / "count.jsonl"
SECRET = "hunter2"


@dataclass
class Measured:
    """Runs `measure` with one request to a server, and keeps what it printed (`told`)."""

    base_url: str
    out: Path
    capsys: pytest.CaptureFixture[str]
    requests: list[Request]
    error_output: str = field(default="")

    def __call__(self, *more: str, **options: object) -> int:
        values = {"base_url": self.base_url, "model": "m", "prompts": PROMPTS, "out": self.out}
        few = {"requests_per_case": 1, "warmup_requests": 0}
        pairs = (values | few | options).items()
        words = (f"--{name.replace('_', '-')}={value}" for name, value in pairs)
        code = main(["measure", *words, *more])
        self.error_output = self.capsys.readouterr().err
        return code

    def refused(self, *more: str, **options: object) -> str:
        """The message about arguments that are refused before any request is sent."""
        assert self(*more, **options) == 2
        assert self.requests == []
        return self.error_output

    @property
    def run(self) -> Run:
        (folder,) = self.out.iterdir()
        return read_run(folder)


@pytest.fixture
def measure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Measured]:
    with stream_server(
        lambda r: plain("200 OK", b"") if r.method == "GET" else completion(1, 2)
    ) as server:
        yield Measured(server.base_url, tmp_path / "out", capsys, server.requests)


# Texts that the parser of each argument refuses; `refused-arguments.txt` has the messages. More
# texts that are no server's address are in tests/draftworth/measuring/test_http_client.py.
REFUSED: dict[Callable[[str], object], tuple[str, ...]] = {
    arguments.base_url: (
        f"http://me:{SECRET}@host:8000",
        f"me:{SECRET}@host:8000",
        f"http://{SECRET}@host",
        f"http://host?key={SECRET}",
        f"http://host/v1#{SECRET}",
        *("http://ho st", "http://host\n", "http://host\x1b[2J", "ftp://host", "host:8000"),
        *("http://host:99999", "http://a..b", "http://host/größe"),
        *(
            "http://host:1/v1/chat/completions",
            "http://host/v1/models/",
            "https://host/a/completions",
        ),
    ),
    arguments.model_name: ("", " m", "x" * 201, "a\nb", "../m", "a/../b", "\x1b[2J"),
    arguments.name_in_files: ("", ".", "..", "../x", "a/b", "x" * 65, "é" * 33, "a\x00"),
    arguments.temperature: ("-1", "0.001", "2.5", "nan", "warm"),
    arguments.past_day: ("2999-01-01", "March"),
    arguments.short_text: (" ", "a\nb", "x" * 201),
}


def test_refusals_of_arguments_show_no_secret() -> None:
    messages = ""
    for check, texts in REFUSED.items():
        messages += f"{check.__name__}\n"
        for text in texts:
            with pytest.raises((UserInputError, argparse.ArgumentTypeError)) as refused:
                check(text)
            messages += f"  {refused.value}\n"
    assert SECRET not in messages
    assert_snapshot(messages, Path(__file__).parent / "snapshots" / "refused-arguments.txt")


@pytest.mark.parametrize(
    ("check", "text", "kept"),
    [
        (arguments.base_url, "http://localhost:8000/v1/", "http://localhost:8000"),
        (arguments.base_url, "https://[::1]:8443", "https://[::1]:8443"),
        (arguments.base_url, "https://größe.example/a/b", "https://größe.example/a/b"),
        (arguments.base_url, "HTTP://HOST", "HTTP://HOST"),
        *(
            (arguments.model_name, name, name)
            for name in ("m", "Qwen/Qwen3-32B", "/models/qwen", "..hidden..", "日本語")
        ),
    ],
)
def test_what_is_good_is_kept(check: Callable[[str], str], text: str, kept: str) -> None:
    assert check(text) == kept


@pytest.mark.parametrize(
    "check", ["base_url", "model_name", "whole_number", "positive_number", "temperature"]
)
@settings(max_examples=25)
@given(text=TEXTS | st.text())
def test_any_text_is_kept_or_refused(check: str, text: str) -> None:
    message = ""
    try:
        getattr(arguments, check)(text)
    except (UserInputError, argparse.ArgumentTypeError) as refused:
        message = str(refused)
    assert message.isprintable()
    assert len(message) < 500


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"base_url": f"http://me:{SECRET}@h"}, "--base-url: given an address with a user name"),
        ({"model": "../m"}, "--model: given '../m'"),
        ({"name": "../n"}, "--name: given '../n'"),
        ({"name": "control"}, "--name: given 'control', allowed: another name than baseline-as-s"),
        ({"price_source": "x"}, "--price-source: given without a price"),
        ({"price_as_of": "2026-03-01"}, "--price-as-of: given without a price"),
        ({"concurrency": 2}, "--concurrency: given 2 with --requests-per-case 1, allowed: at most"),
        ({"prompts": "x" * 300}, "--prompts: given 'xxx"),
        ({"prompts": "/none"}, "--prompts: given '/none', allowed: a file or folder"),
    ],
)
def test_a_mistake_is_told_before_any_request(
    measure: Measured, options: dict[str, Any], message: str
) -> None:
    refusal = measure.refused(**options)
    assert refusal.startswith(f"draftworth: {message}")
    assert SECRET not in refusal
    assert not measure.out.exists()


# A folder in which nobody can create a file, not even root.
NO_FILES = Path("/proc/self")
needs_proc = pytest.mark.skipif(not NO_FILES.is_dir(), reason="needs Linux's /proc")


@pytest.mark.parametrize("out", ["file", "file/below", pytest.param(NO_FILES, marks=needs_proc)])
def test_an_unwritable_output_folder_is_refused_before_measuring(
    measure: Measured, tmp_path: Path, out: str
) -> None:
    (tmp_path / "file").write_text("")
    message = measure.refused(out=tmp_path / out)
    assert f"{tmp_path / out}: no results can be written there: " in message
    assert "give --out a folder that you may write to" in message


@pytest.mark.parametrize("key", [f"{SECRET}\n", f"{SECRET}\r\nX: y", f"{SECRET} ", f"{SECRET}é"])
def test_a_key_that_no_header_carries_stays_secret(
    measure: Measured, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    message = measure.refused()
    assert (
        "environment variable OPENAI_API_KEY: given a key (not shown) with a line break" in message
    )
    assert SECRET not in message


def prompt_file(folder: Path, prompt_class: str, case: str) -> Path:
    path = folder / prompt_class / f"{case}.jsonl"
    path.parent.mkdir()
    path.write_bytes(PROMPTS.read_bytes())
    return path


@pytest.mark.parametrize(("folder", "file"), [("x" * 65, "case"), ("class", "y" * 65)])
def test_a_prompt_file_with_unusable_name_is_refused(
    measure: Measured, tmp_path: Path, folder: str, file: str
) -> None:
    message = measure.refused(prompts=prompt_file(tmp_path, folder, file))
    assert (
        "the name of a case: given 'yyy" in message
        or "the name of a prompt class: given" in message
    )


def test_the_longest_names_that_are_allowed_make_files(measure: Measured, tmp_path: Path) -> None:
    assert measure(prompts=prompt_file(tmp_path, "c" * 64, "f" * 64), name="n" * 64) == 0


def test_an_endpoint_is_sampled_as_the_options_say(measure: Measured, tmp_path: Path) -> None:
    assert measure(out=tmp_path / "greedy") == 0
    assert measure(temperature=0.7, seed=3) == 0
    _, greedy, _, sampled = (r.json for r in measure.requests if r.method == "POST")
    assert (greedy["temperature"], sampled["temperature"]) == (0.0, 0.7)
    assert greedy["seed"] != sampled["seed"]
    assert measure.run.result.temperature == 0.7


@pytest.mark.parametrize(
    "option",
    [
        "--requests-per-case=10001",
        "--concurrency=99999999",
        "--concurrency=four",
        "--output-tokens=1",
        f"--output-tokens={'9' * 400}",
        "--timeout-seconds=1e300",
        "--timeout-seconds=nan",
        "--requests-per-second=1e-300",
        "--requests-per-second=fast",
        "--temperature=1e300",
        "--seed=-1",
    ],
)
def test_numbers_out_of_their_range_are_usage_errors(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name, _, value = option.partition("=")
    needed = ("--base-url=http://h", "--model=m", "--prompts=.", "--out=o")
    assert main(["measure", *needed, option]) == 2
    assert f"draftworth: {name}: given '{value[:60]}" in capsys.readouterr().err


def test_a_price_is_kept_with_its_source(measure: Measured, tmp_path: Path) -> None:
    where = {"price_source": " a price list ", "price_as_of": "2026-03-01"}
    assert measure(out=tmp_path / "other", usd_per_hour=1.5) == 0
    assert measure(usd_per_hour=1.5, **where) == 0
    price = measure.run.result.price
    assert price is not None
    assert (price.usd_per_node_hour, price.source) == (1.5, "a price list")
    assert price.as_of == "2026-03-01"
    (folder,) = (tmp_path / "other").iterdir()
    without = read_run(folder).result.price
    assert without is not None
    assert without.source == "given by hand, source not named"
    assert date.today() - date.fromisoformat(without.as_of) <= timedelta(days=1)


def test_several_prompt_paths_are_measured_together_each_once(measure: Measured) -> None:
    poem = str(ROOT / "prompts" / "open_ended" / "poem.jsonl")
    assert measure("--prompts", str(PROMPTS), poem) == 0
    classes = {(b.prompt_class, b.case) for b in measure.run.blocks}
    assert classes == {("structured", "count"), ("open_ended", "poem")}
    assert measure("--prompts", str(PROMPTS), str(PROMPTS.parent)) == 2
    assert "structured/count is given twice" in measure.error_output


def test_a_record_stands_for_its_run(
    measure: Measured, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert measure() == 0
    (folder,) = measure.out.iterdir()
    outputs = []
    for place in (folder, folder / "run.json", folder / "run_specification.json"):
        capsys.readouterr()
        assert main(["report", str(place)]) == 0
        outputs.append(capsys.readouterr().out)
    assert len({*outputs}) == 1
    monkeypatch.chdir(folder)
    assert arguments.run_place("run.json") == "."
    assert arguments.run_place("s3://bucket/runs/r/run.json") == "s3://bucket/runs/r"


def test_a_missing_path_gets_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "compare-20261128").mkdir()
    wrong = str(tmp_path / "compare-20261182")
    for check in (arguments.existing_path, arguments.run_place):
        with pytest.raises(argparse.ArgumentTypeError, match=r"did you mean '.*compare-20261128'"):
            check(wrong)
    with pytest.raises(argparse.ArgumentTypeError, match=r"folder that exists$"):
        arguments.existing_path(str(tmp_path / "nothing" / "alike"))
