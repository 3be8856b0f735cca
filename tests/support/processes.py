"""Kills a process and all processes that it started, as the end of a container does."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path


def end_family(process: subprocess.Popen[bytes] | subprocess.Popen[str]) -> None:
    """Kill the process and all its descendants, even those in sessions of their own."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGSTOP)  # so that it cannot start processes that are not found
    for pid in [*descendants(process.pid), process.pid]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def descendants(pid: int) -> Iterator[int]:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(stat.read_text(errors="replace").rpartition(")")[2].split()[1]) == pid:
                child = int(stat.parent.name)
                yield from (child, *descendants(child))
