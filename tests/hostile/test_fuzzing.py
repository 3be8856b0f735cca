"""The limits of time and memory in `fuzzing.bounded` really make a test fail."""

import time

import pytest

from tests.hostile.fuzzing import bounded


def test_what_is_quick_and_small_passes() -> None:
    with bounded():
        bytes(10)


def compute(cpu_seconds: float) -> None:
    end = time.process_time() + cpu_seconds
    while time.process_time() < end:
        pass


def test_a_try_that_takes_long_fails() -> None:
    with pytest.raises(AssertionError, match="reference loop"), bounded(loops=0.001):
        compute(0.05)


def test_a_try_that_takes_much_memory_fails() -> None:
    with pytest.raises(AssertionError, match="MiB"), bounded(mib=-1.0):
        pass
