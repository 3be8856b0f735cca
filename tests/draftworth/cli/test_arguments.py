"""What arguments allow: each mistake its own sentence, exit code 2, no request, no secret shown."""

import argparse
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftworth.cli import main
from draftworth.cli.arguments import (
    base_url,
    model_name,
    name_in_files,
    past_day,
    positive_number,
    short_text,
    temperature,
    whole_number,
)
from draftworth.errors import UserInputError
from draftworth.records.reading import read_run
from tests.conftest import ROOT
from tests.hostile.fuzzing import TEXTS
from tests.support.stream_server import StreamServer, completion, plain, stream_server

PROMPTS = ROOT / "prompts" / "structured" / "count.jsonl"
SECRET = "hunter2"


@pytest.fixture
def server() -> Iterator[StreamServer]:
    with stream_server(
        lambda r: plain("200 OK", b"") if r.method == "GET" else completion(1, 2)
    ) as running:
        yield running


def measure(server: StreamServer, out: Path, **options: object) -> int:
    given = {
        "base-url": server.base_url,
        "model": "m",
        "prompts": PROMPTS,
        "out": out,
        "requests-per-case": 1,
        "warmup-requests": 0,
    }
    pairs = (given | {name.replace("_", "-"): value for name, value in options.items()}).items()
    return main(["measure", *(f"--{name}={value}" for name, value in pairs)])


REFUSED_URLS = {
    f"http://me:{SECRET}@host:8000": "a user name or password (not shown)",
    f"me:{SECRET}@host:8000": "a user name or password (not shown)",
    f"http://{SECRET}@host": "set OPENAI_API_KEY for a server that wants a key",
    f"http://host?key={SECRET}": "a query or fragment (not shown)",
    f"http://host/v1#{SECRET}": "a query or fragment (not shown)",
    "http://ho st": "given 'http://ho st': a blank or a control character in it",
    "http://host\n": "a blank or a control character in it",
    "http://host\x1b[2J": "given 'http://host\\\\x1b[2J': a blank or a control character in it",
    "ftp://host": "given 'ftp://host': that is no address of a server; allowed: http://HOST:PORT",
    "host:8000": "given 'host:8000': that is no address of a server",
    "http://": "given 'http://': that is no address of a server",
    "": "given '': that is no address of a server",
    "http://host:99999": "given 'http://host:99999': Port out of range",
    "http://host:0": "given 'http://host:0': that is no address of a server",
    "http://host:x": "Port could not be cast",
    "http://[::1": "Invalid IPv6 URL",
    "http://a..b": "no host can have this name",
    f"http://{'x' * 64}.net": "no host can have this name",
    "http://host/größe": "a path with characters that are not ASCII",
}


@pytest.mark.parametrize("url", REFUSED_URLS)
def test_an_address_that_is_none_is_refused_with_its_own_sentence(url: str) -> None:
    with pytest.raises(UserInputError) as refused:
        base_url(url)
    message = str(refused.value)
    assert message.startswith("--base-url: ")
    assert REFUSED_URLS[url] in message
    assert SECRET not in message


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("http://localhost:8000/v1/", "http://localhost:8000"),
        ("https://[::1]:8443", "https://[::1]:8443"),
        ("https://größe.example/a/b", "https://größe.example/a/b"),
        ("HTTP://HOST", "HTTP://HOST"),
    ],
)
def test_an_address_is_kept_but_for_its_end(url: str, kept: str) -> None:
    assert base_url(url) == kept


@pytest.mark.parametrize("name", ["", " m", "x" * 201, "a\nb", "../m", "a/../b", "\x1b[2J"])
def test_a_model_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(UserInputError, match=r"--model: given .*--served-model-name"):
        model_name(name)


@pytest.mark.parametrize("name", ["m", "Qwen/Qwen3-32B", "/models/qwen", "..hidden..", "日本語"])
def test_a_model_name_as_servers_have_them_is_kept(name: str) -> None:
    assert model_name(name) == name


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "x" * 65, "é" * 33, "a\x00"])
def test_a_name_that_no_file_can_have_is_refused(name: str) -> None:
    with pytest.raises(UserInputError, match=r"--name: given .*part of file names"):
        name_in_files(name)


