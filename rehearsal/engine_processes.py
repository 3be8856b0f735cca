"""The engine of a rehearsal: real vLLM servers on CPU, run as child processes.

In a cluster a run scales Deployments; here it starts and stops processes. A slot (one server's
devices) is only a number here, because all servers share this machine's cores.
"""

import asyncio
import http.client
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from draftworth.errors import DraftworthError
from draftworth.measuring.run_specification import Endpoint
from draftworth.measuring.server_lifecycle import Progress
from draftworth.untrusted import without_secrets

HOST = "127.0.0.1"  # servers of a rehearsal can be reached only from this machine
SOCKETS_VARIABLE = "VLLM_RPC_BASE_PATH"
PROGRESS_EVERY_SECONDS = 5.0
POLL_SECONDS = 0.1
NEXT_STEP = (
    "remove the engine's folder (rm -rf .engine-venv) and run again, or measure servers of your "
    "own: draftworth compare --baseline URL --variant NAME=URL ..."
)

_GUARD = Path(__file__).with_name("process_guard.py")

# The last line of a Python traceback, also with a logger's prefix before it.
_EXCEPTION = re.compile(r"\b[A-Za-z_][\w.]*(Error|Exception): .")


class EngineUnavailableError(DraftworthError):
    """The engine or its models could not be installed, or a server did not become ready."""

    def __init__(self, what: str, *, log_path: Path, next_step: str = NEXT_STEP) -> None:
        self.log_path = log_path
        self.log_tail = read_log_tail(log_path)
        tail = "".join(f"\n    {line}" for line in self.log_tail) or "\n    (the log is empty)"
        super().__init__(f"{what}\n  last lines of {log_path}:{tail}\n  next step: {next_step}")


def read_log_tail(log_path: Path, *, lines: int = 15) -> list[str]:
    """Return the last `lines` non-empty lines of a log, without secrets; none if it is unreadable.

    If the log's first exception is in an earlier line, that line comes first, as the likely cause.
    """
    try:
        text = log_path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    written = [line.rstrip() for line in without_secrets(text).splitlines() if line.strip()]
    before, tail = written[:-lines], written[-lines:]
    first = next((line for line in before if _EXCEPTION.search(line)), None)
    return [first, "...", *tail] if first else tail


def _free_port() -> int:
    with socket.create_server((HOST, 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


@dataclass(kw_only=True)
class EngineServer:
    """One ``vllm serve`` process on a free loopback port.

    python: interpreter of the engine's environment, as `install_engine` returns it.
    name: the server's name in progress lines.
    arguments: arguments of ``vllm serve``, without host and port.
    environment: environment variables in addition to those of this process.
    log_path: file for the server's output, which is overwritten.
    startup_timeout_seconds: the longest time from `start` until the server is healthy.
    stop_grace_seconds: time between SIGTERM and SIGKILL.
    """

    python: Path
    name: str
    arguments: Sequence[str]
    environment: Mapping[str, str]
    log_path: Path
    progress: Progress = lambda _: None
    startup_timeout_seconds: float = 600.0
    stop_grace_seconds: float = 5.0
    port: int = field(default_factory=_free_port)
    _sockets: str = field(init=False, default="")
    _guard: subprocess.Popen[bytes] | None = field(init=False, default=None)
    _started_at_seconds: float = field(init=False, default=0.0)
    _next_line_seconds: float = field(init=False, default=PROGRESS_EVERY_SECONDS)

    @property
    def base_url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def start(self) -> None:
        if self._guard is not None:
            raise RuntimeError(f"{self.name} is already running")
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        self._started_at_seconds = time.monotonic()
        self._next_line_seconds = PROGRESS_EVERY_SECONDS
        guard = [sys.executable, "-I", "-S", str(_GUARD), str(self.stop_grace_seconds)]
        engine = [str(self.python), "-m", "vllm.entrypoints.cli.main", "serve", *self.arguments]
        # A user who can open vLLM's sockets can command the server, so they are in a private
        # folder. Its name is short: a socket's path has at most 104 bytes, and temporary paths of
        # macOS are long.
        self._sockets = tempfile.mkdtemp(prefix="dw-")
        sockets = {SOCKETS_VARIABLE: self._sockets}
        with self.log_path.open("wb") as log:
            # In its own session the server gets no Ctrl-C; this process gets it and stops the
            # server.
            self._guard = subprocess.Popen(  # noqa: S603 (our own command line)
                [*guard, *engine, "--host", HOST, "--port", str(self.port)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self.environment, **sockets},
                start_new_session=True,
            )

    def is_ready(self) -> bool:
        """Return whether the server is healthy; EngineUnavailableError: it ended or is too slow."""
        elapsed_seconds = time.monotonic() - self._started_at_seconds
        if self._is_healthy():
            self.progress(f"{self.name}: engine ready after {elapsed_seconds:.1f} s")
            return True
        if self._guard is None or self._guard.poll() is not None:
            raise self._unavailable("ended before it was ready")
        if elapsed_seconds > self.startup_timeout_seconds:
            raise self._unavailable(f"not ready {self.startup_timeout_seconds:g} s after start")
        if elapsed_seconds > self._next_line_seconds:
            self.progress(f"{self.name}: engine starting, {elapsed_seconds:.0f} s")
            self._next_line_seconds = elapsed_seconds + PROGRESS_EVERY_SECONDS
        return False

    def stop(self) -> None:
        guard, self._guard = self._guard, None
        if guard is None:
            return
        try:
            with suppress(subprocess.TimeoutExpired):  # communicate closes the pipe, then waits
                guard.communicate(timeout=self.stop_grace_seconds + 2.0)
        finally:
            # An error means that the process group has ended (macOS: EPERM for a group of zombies).
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(guard.pid, signal.SIGKILL)
            guard.wait()
            shutil.rmtree(self._sockets, ignore_errors=True)

    def _is_healthy(self) -> bool:
        with (
            suppress(OSError, http.client.HTTPException),
            closing(http.client.HTTPConnection(HOST, self.port, timeout=2.0)) as connection,
        ):
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        return False

    def _unavailable(self, what: str) -> EngineUnavailableError:
        return EngineUnavailableError(f"the engine for {self.name} {what}", log_path=self.log_path)


@dataclass(kw_only=True)
class ProcessServers:
    """Starts and stops servers, as a run demands.

    by_name: all servers, by the names in `Endpoint.server`. running: the names of those that run.
    """

    by_name: Mapping[str, EngineServer]
    running: set[str] = field(default_factory=set)

    async def run_only(self, endpoints: Sequence[Endpoint], *, restart: bool) -> None:
        wanted = {endpoint.server for endpoint in endpoints}
        leaving = set(self.running) if restart else self.running - wanted
        self.running -= leaving
        await asyncio.gather(*(asyncio.to_thread(self.by_name[name].stop) for name in leaving))
        await self.start(wanted - self.running)

    async def start(self, names: Set[str]) -> None:
        self.running |= names
        for name in sorted(names):
            self.by_name[name].start()
        for name in sorted(names):
            while not self.by_name[name].is_ready():  # noqa: ASYNC110 (another process gets ready)
                await asyncio.sleep(POLL_SECONDS)


@contextmanager
def process_servers(
    by_name: Mapping[str, EngineServer], first: Set[str]
) -> Iterator[ProcessServers]:
    """Start the servers named in `first`, and yield the manager of all; at the end, stop all.

    Raise EngineUnavailableError if a start fails.
    """
    servers = ProcessServers(by_name=by_name)
    with ExitStack() as stack:
        for server in by_name.values():
            stack.callback(server.stop)
        asyncio.run(servers.start(first))
        yield servers
