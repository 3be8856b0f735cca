"""A builder of probes of a winner that serves: each test states only what it cares about."""

from __future__ import annotations

from typing import Any

from draftworth.records.live import LiveClass, LiveProbe
from tests.support.blocks import START_UNIX_S


def make_live_class(prompt_class: str = "structured", **overrides: Any) -> LiveClass:
    fields: dict[str, Any] = {
        "requests": 4,
        "failed": 1,
        "ttft_s": 0.12,
        "itl_s": 0.009,
        "e2e_s": 1.5,
        "tokens_per_step": 4.0,
    }
    return LiveClass(prompt_class=prompt_class, **{**fields, **overrides})


def make_probe(**overrides: Any) -> LiveProbe:
    fields: dict[str, Any] = {
        "experiment": "qwen3-32b",
        "run_id": "llmperf-qwen3-32b-0a1b2c3d-89abcdef",
        "variant": "qwen3-1.7b-k7",
        "number": 1,
        "began_at_unix_s": START_UNIX_S,
        "ended_at_unix_s": START_UNIX_S + 5,
        "classes": (make_live_class(), make_live_class("open_ended", tokens_per_step=2.0)),
        "source": "counters",
        "tokens_per_step": 3.0,
        "acceptance": 0.4,
        "break_even_tokens_per_step": 2.0,
        "drifted": False,
    }
    return LiveProbe(**{**fields, **overrides})
