"""Measures the CPU time of a loop in Python on this machine.

A test's limit of CPU time is a multiple of that time, so that the test passes on any machine.
"""

import time

ADDITIONS = 20_000_000
_SHARE = 100  # only short parts of the loop are run; the median part gives the whole time
_PARTS = 5


def reference_loop_cpu_seconds() -> float:
    """Return the CPU seconds that the whole loop would take in this process at this moment."""
    return sorted(_cpu_seconds(ADDITIONS // _SHARE) for _ in range(_PARTS))[_PARTS // 2] * _SHARE


def _cpu_seconds(additions: int) -> float:
    begin = time.process_time()
    total = 0
    for number in range(additions):
        total += number
    return time.process_time() - begin
