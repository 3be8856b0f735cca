"""A loop that measures how fast this machine runs Python.

A bound on CPU time is a multiple of it, so that a test holds on any machine.
"""

import time

ADDITIONS = 20_000_000
_SHARE = 100  # the loop is timed in short parts: the median of a few says how long the whole takes
_PARTS = 5


def reference_loop_cpu_seconds() -> float:
    """CPU seconds that this process needs for the whole loop, as fast as it runs at this moment."""
    return sorted(_cpu_seconds(ADDITIONS // _SHARE) for _ in range(_PARTS))[_PARTS // 2] * _SHARE


def _cpu_seconds(additions: int) -> float:
    begin = time.process_time()
    total = 0
    for number in range(additions):
        total += number
    return time.process_time() - begin
