"""Which waits of the client for a CPU core exclude a request's timing."""

from typing import Any

import pytest

from draftworth.measuring.clock import exclusion_reason

MS = 1_000_000
# A request with a TTFT of 200 ms and 1 s of decoding, whose times the kernel has not stamped.
QUIET: dict[str, Any] = {
    "sending_ns": 0,
    "to_first_wait_ns": 0,
    "to_first_ns": 200 * MS,
    "after_first_wait_ns": 0,
    "after_first_ns": 1000 * MS,
    "first_is_exact": False,
    "last_is_exact": False,
}

EXCLUDED = {
    "a slow send": ({"sending_ns": 11 * MS}, "took 11.0 ms to send"),
    "a wait before the first token": (
        {"to_first_wait_ns": 11 * MS},
        "waited 11.0 ms for a core before the first token",
    ),
    "a wait that is short for the TTFT and long for the decoding": (
        {"to_first_wait_ns": 9 * MS, "after_first_ns": 100 * MS},
        "waited 9.0 ms",
    ),
    "a wait while tokens came": (
        {"after_first_wait_ns": 51 * MS},
        "waited 51.0 ms for a core while tokens came",
    ),
    "a slow send in spite of exact stamps": (
        {"sending_ns": 11 * MS, "first_is_exact": True, "last_is_exact": True},
        "to send",
    ),
    "a first token that came together with others": (
        {"to_first_wait_ns": 11 * MS, "last_is_exact": True},
        "before the first token",
    ),
}

GOOD: dict[str, dict[str, Any]] = {
    "no wait": {},
    "waits below the share": {
        "sending_ns": 9 * MS,
        "to_first_wait_ns": 9 * MS,
        "after_first_wait_ns": 49 * MS,
    },
    "waits that the kernel's stamps do not contain": {
        "to_first_wait_ns": 150 * MS,
        "after_first_wait_ns": 900 * MS,
        "first_is_exact": True,
        "last_is_exact": True,
    },
    "one token": {"to_first_wait_ns": 9 * MS, "after_first_ns": 0},
}


@pytest.mark.parametrize("name", EXCLUDED)
def test_a_wait_that_could_move_figures_excludes_requests(name: str) -> None:
    waits, reason = EXCLUDED[name]
    assert reason in (exclusion_reason(**QUIET | waits) or "")


@pytest.mark.parametrize("name", GOOD)
def test_a_wait_that_could_not_leaves_it(name: str) -> None:
    assert exclusion_reason(**QUIET | GOOD[name]) is None
