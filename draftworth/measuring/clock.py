"""Unix time that nobody sets while it is counted: anchored once, then run by the monotonic clock.

The time of a machine may jump by hours (a wrong zone put right, the first answer of an NTP server).
Durations, deadlines and throughput are differences of times, so all of a run come from this clock.
What it does not count is the time that a machine was suspended.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_NANOSECONDS = 1_000_000_000
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

# Seconds since 1970, UTC.
WallClock = Callable[[], float]


@dataclass(frozen=True)
class UnixClock:
    """The Unix time at which `time.perf_counter_ns` was 0, and the machine where it was.

    Pickled into another process of the same machine it goes on with the same anchor, for the
    monotonic clock is the machine's (CLOCK_MONOTONIC); elsewhere it is that machine's own.
    """

    anchor_ns: int
    machine: str

    def __call__(self) -> float:
        """Now."""
        return (self.anchor_ns + time.perf_counter_ns()) / _NANOSECONDS

    def __reduce__(self) -> tuple[Callable[[int, str], UnixClock], tuple[int, str]]:
        return _here, (self.anchor_ns, self.machine)


def _here(anchor_ns: int, machine: str) -> UnixClock:
    same = machine and machine == unix_clock.machine
    return UnixClock(anchor_ns, machine) if same else unix_clock


def _machine() -> str:
    """This machine since it was started; empty where the system does not say."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


unix_clock = UnixClock(time.time_ns() - time.perf_counter_ns(), _machine())
"""The clock of this process."""