@pytest.mark.parametrize(
    "check", [base_url, model_name, whole_number, positive_number, temperature]
)
@given(text=TEXTS | st.text())
def test_any_text_is_kept_or_refused(check: Callable[[str], object], text: str) -> None:
    told = ""
    try:
        check(text)
    except (UserInputError, argparse.ArgumentTypeError) as refused:
        told = str(refused)
    assert told.isprintable()
    assert len(told) < 500


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"base_url": f"http://me:{SECRET}@h"}, "--base-url: given an address with a user name"),
        ({"model": "../m"}, "--model: given '../m'"),
        ({"name": "../n"}, "--name: given '../n'"),
    ],
)
def test_a_mistake_is_told_before_any_request(
    server: StreamServer,
    tmp_path: Path,
    options: dict[str, object],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert measure(server, tmp_path / "out", **options) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"draftworth: {message}")
    assert SECRET not in told
    assert server.requests == []
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("key", [f"{SECRET}\n", f"{SECRET}\r\nX: y", f"{SECRET} ", f"{SECRET}é"])
@pytest.mark.parametrize("command", ["measure", "rehearse"])
def test_a_key_that_no_header_carries_is_refused_and_not_shown(
    server: StreamServer,
    tmp_path: Path,
    key: str,
    command: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    monkeypatch.chdir(ROOT)
    if command == "measure":
        assert measure(server, tmp_path / "out") == 2
    else:
        assert main(["rehearse", "--out", str(tmp_path / "out")]) == 2
    told = capsys.readouterr().err
    assert "environment variable OPENAI_API_KEY: given a key (not shown) with a line break" in told
    assert SECRET not in told
    assert server.requests == []


@pytest.mark.parametrize(("folder", "file"), [("x" * 65, "case"), ("class", "y" * 65)])
def test_a_prompt_file_whose_name_makes_no_file_name_is_refused(
    server: StreamServer,
    tmp_path: Path,
    folder: str,
    file: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    prompts = tmp_path / folder / f"{file}.jsonl"
    prompts.parent.mkdir()
    prompts.write_bytes(PROMPTS.read_bytes())
    assert measure(server, tmp_path / "out", prompts=prompts) == 2
    told = capsys.readouterr().err
    assert "the name of a case: given 'yyy" in told or "the name of a prompt class: given" in told
    assert server.requests == []


def test_the_longest_names_that_are_allowed_make_files(
    server: StreamServer, tmp_path: Path
) -> None:
    prompts = tmp_path / ("c" * 64) / f"{'f' * 64}.jsonl"
    prompts.parent.mkdir()
    prompts.write_bytes(PROMPTS.read_bytes())
    assert measure(server, tmp_path / "out", prompts=prompts, name="n" * 64) == 0


def test_an_endpoint_is_sampled_as_it_is_asked_to_be(server: StreamServer, tmp_path: Path) -> None:
    assert measure(server, tmp_path / "greedy") == 0
    assert measure(server, tmp_path / "sampled", temperature=0.7, seed=3) == 0
    greedy, sampled = (r.json for r in server.requests if r.method == "POST")
    assert (greedy["temperature"], sampled["temperature"]) == (0.0, 0.7)
    assert greedy["seed"] != sampled["seed"]
    (folder,) = (tmp_path / "sampled").iterdir()
    assert read_run(folder).result.temperature == 0.7


@pytest.mark.parametrize("text", ["-1", "0.001", "2.5", "nan", "inf", "warm"])
def test_a_temperature_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=r"allowed: 0, .* or 0\.01 to 2"):
        temperature(text)


@pytest.mark.parametrize(
    "option",
    [
        "--requests-per-case=10001",
        "--concurrency=99999999",
        "--concurrency=four",
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
    needed = ("--base-url=http://h", "--model=m", "--prompts=p", "--out=o")
    with pytest.raises(SystemExit) as done:
        main(["measure", *needed, option])
    assert done.value.code == 2
    assert f"argument {name}: given '{value[:60]}" in capsys.readouterr().err


def test_a_price_is_kept_with_where_it_comes_from(server: StreamServer, tmp_path: Path) -> None:
    given = {"usd_per_hour": 1.5, "price_source": " a price list ", "price_as_of": "2026-03-01"}
    assert measure(server, tmp_path, **given) == 0
    (folder,) = tmp_path.iterdir()
    price = read_run(folder).result.price
    assert price is not None
    assert (price.usd_per_node_hour, price.source, price.as_of) == (
        *(1.5, "a price list"),
        "2026-03-01",
    )


def test_a_price_without_a_source_says_so(server: StreamServer, tmp_path: Path) -> None:
    assert measure(server, tmp_path, usd_per_hour=1.5) == 0
    (folder,) = tmp_path.iterdir()
    run = read_run(folder).result
    assert run.price is not None
    assert run.price.source == "given by hand, source not named"
    started = datetime.fromtimestamp(run.started_at_unix_s, UTC).date()
    assert date.fromisoformat(run.price.as_of) - started <= timedelta(days=1)


@pytest.mark.parametrize("option", [{"price_source": "x"}, {"price_as_of": "2026-03-01"}])
def test_where_a_price_comes_from_needs_the_price(
    option: dict[str, str],
    server: StreamServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert measure(server, tmp_path, **option) == 2
    name = next(iter(option)).replace("_", "-")
    assert f"--{name}: given without --usd-per-hour" in capsys.readouterr().err
    assert server.requests == []


@pytest.mark.parametrize(
    ("check", "text"),
    [
        *((past_day, text) for text in ("2999-01-01", "March")),
        *((short_text, text) for text in (" ", "a\nb", "x" * 201)),
    ],
)
def test_a_day_to_come_and_a_long_source_are_refused(
    check: Callable[[str], object], text: str
) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=r"allowed: (a day|one line)"):
        check(text)


def test_several_paths_of_prompts_are_measured_together_each_once(
    server: StreamServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    others = ROOT / "prompts" / "open_ended" / "poem.jsonl"
    argv = [
        *("measure", "--base-url", server.base_url, "--model", "m", "--out", str(tmp_path)),
        *("--requests-per-case", "1", "--warmup-requests", "0", "--prompts", str(PROMPTS)),
    ]
    assert main([*argv, str(others)]) == 0
    (folder,) = tmp_path.iterdir()
    classes = {(b.prompt_class, b.case) for b in read_run(folder).blocks}
    assert classes == {("structured", "count"), ("open_ended", "poem")}
    capsys.readouterr()
    assert main([*argv, str(PROMPTS.parent)]) == 2
    assert "structured/count is given twice" in capsys.readouterr().err
