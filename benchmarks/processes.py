"""Child processes of a benchmark: bounded in time, ended with their children, and measured."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

POLL_SECONDS = 0.1
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class ProcessFailedError(Exception):
    """A child failed or took too long; the text ends with what it wrote."""


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A child that ended well.

    cpu_seconds: user and system time of the child and its descendants, start-up included: what the
        kernel charged to it (wait4), or the sum seen while polling where that is more, because
        descendants that nobody waited for are missing from the first.
    peak_mib: the largest sum of resident memory over the child and its descendants.
    """

    output: str
    cpu_seconds: float
    peak_mib: float
    seconds: float


def run_measured(
    command: Sequence[str | Path],
    *,
    folder: Path,
    timeout_seconds: float,
    environment: Mapping[str, str],
) -> Finished:
    """Run a command in a process group of its own; its output goes to files in `folder`."""
    started = time.monotonic()
    with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
        child = subprocess.Popen(
            [str(part) for part in command],
            cwd=folder,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        try:
            usage, peak_bytes, polled_seconds = _watch(child, started + timeout_seconds)
        finally:
            with suppress(ProcessLookupError):  # what it left behind
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    if child.returncode != 0:
        tail = (folder / "stderr").read_text(errors="replace").strip()[-1500:]
        how = "no end within the time" if child.returncode < 0 else f"exit {child.returncode}"
        raise ProcessFailedError(f"{how}: {tail}")
    return Finished(
        output=(folder / "stdout").read_text(),
        cpu_seconds=max(usage, polled_seconds),
        peak_mib=peak_bytes / 2**20,
        seconds=time.monotonic() - started,
    )


def _watch(child: subprocess.Popen[bytes], deadline: float) -> tuple[float, int, float]:
    """Return (CPU seconds of wait4, peak bytes, CPU seconds seen) of a child when it ends."""
    peak_bytes = 0
    seen: dict[int, float] = {}
    while True:
        pid, status, usage = os.wait4(child.pid, os.WNOHANG)
        if pid:
            child.returncode = os.waitstatus_to_exitcode(status)
            return usage.ru_utime + usage.ru_stime, peak_bytes, sum(seen.values())
        total = 0
        for member in family(child.pid):
            resident, cpu_seconds = _consumption(member)
            total += resident
            seen[member] = max(seen.get(member, 0.0), cpu_seconds)
        peak_bytes = max(peak_bytes, total)
        if time.monotonic() > deadline:
            os.killpg(child.pid, signal.SIGKILL)
            deadline = float("inf")
        time.sleep(POLL_SECONDS)


def family(pid: int) -> list[int]:
    """Return a process and its descendants, as far as they are still linked to it."""
    children: list[str] = []
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                children += (thread / "children").read_text().split()
    return [pid, *(member for child in children for member in family(int(child)))]


def _consumption(pid: int) -> tuple[int, float]:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (OSError, IndexError):
        return 0, 0.0
    return pages * _PAGE_BYTES, (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND
