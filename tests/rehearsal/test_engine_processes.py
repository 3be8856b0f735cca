"""The engine's servers, with real child processes but no real engine."""

import asyncio
import os
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from draftworth import untrusted
from draftworth.measuring.run_specification import Endpoint
from rehearsal.engine_processes import (
    EngineServer,
    EngineUnavailableError,
    ProcessServers,
    read_log_tail,
)
from rehearsal.install import STAMP_NAME, EnginePins, _stamp_text
from tests.conftest import ROOT
from tests.rehearsal.engines import serve_together
from tests.support.waiting import HANGS_AFTER_SECONDS

# Stands for the engine's interpreter: takes vLLM's command line, starts a child as vLLM starts its
# engine core, writes both process ids to a file and behaves as FAKE_BEHAVIOUR says.
FAKE_PYTHON = """#!{python} -IS
import os, signal, subprocess, sys, time
behaviour = os.environ["FAKE_BEHAVIOUR"]
core = subprocess.Popen(["sleep", "60"])
with open(os.environ["FAKE_PIDS"], "w") as pids:
    pids.write(f"{{os.getpid()}} {{core.pid}}")
print("arguments:", *sys.argv[1:], flush=True)
print("sockets:", os.environ["VLLM_RPC_BASE_PATH"], flush=True)
if behaviour == "dies":
    print("RuntimeError: no such model", flush=True)
    sys.exit(3)
if behaviour == "ignores SIGTERM":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if behaviour == "never healthy":
    time.sleep(100_000)
import http.server  # loads slowly, so only where it is needed
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/health" else 404)
        self.end_headers()
    def log_message(self, *arguments):
        pass
port = int(sys.argv[sys.argv.index("--port") + 1])
http.server.HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""

MakeServer = Callable[..., EngineServer]


@pytest.fixture
def make_server(tmp_path: Path) -> MakeServer:
    """Return a function that makes a server with a fake interpreter of a named behaviour."""
    python = tmp_path / "python"
    python.write_text(FAKE_PYTHON.format(python=sys.executable), encoding="utf-8")
    python.chmod(0o755)

    def make(behaviour: str, *, name: str = "fake", **overrides: object) -> EngineServer:
        pids = str(tmp_path / f"{name}.pids")
        arguments: dict[str, object] = {
            "name": name,
            "arguments": ["the-model", "--dtype=bfloat16"],
            "log_path": tmp_path / "logs" / f"{name}.log",
            "environment": {"FAKE_BEHAVIOUR": behaviour, "FAKE_PIDS": pids},
            "startup_timeout_seconds": HANGS_AFTER_SECONDS,
            "stop_grace_seconds": 0.5,
        }
        return EngineServer(**({"python": python} | arguments | overrides))  # type: ignore[arg-type]

    return make


def process_ids(tmp_path: Path, name: str = "fake") -> list[int]:
    """Wait for the ids of the server's process and its child."""
    path = tmp_path / f"{name}.pids"
    wait_until(lambda: path.exists() and len(path.read_text().split()) == 2)
    return [int(pid) for pid in path.read_text().split()]


