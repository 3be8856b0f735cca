"""A client that does not run while tokens arrive: its process is stopped by real signals."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from draftworth.records.codec import load_record
from draftworth.records.results import RequestRecord
from tests.conftest import ROOT
from tests.draftworth.measuring.one_request import measure, play
from tests.support.processes import end_family
from tests.support.stream_server import (
    DONE,
    HEADERS,
    Request,
    Sleep,
    Step,
    Write,
    completion,
    event,
    stream_server,
)
from tests.support.waiting import HANGS_AFTER_SECONDS

STOPPED = "client was stopped and continued while the answer came"
SLEPT = "the machine slept, or its clock was set, while the answer came"
# Longer than the age of one second from which on the client refuses a kernel timestamp.
STOPPED_SECONDS = 1.2
# A program that measures one request to the address in its arguments, and prints the record.
CHILD = """
import asyncio, sys
from draftworth.measuring.streamed_request import Client
from draftworth.records.codec import dump_text
from tests.draftworth.measuring.one_request import PROMPT, SHAPE
client = Client(base_url=sys.argv[1], shape=SHAPE)
print(dump_text(asyncio.run(client.measure(PROMPT, request_id="r", seed=0)).record))
"""
FIRST, LAST = Write(event("a", tokens=1)), Write(event("b", tokens=2, finish="stop") + DONE)
Stopping = Callable[[], None]


def over_the_end(stop: Stopping, go_on: Stopping) -> Iterator[Step]:
    yield Write(HEADERS)
    yield Sleep(0.05)
    yield FIRST
    yield Sleep(0.05)
    stop()
    yield LAST
    yield Sleep(STOPPED_SECONDS)
    go_on()


def over_the_first_token(stop: Stopping, go_on: Stopping) -> Iterator[Step]:
    yield Write(HEADERS)
    yield Sleep(0.05)
    stop()
    yield FIRST
    yield Sleep(0.2)
    go_on()
    yield Sleep(0.05)
    yield LAST


@pytest.mark.parametrize("steps", [over_the_end, over_the_first_token])
def test_requests_during_which_the_client_stopped_are_excluded(
    steps: Callable[[Stopping, Stopping], Iterator[Step]],
) -> None:
    children: list[subprocess.Popen[str]] = []
    started = threading.Event()

    def stop() -> None:
        assert started.wait(timeout=HANGS_AFTER_SECONDS)
        children[0].send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, children[0].pid, os.WSTOPPED)

    def script(_: Request) -> Iterator[Step]:
        return steps(stop, lambda: children[0].send_signal(signal.SIGCONT))

    with stream_server(script) as server:
        command = [sys.executable, "-c", CHILD, server.base_url]
        child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        children.append(child)
        started.set()
        try:
            printed, _ = child.communicate(timeout=HANGS_AFTER_SECONDS)
        finally:
            end_family(child)
    record = load_record(RequestRecord, printed)

    assert not record.failed
    assert record.excluded == STOPPED
    assert not record.counts


@pytest.mark.usefixtures("_every_request_counts")
def test_only_stops_within_a_request_exclude_it() -> None:
    def stopped(_: Request) -> Iterator[Step]:
        yield Write(HEADERS)
        yield FIRST
        os.kill(os.getpid(), signal.SIGCONT)
        yield LAST

    scripts = (play(*completion(1, 1)), stopped, play(*completion(1, 1)))
    records = [measure(script)[0].record for script in scripts]

    assert [record.excluded for record in records] == [None, STOPPED, None]


@pytest.mark.usefixtures("_every_request_counts")
@pytest.mark.parametrize(("slept_seconds", "is_excluded"), [(0.3, False), (90.0, True)])
@pytest.mark.parametrize("platform", ["linux", "elsewhere"])
def test_requests_during_which_the_machine_slept_are_excluded(
    monkeypatch: pytest.MonkeyPatch, platform: str, slept_seconds: float, is_excluded: bool
) -> None:
    """While the machine sleeps, only the wall clock goes on; usual corrections of it are small."""
    monkeypatch.setattr("draftworth.measuring.connections.sys.platform", platform)
    real_ns, woken = time.time_ns, threading.Event()
    slept_ns = int(slept_seconds * 1e9)
    monkeypatch.setattr(time, "time_ns", lambda: real_ns() + slept_ns * woken.is_set())

    def sleeping(_: Request) -> Iterator[Step]:
        yield Write(HEADERS)
        yield FIRST
        woken.set()
        yield LAST

    record = measure(sleeping)[0].record
    assert record.excluded == (SLEPT if is_excluded else None)
