"""Runs vLLM as a child process, reads its log and health, and ends every process that it started.

Linux makes process 1 of a container the parent of every orphaned process. If this program is not
process 1, it adopts its orphaned descendants (`PR_SET_CHILD_SUBREAPER`). If it is killed, Linux
sends SIGTERM to vLLM; if it was process 1, the kernel ends all processes of the container.
"""

import ctypes
import os
import re
import signal
import subprocess
import threading
import time
import urllib.request
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from draftworth.child_processes import ending_with_parent
from draftworth.records.servers import LAST_LINES, last_lines

_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
_PIECE_BYTES = 64 * 1024
# How long to wait for killed orphans to end, and for the rest of the log after vLLM's end.
_PATIENCE_SECONDS = 5.0
# The time between two health checks.
HEALTH_PERIOD_SECONDS = 5.0
_HEALTH_TIMEOUT_SECONDS = 5.0
# How long vLLM may take to end after SIGTERM.
_GRACE_SECONDS = 30.0
# The most bytes that are kept of the last line while its newline has not arrived.
_LINE_BYTES = 4096
# neuronx-cc ends with exit code 70 at an internal error. With the same image and model, this can
# happen on one node and not on another (aws-neuron-sdk, issue 1369). The pattern finds the messages
# of vLLM Neuron, of NxD Inference and of Python's `subprocess`.
_COMPILER_FAILED = re.compile(
    rb"neuronx-cc\b[^\n]{0,2000}?"
    rb"(?:failed with|exit(?:ed with)?(?: status| code)?)(?: code)?[ :=]+70\b"
)
# An environment variable can forbid vLLM Neuron to compile a graph that its cache lacks. It then
# ends with this error:
# "RuntimeError: VLLM_NEURON_DISABLE_WARMUP_COMPILE: local compile cache miss for key ...".
_GRAPH_MISSED = re.compile(
    rb"Error\b[^\n]{0,2000}?(?:DISABLE_WARMUP_COMPILE|compil\w{0,9} cache miss)"
)


class LogTail:
    """The last lines of a log that arrives in pieces.

    compiler_failed: whether the log says that the compiler ended with exit code 70.
    graph_missed: whether the log says that a graph was not in the engine's cache.
    """

    def __init__(self) -> None:
        self.compiler_failed = False
        self.graph_missed = False
        self._lines: deque[bytes] = deque(maxlen=LAST_LINES)
        self._rest = b""
        self._lock = threading.Lock()

    def feed(self, data: bytes) -> None:
        """Add the next piece of the log, which may end in the middle of a line."""
        text = self._rest + data
        if not self.compiler_failed and b"neuronx-cc" in text:
            self.compiler_failed = _COMPILER_FAILED.search(text) is not None
        if not self.graph_missed and b"Error" in text:
            self.graph_missed = _GRAPH_MISSED.search(text) is not None
        *ended, rest = text.split(b"\n")
        self._rest = rest[-_LINE_BYTES:]
        with self._lock:
            self._lines.extend(ended[-LAST_LINES:])

    def note(self, line: str) -> None:
        with self._lock:
            self._lines.append(line.encode())

    def lines(self) -> tuple[str, ...]:
        with self._lock:
            kept = (*self._lines, *([self._rest] if self._rest else []))
        # A progress bar overwrites its line many times, so only its last text is kept.
        last_texts = (line.rstrip(b"\r").rpartition(b"\r")[2] for line in kept)
        return last_lines(tuple(line.decode("utf-8", "replace") for line in last_texts))


def adopt_orphans() -> None:
    """Make orphaned descendants of this process its children."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class ServerProcess:
    """One run of a command as a child process. The main thread must call `wait` once."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], tail: LogTail
    ) -> None:
        """Start the command as the leader of its own process group; raise OSError on failure.

        Call this in the main thread, because Linux ends the command when the calling thread ends.
        stdout and stderr go into one pipe, in order, as in a container's log.
        tail: keeps the last lines of both.
        """
        self.ended = threading.Event()
        self._tail = tail
        reading, writing = os.pipe()
        try:
            self._process = subprocess.Popen(  # noqa: S603 (the pod's own command)
                list(command),
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=writing,
                stderr=writing,
                start_new_session=True,
                # SIGTERM, because vLLM then ends its engine core and workers.
                preexec_fn=ending_with_parent(signal.SIGTERM),
            )
        except OSError:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        self._reader = threading.Thread(target=self._pass_on, args=(reading,), daemon=True)
        self._reader.start()

    def wait(self) -> int:
        """Wait until the command has ended, then kill the processes that it leaves behind.

        Return its exit code, or 128 + the number of the signal that ended it. During the wait,
        orphaned processes are reaped and signal handlers run.
        """
        while True:
            pid, status = os.waitpid(-1, 0)
            if pid == self._process.pid:
                break
        code = self._process.returncode = os.waitstatus_to_exitcode(status)
        self.ended.set()
        self.signal(signal.SIGKILL)
        _end_orphans()
        # A process that left vLLM's process group and still runs keeps the pipe of the log open, so
        # the wait for the pipe's end has a limit.
        self._reader.join(_PATIENCE_SECONDS)
        return code if code >= 0 else 128 - code

    def signal(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def end(self, grace_seconds: float = _GRACE_SECONDS) -> None:
        """Send SIGTERM, and SIGKILL if the command still runs `grace_seconds` later.

        While this waits, another thread must be in `wait`, which notices the end of the command.
        """
        self.signal(signal.SIGTERM)
        if not self.ended.wait(grace_seconds):
            self.signal(signal.SIGKILL)

    def _pass_on(self, reading: int) -> None:
        """Copy the command's output to the `LogTail` and to stdout, until the output ends.

        An error of stdout is ignored: if nobody read the pipe, the command would wait when it is
        full. reading: the file descriptor from which the pipe is read.
        """
        while data := os.read(reading, _PIECE_BYTES):
            self._tail.feed(data)
            with suppress(OSError):
                while data:
                    data = data[os.write(1, data) :]
        os.close(reading)


def is_healthy(url: str) -> bool:
    """Return whether `url` answers 200; proxies in environment variables are not used."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=_HEALTH_TIMEOUT_SECONDS) as answer:
            return bool(answer.status == 200)
    except (OSError, ValueError):  # ValueError: the answer is not HTTP
        return False


def _end_orphans() -> None:
    """Kill and reap the remaining child processes, which may hold the port or the devices."""
    until = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < until:
        for child in _children():
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.05)


def _children() -> Iterator[int]:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # "pid (name) state parent ...", where the name may have any character.
            parent = stat.read_text(errors="replace").rpartition(")")[2].split()[1]
            if int(parent) == os.getpid():
                yield int(stat.parent.name)
