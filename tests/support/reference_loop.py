"""Measures the CPU time of a loop in Python on this machine.

A test's limit of CPU time is a multiple of that time, so that the test passes on any machine.
"""

import time

ADDITIONS = 20_000_000
_SHARE = 100  # each part that is run has 1/100 of the additions; the median part is scaled up
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