def is_running(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def wait_until(condition: Callable[[], bool], timeout_seconds: float = HANGS_AFTER_SECONDS) -> None:
    deadline_seconds = time.monotonic() + timeout_seconds
    while not condition():
        assert time.monotonic() < deadline_seconds, "condition not met in time"
        time.sleep(0.02)


def assert_all_ended(pids: list[int]) -> None:
    assert len(pids) == 2, "the fake did not start its child: the test would prove nothing"
    wait_until(lambda: not any(is_running(pid) for pid in pids))


def test_healthy_server_serves_and_leaves_nothing(make_server: MakeServer, tmp_path: Path) -> None:
    lines: list[str] = []
    server = make_server("healthy", progress=lines.append)
    with serve_together([server]):
        pids = process_ids(tmp_path)
        assert all(is_running(pid) for pid in pids)
        assert server.base_url == f"http://127.0.0.1:{server.port}"
        with pytest.raises(RuntimeError, match="already running"):
            server.start()
        log = server.log_path.read_text()
        expected = f"serve the-model --dtype=bfloat16 --host 127.0.0.1 --port {server.port}"
        assert expected in log
        # The folder of the server's sockets is private, because who can open them can command it.
        (folder,) = re.findall(r"^sockets: (.*)$", log, re.MULTILINE)
        assert stat.S_IMODE(Path(folder).stat().st_mode) == 0o700
        assert len(Path(folder).name) < 12, "the address of a socket has 104 bytes"
    assert_all_ended(pids)
    assert not Path(folder).exists()
    assert "ready after" in lines[-1]


def test_a_server_that_ends_early_shows_its_log(make_server: MakeServer) -> None:
    started_seconds = time.monotonic()
    server = make_server("dies")
    with pytest.raises(EngineUnavailableError) as caught, serve_together([server]):
        pytest.fail("entered a server that died")
    waited_seconds = time.monotonic() - started_seconds
    assert waited_seconds < HANGS_AFTER_SECONDS, "waited for the deadline of a dead server"
    message = str(caught.value)
    assert "ended before it was ready" in message
    assert "RuntimeError: no such model" in message
    assert "exited with code 3" in message
    assert "draftworth compare --baseline URL" in message


def test_server_never_healthy_is_ended_at_the_deadline(
    make_server: MakeServer, tmp_path: Path
) -> None:
    server = make_server("never healthy", startup_timeout_seconds=0.6)
    server.start()
    pids = process_ids(tmp_path)  # first of all: a busy machine may take longer than the deadline
    with pytest.raises(EngineUnavailableError, match=r"not ready 0\.6 s after"):
        wait_until(server.is_ready)
    server.stop()
    assert_all_ended(pids)


def test_a_server_that_ignores_sigterm_is_killed(make_server: MakeServer, tmp_path: Path) -> None:
    server = make_server("ignores SIGTERM")
    with serve_together([server]):
        pids = process_ids(tmp_path)
    assert_all_ended(pids)
    assert "did not end within 0.5 s" in server.log_path.read_text()


def test_servers_end_when_their_parent_is_killed(make_server: MakeServer, tmp_path: Path) -> None:
    parent = os.fork()
    if parent == 0:  # stands for the rehearsal; killed without a chance to clean up
        make_server("healthy").start()
        time.sleep(HANGS_AFTER_SECONDS)
        os._exit(0)
    pids = process_ids(tmp_path)
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    assert_all_ended(pids)


def children_of(pid: int) -> set[int]:
    return {*map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())}


def test_a_killed_second_guard_is_started_again(make_server: MakeServer, tmp_path: Path) -> None:
    server = make_server("healthy")
    server.start()
    try:
        pids = process_ids(tmp_path)
        assert server._guard is not None
        guard = server._guard.pid
        (second,) = children_of(guard) - {*pids}
        os.kill(second, signal.SIGKILL)
        wait_until(lambda: bool(children_of(guard) - {*pids, second}))
        os.kill(guard, signal.SIGKILL)
        assert_all_ended(pids)
    finally:
        server.stop()


def test_servers_together_all_end_when_one_dies(make_server: MakeServer, tmp_path: Path) -> None:
    servers = [make_server("healthy", name="baseline"), make_server("dies", name="speculative")]
    with pytest.raises(EngineUnavailableError, match="speculative"), serve_together(servers):
        pytest.fail("entered although one server died")
    assert_all_ended(process_ids(tmp_path, "baseline"))


