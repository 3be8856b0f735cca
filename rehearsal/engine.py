"""The real engine of a rehearsal: vLLM servers on CPU, run as child processes.

`install_engine` (from `rehearsal.install`) gives the interpreter, `EngineServer` runs one OpenAI
API server of it, `serve_together` runs several at once. Failures are
`EngineUnavailableError`.
"""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from rehearsal.errors import EngineUnavailableError, read_log_tail
from rehearsal.install import install_engine

__all__ = [
    "EngineServer",
    "EngineUnavailableError",
    "install_engine",
    "serve_together",
]

HOST = "127.0.0.1"  # a rehearsal listens to this machine only
# A first start compiles bytecode; a server that dies is noticed at once, so patience costs nothing.
STARTUP_TIMEOUT_SECONDS = 600.0
STOP_GRACE_SECONDS = 5.0
POLL_SECONDS = 0.1
PROGRESS_EVERY_SECONDS = 5.0

_GUARD = Path(__file__).with_name("guard.py")

ProgressCallback = Callable[[str], None]


class EngineServer:
    """One ``vllm serve`` process; a context manager.

    Entering starts the server and waits until it is healthy; leaving ends it with every process
    it started. `start` and `wait_until_healthy` are separate so that several can start at once.

    Args:
        python: interpreter of the engine's environment (what `install_engine` returned).
        name: what progress lines call this server.
        arguments: of ``vllm serve``, as the dialect gives them; host and port are added.
        environment: variables on top of our own, as the dialect gives them.
        log_path: file for the server's output; overwritten.
        port: TCP port on the loopback interface; 0 picks a free one.
        progress: called with one line now and then while the server starts.
        startup_timeout_seconds: how long `wait_until_healthy` waits, counted from `start`.
        stop_grace_seconds: how long a server may take to end by itself before it is killed.
    """

    def __init__(
        self,
        python: Path,
        *,
        name: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        log_path: Path,
        port: int = 0,
        progress: ProgressCallback = lambda _: None,
        startup_timeout_seconds: float = STARTUP_TIMEOUT_SECONDS,
        stop_grace_seconds: float = STOP_GRACE_SECONDS,
    ) -> None:
        self.name = name
        self.port = port or _free_port()
        self.log_path = log_path
        self.startup_seconds: float | None = None
        self._command = [
            *(str(python), "-m", "vllm.entrypoints.cli.main", "serve", *arguments),
            *("--host", HOST, "--port", str(self.port)),
        ]
        self._environment = {**os.environ, **environment}
        self._progress = progress
        self._startup_timeout_seconds = startup_timeout_seconds
        self._stop_grace_seconds = stop_grace_seconds
        self._guard: subprocess.Popen[bytes] | None = None
        self._started_at_seconds = 0.0

    @property
    def base_url(self) -> str:
        """Root of the server, without a trailing slash or ``/v1``."""
        return f"http://{HOST}:{self.port}"

    def start(self) -> None:
        """Start the process and return at once; raises EngineUnavailableError if it cannot."""
        if self._guard is not None:
            raise RuntimeError(f"{self.name} is already running")
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        self._started_at_seconds = time.monotonic()
        guard = [sys.executable, "-I", "-S", str(_GUARD), str(self._stop_grace_seconds)]
        with self.log_path.open("wb") as log:
            # A session of its own: Ctrl-C reaches this process only, which then ends the server.
            self._guard = subprocess.Popen(  # noqa: S603 (our own command line)
                [*guard, *self._command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,
            )

    def wait_until_healthy(self) -> None:
        """Return when the server answers its health check.

        Raises:
            EngineUnavailableError: it ended early, or was not healthy before the deadline.
        """
        deadline_seconds = self._started_at_seconds + self._startup_timeout_seconds
        next_line_seconds = time.monotonic() + PROGRESS_EVERY_SECONDS
        while not self._is_healthy():
            now_seconds = time.monotonic()
            if self._guard is None or self._guard.poll() is not None:
                raise self._unavailable("ended before it was ready")
            if now_seconds > deadline_seconds:
                raise self._unavailable(
                    f"not ready {self._startup_timeout_seconds:g} s after start"
                )
            if now_seconds > next_line_seconds:
                elapsed_seconds = now_seconds - self._started_at_seconds
                self._progress(f"{self.name}: engine starting, {elapsed_seconds:.0f} s")
                next_line_seconds = now_seconds + PROGRESS_EVERY_SECONDS
            time.sleep(POLL_SECONDS)
        self.startup_seconds = time.monotonic() - self._started_at_seconds
        self._progress(f"{self.name}: engine ready after {self.startup_seconds:.1f} s")

    def stop(self) -> None:
        """End the server and every process it started; does nothing if it is not running."""
        guard, self._guard = self._guard, None
        if guard is None:
            return
        try:
            if guard.stdin is not None:
                guard.stdin.close()
            guard.wait(timeout=self._stop_grace_seconds + 2.0)
        except subprocess.TimeoutExpired:
            pass
        finally:
            _kill_group(guard)

    def __enter__(self) -> Self:
        try:
            self.start()
            self.wait_until_healthy()
        except BaseException:  # KeyboardInterrupt too: nothing may be left running
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _is_healthy(self) -> bool:
        connection = http.client.HTTPConnection(HOST, self.port, timeout=2.0)
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _unavailable(self, what: str) -> EngineUnavailableError:
        return EngineUnavailableError(
            f"the engine for {self.name} {what}",
            log_path=self.log_path,
            log_tail=read_log_tail(self.log_path),
        )


@contextmanager
def serve_together(servers: Sequence[EngineServer]) -> Iterator[None]:
    """Start all servers at once, wait until all are healthy, end all on leaving.

    Raises:
        EngineUnavailableError: one did not come up; the others are ended first.
    """
    with ExitStack() as stack:
        for server in servers:
            stack.callback(server.stop)
            server.start()
        for server in servers:
            server.wait_until_healthy()
        yield


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _kill_group(leader: subprocess.Popen[bytes]) -> None:
    # The group may be gone already (macOS answers EPERM for a group of zombies).
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader.pid, signal.SIGKILL)
    leader.wait()
