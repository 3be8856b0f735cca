"""What a server says of its starts."""

import dataclasses
from typing import Any

import pytest

from draftworth.records import servers
from draftworth.records.deployment import canary_key

STATE = servers.ServerState(
    server="vllm-k7",
    variant="k7",
    pod="vllm-k7-6d5f",
    start=3,
    phase="given_up",
    since_unix_s=1_790_000_000.5,
    exit_code=1,
    last_lines=("Traceback", "RuntimeError: no devices"),
    reason="the third start ended without getting healthy",
)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"start": 0}, "start: given 0"),
        ({"reason": ""}, "reason"),
        ({"phase": "healthy"}, "reason"),
    ],
)
def test_what_contradicts_itself_is_no_state(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(STATE, **change)


def test_each_server_and_canary_has_a_key_of_its_own() -> None:
    assert servers.server_state_key("vllm-k7") == "control/serving/vllm-k7.json"
    assert canary_key("llmperf-q-1a2b3c4d", "k7") == "control/canary/llmperf-q-1a2b3c4d/k7.json"


def test_of_a_log_the_end_is_kept_as_printable_lines() -> None:
    kept = servers.last_lines((*(f"line {number}" for number in range(100)), "\x1b[2J red"))
    assert len(kept) == servers.LAST_LINES
    assert kept[-1] == "\\x1b[2J red"
    assert kept[0] == "line 51"
