"""`conformance` and `truth-server` with real processes: load generators that are right or wrong."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from draftworth.cli import main
from tests.conftest import ROOT
from tests.support.waiting import HANGS_AFTER_SECONDS

# The tolerance is wide, because the bare client notes the time of bytes only when it gets a core.
# The faults in these tests change a figure by 100% or more.
TOLERANCE = ("--tolerance-percent", "90")
BARE = (sys.executable, "-m", "benchmarks.clients.bare", "{url}", "2", "4")
# A client that wrongly counts each chunk as one token.
COUNTS_CHUNKS = """
import asyncio, json, sys
from benchmarks.clients.bare import chunks, load
for sent_ns, pieces in asyncio.run(load(sys.argv[1], 1, 2)).values():
    found = chunks(pieces)
    (first_ns, _), (last_ns, _) = found[0], found[-1]
    itl_ms = (last_ns - first_ns) / 1e6 / (len(found) - 1)
    print(json.dumps({"ttft_ms": (first_ns - sent_ns) / 1e6, "itl_ms": itl_ms}))
    print(json.dumps({"e2e_ms": (last_ns - sent_ns) / 1e6, "output_tokens": len(found)}))
"""


def verdicts(capsys: pytest.CaptureFixture[str]) -> dict[tuple[str, str], str]:
    """The verdict (`right` or `WRONG`) in each line of the printed table, by trap and figure."""
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    return {(row[0], row[1]): row[-1] for row in rows if row and row[-1] in ("right", "WRONG")}


@pytest.fixture(autouse=True)
def _from_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def test_a_right_client_is_right_in_every_figure(
    capsys: pytest.CaptureFixture[str],
) -> None:
    traps = ("several-tokens", "role-chunk", "merged-chunks", "keep-alive")
    options = [word for trap in traps for word in ("--trap", trap)]

    assert main(["conformance", *TOLERANCE, *options, "--", *BARE]) == 0

    figures = ("ttft_ms", "itl_ms", "e2e_ms", "output_tokens")
    assert verdicts(capsys) == {(trap, figure): "right" for trap in traps for figure in figures}


def test_a_client_that_counts_chunks_is_wrong(
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = ("--trap", "plain", "--trap", "several-tokens")
    command = (sys.executable, "-c", COUNTS_CHUNKS, "{url}")

    assert main(["conformance", *TOLERANCE, *options, "--", *command]) == 1

    verdict_of = verdicts(capsys)
    assert {key for key, word in verdict_of.items() if word == "WRONG"} == {
        ("several-tokens", "itl_ms"),
        ("several-tokens", "output_tokens"),
    }
    assert len(verdict_of) == 8


@contextmanager
def unused_server(_: object, log: Path, most_seconds: float) -> Iterator[str]:
    """Yield the URL of no server, for commands that send no request; its log is empty."""
    log.touch()
    yield "http://127.0.0.1:9"


@pytest.mark.parametrize(
    ("command", "exit_code", "words"),
    [
        ((sys.executable, "-c", "raise SystemExit('no model')", "{url}"), 1, "exit 1: no model"),
        ((sys.executable, "-c", "", "{url}"), 1, "it completed 0 of its requests"),
        (("sh", "-c", "sleep 1000", "{url}"), 1, "no end within 3 s"),
        # As if another process, or the kernel because memory ran out, had killed the tool.
        (("sh", "-c", "kill -9 $$", "{url}"), 1, "exit -9:"),
        (("my-tool", "--url", "http://localhost"), 2, "given without {url}"),
        (("./no-such-tool", "{url}"), 2, "given './no-such-tool', which cannot be started"),
    ],
)
def test_a_command_that_fails_says_why(
    command: tuple[str, ...],
    exit_code: int,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("draftworth.truth.trial.truth_server", unused_server)
    seconds = "3" if command[0] == "sh" else str(HANGS_AFTER_SECONDS)
    options = ("--trap", "plain", "--timeout-seconds", seconds)

    assert main(["conformance", *options, "--", *command]) == exit_code
    printed = capsys.readouterr()
    assert words in (printed.out if exit_code == 1 else printed.err)


def test_the_server_logs_its_writes_and_stops(tmp_path: Path) -> None:
    log = tmp_path / "truth.jsonl"
    options = ("--trap", "role-chunk", "--log", str(log), "--requests", "1")
    command = (sys.executable, "-m", "draftworth", "truth-server", *options)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        body = json.dumps({"messages": [{"content": "a"}], "stream": True}).encode()
        request = urllib.request.Request(f"{url}/v1/chat/completions", body)
        with urllib.request.urlopen(request, timeout=HANGS_AFTER_SECONDS) as answer:
            received = answer.read().decode()
        assert server.wait(HANGS_AFTER_SECONDS) == 0
    truth = json.loads(log.read_text())
    assert "".join(write["text"] for write in truth["writes"]) == received
    assert [write["tokens"] for write in truth["writes"]] == [0, *[1] * 32, 0]


@pytest.mark.parametrize("options", [(), ("--timeline", '{"gap": 1}'), ("--timeline", "[]")])
def test_the_server_refuses_existing_logs_and_other_timelines(
    options: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "truth.jsonl"
    if not options:
        log.write_text("mine")
    assert main(["truth-server", "--log", str(log), *options]) == 2
    assert "allowed: " in capsys.readouterr().err
    assert log.read_text() == "mine" if log.exists() else options
