"""Measures one request of the client to a server that follows a script."""

import asyncio
from dataclasses import replace
from typing import Any

from draftworth.measuring.streamed_request import Client, Measured
from draftworth.records.prompt_files import Prompt
from tests.support.specifications import shape
from tests.support.stream_server import Script, Step, StreamServer, stream_server
from tests.support.waiting import HANGS_AFTER_SECONDS

SHAPE = shape(output_tokens=64, seed=3)
PROMPT = Prompt(id="p1", messages=({"role": "user", "content": "count"},))


def measure(
    script: Script,
    *,
    prompt: Prompt = PROMPT,
    timeout_seconds: float = HANGS_AFTER_SECONDS,
    **client: Any,
) -> tuple[Measured, StreamServer]:
    request_shape = replace(SHAPE, timeout_seconds=timeout_seconds)
    settings: dict[str, Any] = {"shape": request_shape, "read_wait": lambda: 0, **client}
    with stream_server(script) as server:
        made = Client(base_url=server.base_url, **settings)
        return asyncio.run(made.measure(prompt, request_id="r1", seed=0)), server


def play(*steps: Step) -> Script:
    return lambda _: steps