def test_a_signalled_rehearsal_ends_its_engines(make_server: MakeServer, tmp_path: Path) -> None:
    """SIGTERM is tested here; tests/draftworth/cli/test_signals.py tests other signals."""
    python = make_server("never healthy").python
    engine = tmp_path / "engine"
    (engine / "bin").mkdir(parents=True)
    (engine / "bin" / "python").symlink_to(python)
    (engine / STAMP_NAME).write_text(_stamp_text(engine, EnginePins()))
    argv = [sys.executable, "-m", "draftworth", "rehearse", "--engine", str(engine)]
    fake = {"FAKE_BEHAVIOUR": "never healthy", "FAKE_PIDS": str(tmp_path / "fake.pids")}
    rehearsal = subprocess.Popen(
        [*argv, "--out", str(tmp_path / "runs")],
        cwd=ROOT,
        env=os.environ | fake,
        stderr=subprocess.PIPE,
        text=True,
    )
    pids = process_ids(tmp_path)
    rehearsal.send_signal(signal.SIGTERM)
    _, errors = rehearsal.communicate(timeout=HANGS_AFTER_SECONDS)
    assert rehearsal.returncode == 1
    assert errors.splitlines()[-1] == "draftworth: interrupted"
    assert "Traceback" not in errors
    assert_all_ended(pids)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            ["starting", "pid=7 ValueError: no room", *["at frame"] * 30, "RuntimeError: x", "bye"],
            ["pid=7 ValueError: no room", "...", "at frame", "RuntimeError: x", "bye"],
        ),
        (["starting", "", "ValueError: no", "bye"], ["starting", "ValueError: no", "bye"]),
    ],
    ids=["the first exception comes before", "it is among the last lines"],
)
def test_a_logs_end_shows_the_first_exception(
    tmp_path: Path, lines: list[str], expected: list[str]
) -> None:
    path = tmp_path / "engine.log"
    path.write_text("\n".join(lines))
    assert read_log_tail(path, lines=3) == expected
    assert read_log_tail(tmp_path / "none.log") == []


def test_a_logs_end_has_no_secret_of_ours(tmp_path: Path) -> None:
    """The engine gets this process's variables, and `run.json` may quote its log."""
    untrusted.hide_secret("HF_TOKEN", "hf_ZqWmVtLxBnRdKyFh")
    (tmp_path / "log").write_text(
        "ValueError: hf_ZqWmVtLxBnRdKyFh is not valid\n", encoding="utf-8"
    )
    assert read_log_tail(tmp_path / "log") == ["ValueError: [HF_TOKEN] is not valid"]


def endpoint(name: str) -> Endpoint:
    return Endpoint(
        variant=name, base_url="", max_tokens_per_step=1, is_baseline=False, slot=0, server=name
    )


@pytest.fixture
def manager(make_server: MakeServer) -> Iterator[Callable[..., ProcessServers]]:
    made: list[EngineServer] = []

    def make(**behaviours: str) -> ProcessServers:
        by_name = {name: make_server(how, name=name) for name, how in behaviours.items()}
        made.extend(by_name.values())
        return ProcessServers(by_name=by_name)

    yield make
    for server in made:
        server.stop()


def run_only(servers: ProcessServers, *names: str, restart: bool = False) -> None:
    asyncio.run(servers.run_only([endpoint(name) for name in names], restart=restart))


def running(folder: Path, name: str) -> bool:
    return all(is_running(pid) for pid in process_ids(folder, name))


def test_what_is_wanted_runs_and_nothing_else(
    manager: Callable[..., ProcessServers], tmp_path: Path
) -> None:
    servers = manager(a="healthy", b="healthy")

    run_only(servers, "a")
    assert servers.by_name["a"].is_ready()
    first = process_ids(tmp_path, "a")
    run_only(servers, "a", "b")

    assert process_ids(tmp_path, "a") == first, "was started again"
    assert running(tmp_path, "b")
    run_only(servers, "b")
    assert_all_ended(first)
    assert running(tmp_path, "b")


def test_a_restart_starts_those_that_ran_as_well(
    manager: Callable[..., ProcessServers], tmp_path: Path
) -> None:
    servers = manager(a="healthy")
    run_only(servers, "a")
    before = process_ids(tmp_path, "a")

    run_only(servers, "a", restart=True)

    assert_all_ended(before)
    assert running(tmp_path, "a")
    assert process_ids(tmp_path, "a") != before
