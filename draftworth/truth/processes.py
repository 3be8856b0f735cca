"""Runs a load generator with a time limit, and measures its CPU time and memory (on Linux)."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from draftworth.errors import DraftworthError, UserInputError
from draftworth.untrusted import REASON_CHARACTERS, one_line

POLL_SECONDS = 0.1
STDOUT = "stdout"
"""The file with the standard output of a child process."""
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, kw_only=True)
class Finished:
    """The result of a child process that exited with 0.

    cpu_seconds: user and system time of the child and its descendants, including start-up. It is
        the larger of two figures: that of wait4, which lacks descendants that no process has waited
        for, and the sum of the times that were polled.
    peak_mib: the largest resident memory of the child and its descendants together.
    """

    cpu_seconds: float
    peak_mib: float
    seconds: float


def run_measured(
    command: Sequence[str | Path],
    *,
    folder: Path,
    timeout_seconds: float,
    environment: Mapping[str, str] | None = None,
) -> Finished:
    """Run a command in its own process group, with its output in files in `folder`; raise
    UserInputError if it cannot be started, DraftworthError if it failed or exceeded its time."""
    started = time.monotonic()
    with (folder / STDOUT).open("wb") as out, (folder / "stderr").open("wb") as err:
        try:
            child = subprocess.Popen(  # noqa: S603 (what the user asked to run)
                [str(part) for part in command],
                env={**os.environ, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise UserInputError(
                f"COMMAND: given {one_line(str(command[0]))!r}, which cannot be started: {error}; "
                "allowed: a program on PATH, or the path of one"
            ) from error
        try:
            usage, peak_bytes, polled_seconds = _watch(child, started + timeout_seconds)
        finally:
            with suppress(ProcessLookupError):  # end descendants that still run
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    if child.returncode != 0:
        late = child.returncode == -signal.SIGKILL
        how = f"no end within {timeout_seconds:g} s" if late else f"exit {child.returncode}"
        raise DraftworthError(f"{how}: {_end_of(folder / 'stderr')}")
    return Finished(
        cpu_seconds=max(usage, polled_seconds),
        peak_mib=peak_bytes / 2**20,
        seconds=time.monotonic() - started,
    )


def _end_of(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - REASON_CHARACTERS))
        return one_line(file.read().decode(errors="replace"))


def _watch(child: subprocess.Popen[bytes], deadline: float) -> tuple[float, int, float]:
    """Wait for the child; return (CPU seconds of wait4, peak bytes, CPU seconds as polled)."""
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
    """Return the ids of a process and its descendants, without those whose parent has ended."""
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
