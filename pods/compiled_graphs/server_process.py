"""vLLM as a child process: its log, its health, its signals, and the end of all that it started.

As process 1 of its container this program becomes the parent of every orphan. Elsewhere it asks for
the orphans of its own family (`PR_SET_CHILD_SUBREAPER`), so that it behaves the same.
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

from draftworth.records.servers import LAST_LINES, last_lines

_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
_PIECE_BYTES = 64 * 1024
# How long orphans may take to end, and the log of a child that has ended to arrive.
_PATIENCE_SECONDS = 5.0
# The time between two looks at its health.
HEALTH_PERIOD_SECONDS = 5.0
_HEALTH_TIMEOUT_SECONDS = 5.0
# How long vLLM may take to end after SIGTERM.
_GRACE_SECONDS = 30.0
# Kept of a line that has not ended; a record keeps less.
_LINE_BYTES = 4096
# neuronx-cc ends with 70 where it fails by itself, and did so on one node and not on the next with
# the same image and model (aws-neuron-sdk, issue 1369). In the words of vLLM Neuron, of NxD
# Inference, and of Python where it was called as a program.
_COMPILER_FAILED = re.compile(
    rb"neuronx-cc\b[^\n]{0,2000}?"
    rb"(?:failed with|exit(?:ed with)?(?: status| code)?)(?: code)?[ :=]+70\b"
)


class LogTail:
    """The end of a log that comes piece by piece.

    compiler_failed: the log says that the compiler ended with exit code 70.
    """

    def __init__(self) -> None:
        self.compiler_failed = False
        self._lines: deque[bytes] = deque(maxlen=LAST_LINES)
        self._rest = b""
        self._lock = threading.Lock()

    def feed(self, data: bytes) -> None:
        """Take the next piece, which may end in the middle of a line."""
        text = self._rest + data
        if not self.compiler_failed and b"neuronx-cc" in text:
            self.compiler_failed = _COMPILER_FAILED.search(text) is not None
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
        # Of a line that was overwritten many times, as by a progress bar, its last text.
        shown = (line.rstrip(b"\r").rpartition(b"\r")[2] for line in kept)
        return last_lines(tuple(line.decode("utf-8", "replace") for line in shown))


def adopt_orphans() -> None:
    """Have orphans of this family become children of this process."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class ServerProcess:
    """One run of a command. The main thread waits for it, once."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], tail: LogTail
    ) -> None:
        """Start it, as the leader of a group of its own; raises OSError.

        Both of its streams become one, in order, as a container's log is one.
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
            )
        except OSError:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        self._reader = threading.Thread(target=self._pass_on, args=(reading,), daemon=True)
        self._reader.start()

    def wait(self) -> int:
        """Wait until it and all that it started have ended; return its exit code or 128 + signal.

        Meanwhile orphans are reaped and signal handlers run.
        """
        while True:
            pid, status = os.waitpid(-1, 0)
            if pid == self._process.pid:
                break
        code = self._process.returncode = os.waitstatus_to_exitcode(status)
        self.ended.set()
        self.signal(signal.SIGKILL)
        _end_orphans()
        # A process that left the group and still lives holds the pipe: nobody waits for it.
        self._reader.join(_PATIENCE_SECONDS)
        return code if code >= 0 else 128 - code

    def signal(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def end(self, grace_seconds: float = _GRACE_SECONDS) -> None:
        """Ask it to end, then kill it. The thread that waits must not call this."""
        self.signal(signal.SIGTERM)
        if not self.ended.wait(grace_seconds):
            self.signal(signal.SIGKILL)

    def _pass_on(self, reading: int) -> None:
        """Read as fast as it writes, even where nobody reads the log."""
        while data := os.read(reading, _PIECE_BYTES):
            self._tail.feed(data)
            with suppress(OSError):
                while data:
                    data = data[os.write(1, data) :]
        os.close(reading)


def is_healthy(url: str) -> bool:
    """Return whether the server of this pod answers 200, without a proxy of the environment."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=_HEALTH_TIMEOUT_SECONDS) as answer:
            return bool(answer.status == 200)
    except (OSError, ValueError):  # ValueError: an answer that is no HTTP
        return False


def _end_orphans() -> None:
    """Kill and reap the rest of the family, which may hold the port or the devices."""
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
            # "pid (name) state parent ...", where a name may hold anything.
            parent = stat.read_text(errors="replace").rpartition(")")[2].split()[1]
            if int(parent) == os.getpid():
                yield int(stat.parent.name)
