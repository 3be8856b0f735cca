"""The end of a server's log, kept while the log is passed on."""

from __future__ import annotations

import re
import threading
from collections import deque

from draftworth.records.server_state import LAST_LINES, last_lines

# Of a line that has not ended; a record keeps less.
_LINE_BYTES = 4096
# neuronx-cc ends with 70 where it fails by itself, and did so on one node and not on the next with
# the same image and model (aws-neuron-sdk, issue 1369). In the words of vLLM Neuron, of NxD
# Inference, and of Python where it was called as a program.
_COMPILER_FAILED = re.compile(
    rb"neuronx-cc\b[^\n]{0,2000}?"
    rb"(?:failed with|exit(?:ed with)?(?: status| code)?)(?: code)?[ :=]+70\b"
)


class LogTail:
    """Takes a log piece by piece.

    `compiler_failed`: it says that the compiler ended with exit code 70.
    """

    def __init__(self) -> None:
        self.compiler_failed = False
        self._lines: deque[bytes] = deque(maxlen=LAST_LINES)
        self._rest = b""
        self._lock = threading.Lock()

    def feed(self, data: bytes) -> None:
        """The next piece; lines may end anywhere."""
        text = self._rest + data
        if not self.compiler_failed and b"neuronx-cc" in text:
            self.compiler_failed = _COMPILER_FAILED.search(text) is not None
        *ended, rest = text.split(b"\n")
        self._rest = rest[-_LINE_BYTES:]
        with self._lock:
            self._lines.extend(ended[-LAST_LINES:])

    def note(self, line: str) -> None:
        """A line that the server did not write."""
        with self._lock:
            self._lines.append(line.encode())

    def lines(self) -> tuple[str, ...]:
        """The last lines, printable."""
        with self._lock:
            kept = (*self._lines, *([self._rest] if self._rest else []))
        return last_lines(tuple(_shown(line) for line in kept))


def _shown(line: bytes) -> str:
    """Of a line that was written over and over, as progress bars are, what stood there last."""
    shown = line.rstrip(b"\r").rpartition(b"\r")[2]
    return shown.decode("utf-8", "replace")
