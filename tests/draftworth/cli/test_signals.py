"""SIGTERM and SIGHUP end a command as Ctrl-C does."""

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from draftworth.cli import main
from draftworth.measuring.journal import Entry
from draftworth.measuring.runner import TERMINATED
from draftworth.measuring.unended_runs import read_begun_run
from tests.conftest import ROOT
from tests.support.stream_server import (
    Request,
    Sleep,
    Step,
    StreamServer,
    completion,
    plain,
    stream_server,
)
from tests.support.waiting import HANGS_AFTER_SECONDS

PROMPTS = ROOT / "prompts" / "structured" / "count.jsonl"


def slow(request: Request) -> Sequence[Step]:
    """Script of a server that is ready at once, and pauses for a minute within each answer."""
    if request.method == "GET":
        return plain("200 OK", b"")
    first, *rest = completion(1, 1)
    return [first, Sleep(60.0), *rest]


@pytest.fixture
def server() -> Iterator[StreamServer]:
    with stream_server(slow) as running:
        yield running


def start(server: StreamServer, out: Path, **how: Any) -> subprocess.Popen[str]:
    argv = ["measure", "--base-url", server.base_url, "--model", "m", "--prompts", str(PROMPTS)]
    program = [sys.executable, "-m", "draftworth", *argv, "--out", str(out)]
    return subprocess.Popen(
        program, **{"cwd": ROOT, "stderr": subprocess.PIPE, "text": True, **how}
    )


def wait_until(condition: Callable[[], bool]) -> None:
    deadline_seconds = time.monotonic() + HANGS_AFTER_SECONDS
    while not condition():
        assert time.monotonic() < deadline_seconds, "condition not met in time"
        time.sleep(0.1)


def wait_for_a_request(server: StreamServer) -> None:
    wait_until(lambda: any(r.method == "POST" for r in list(server.requests)))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_interrupts_commands_unless_ignored(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A signal that the process ignores, as under `nohup`, does not end the command."""

    def signalled(_: object) -> int:
        signal.raise_signal(number)
        return 0

    monkeypatch.setattr("draftworth.cli.schema.run", signalled)
    before = signal.getsignal(number)
    assert main(["schema"]) == 1
    assert capsys.readouterr().err == "draftworth: interrupted\n"
    assert signal.getsignal(number) is before
    try:
        signal.signal(number, signal.SIG_IGN)
        assert main(["schema"]) == 0
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize("sigint", [signal.default_int_handler, signal.SIG_IGN])
def test_a_measurement_ended_by_signals_can_be_resumed(
    server: StreamServer, tmp_path: Path, sigint: Any
) -> None:
    """SIGTERM ends a measurement even where SIGINT is ignored, as in the background of a script."""
    before = signal.signal(signal.SIGINT, sigint)
    try:
        process = start(server, tmp_path)
    finally:
        signal.signal(signal.SIGINT, before)
    wait_for_a_request(server)
    process.terminate()
    _, errors = process.communicate(timeout=HANGS_AFTER_SECONDS)
    assert process.returncode == 1
    assert errors.splitlines()[-1] == "draftworth: interrupted"
    assert "Traceback" not in errors
    (folder,) = tmp_path.iterdir()
    next_step = f"no block of it is finished; next: draftworth measure --resume {folder}"
    assert f"{folder}: the run did not end, and {next_step}" in errors
    assert last_entry(folder).reason == TERMINATED


def test_nothing_is_said_of_an_unbegun_run(tmp_path: Path) -> None:
    """The server never says which models it serves, so no run has begun."""
    with stream_server(lambda _: [Sleep(60.0)]) as silent:
        process = start(silent, tmp_path)
        wait_until(lambda: bool(silent.requests))
        process.terminate()
        _, errors = process.communicate(timeout=HANGS_AFTER_SECONDS)
    assert errors.splitlines() == ["draftworth: interrupted"]


def last_entry(folder: Path) -> Entry:
    """The last entry that the process wrote into the run's journal, a record of its events."""
    *_, last = read_begun_run(folder).history.entries
    return last


def test_a_report_ended_by_signals_leaves_no_copy(tmp_path: Path) -> None:
    with stream_server(lambda _: [Sleep(60.0)]) as s3:
        process = subprocess.Popen(
            [sys.executable, "-m", "draftworth", "report", "s3://results/runs/one"],
            cwd=ROOT,
            env=os.environ | {"AWS_ENDPOINT_URL": s3.base_url, "TMPDIR": str(tmp_path)},
            stderr=subprocess.PIPE,
            text=True,
        )
        wait_until(lambda: bool(s3.requests))
        assert list(tmp_path.iterdir())
        process.terminate()
        _, errors = process.communicate(timeout=HANGS_AFTER_SECONDS)
    assert (process.returncode, errors) == (1, "draftworth: interrupted\n")
    assert list(tmp_path.iterdir()) == []


def test_a_terminal_that_goes_away_ends_a_measurement(server: StreamServer, tmp_path: Path) -> None:
    """When a terminal closes, SIGHUP comes, and every later write to the terminal fails."""
    ours, terminal = pty.openpty()
    process = start(
        server,
        tmp_path,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
        preexec_fn=_take_terminal,
    )
    os.close(terminal)
    wait_for_a_request(server)
    os.close(ours)
    process.wait(timeout=HANGS_AFTER_SECONDS)
    assert process.returncode == 1
    (folder,) = tmp_path.iterdir()
    assert last_entry(folder).reason == TERMINATED


def _take_terminal() -> None:
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
