"""A clock that never jumps, and the reasons why a request's timing cannot be trusted.

A machine's time may jump by hours (the first answer of an NTP server), so all times of a run come
from `unix_clock`. A client that shares its machine with a busy engine waits on the run queue, and
then reads everything at once; Linux counts the waiting time (`/proc/thread-self/schedstat`, second
field, nanoseconds; kernel documentation "Scheduler Statistics"). It does not count the time of a
stopped process (SIGSTOP, Ctrl-Z), so stops are counted by the signal that ends them, SIGCONT.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

_NANOSECONDS = 1_000_000_000
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

# Seconds since 1970, UTC.
WallClock = Callable[[], float]


@dataclass(frozen=True)
class UnixClock:
    """Gives Unix time in seconds: (`anchor_ns` + `time.perf_counter_ns()`) / 1e9.

    A clock that is pickled into another process of the same `machine` keeps its `anchor_ns`,
    because all processes of a machine share the monotonic clock (CLOCK_MONOTONIC). On another
    machine it is replaced by the clock of that machine.
    """

    anchor_ns: int
    machine: str

    def __call__(self) -> float:
        return (self.anchor_ns + time.perf_counter_ns()) / _NANOSECONDS

    def __reduce__(self) -> tuple[Callable[[int, str], UnixClock], tuple[int, str]]:
        return _here, (self.anchor_ns, self.machine)


def _here(anchor_ns: int, machine: str) -> UnixClock:
    same = machine and machine == unix_clock.machine
    return UnixClock(anchor_ns, machine) if same else unix_clock


def _machine() -> str:
    """Return an id of this machine, new at every boot; empty if the system has no such id."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


unix_clock = UnixClock(time.time_ns() - time.perf_counter_ns(), _machine())
"""The clock of this process."""


_SCHEDSTAT = "/proc/thread-self/schedstat"
_SCHEDSTAT_BYTES = 100  # three numbers of 20 digits at most

# A request is excluded if the client waited for a CPU core longer than this share of TTFT or of the
# decoding time.
MAX_WAIT_SHARE = 0.05

# If the wall clock moves by this much against the monotonic clock, the machine slept or its clock
# was set.
_SLEEP_NS = _NANOSECONDS

WaitReader = Callable[[], int | None]


def run_queue_wait_ns() -> int | None:
    """Return how long (ns) the calling thread has ever waited for a CPU core; None: not counted."""
    try:
        # Each request reads this three times, and `Path.read_text` would take twice as long.
        with open(_SCHEDSTAT, "rb", buffering=0) as file:
            return int(file.read(_SCHEDSTAT_BYTES).split()[1])
    except (OSError, ValueError, IndexError):
        return None


class _Stops:
    count = 0

    def continued(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1


_stops = _Stops()


class Watch:
    """Notices a stop of this process, or a sleep of its machine, from when the object is made.

    While a machine sleeps, only its wall clock goes on. Stops are counted only after the main
    thread has made a `Watch`, because only the main thread may set a signal handler.
    """

    def __init__(self) -> None:
        in_main_thread = threading.current_thread() is threading.main_thread()
        if in_main_thread and signal.getsignal(signal.SIGCONT) is signal.SIG_DFL:
            signal.signal(signal.SIGCONT, _stops.continued)
        self._stops = _stops.count
        self._apart_ns = time.time_ns() - time.perf_counter_ns()

    @property
    def interruption(self) -> str:
        """Why the client did not run for some time, in words; empty if no reason is known."""
        if _stops.count > self._stops:
            return "client was stopped and continued while the answer came"
        if abs(time.time_ns() - time.perf_counter_ns() - self._apart_ns) >= _SLEEP_NS:
            return "the machine slept, or its clock was set, while the answer came"
        return ""


def raise_scheduling_class() -> str:
    """Ask for real-time scheduling of the calling thread; return, in words, the class that it has.

    The client sleeps in epoll nearly all the time, so it takes hardly any CPU time from a server on
    the same machine. Child processes do not inherit the class.
    """
    if not hasattr(os, "sched_setscheduler"):
        return "ordinary (this system has no scheduling classes)"
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    except PermissionError:
        return "ordinary (real-time needs root or CAP_SYS_NICE)"
    except OSError as error:
        return f"ordinary ({error.strerror})"
    return "real-time (SCHED_FIFO 1)"


def exclusion_reason(
    *,
    sending_ns: int,
    to_first_wait_ns: int,
    to_first_ns: int,
    after_first_wait_ns: int,
    after_first_ns: int,
    first_is_exact: bool,
    last_is_exact: bool,
) -> str | None:
    """Return why a request's timing cannot be trusted; None if it can be trusted.

    A chunk's arrival time is exact if the kernel stamped the chunk and no later chunk was read
    together with it. A time that is not exact may be too late by the client's wait for a CPU core.
    So a timing is not trusted in three cases, all with the limit `MAX_WAIT_SHARE`:
    - sending the request took more than this share of TTFT (`to_first_ns`);
    - the first chunk's time is not exact, and the client's wait before it was more than this share
      of TTFT or of the decoding time (`after_first_ns`, from the first to the last chunk);
    - the last chunk's time is not exact, and the client's wait after the first chunk was more than
      this share of the decoding time.
    """
    most_before = MAX_WAIT_SHARE * min(to_first_ns, after_first_ns or to_first_ns)
    if sending_ns > MAX_WAIT_SHARE * to_first_ns:
        return f"client took {sending_ns / 1e6:.1f} ms to send the request"
    if not first_is_exact and to_first_wait_ns > most_before:
        milliseconds = to_first_wait_ns / 1e6
        return f"client waited {milliseconds:.1f} ms for a core before the first token"
    if not last_is_exact and after_first_wait_ns > MAX_WAIT_SHARE * after_first_ns:
        return f"client waited {after_first_wait_ns / 1e6:.1f} ms for a core while tokens came"
    return None
