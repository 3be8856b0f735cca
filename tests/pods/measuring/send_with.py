"""Sends requests with one load engine, for a test that compares the engines' records.

`test_both_engines` runs it with an interpreter that has llmperf and Ray: `python -m
tests.pods.measuring.send_with ray|asyncio`. It reads a JSON list of scenarios (a load and prompts)
from standard input, and writes one line with a JSON list of their records to standard output.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from typing import Any

from draftworth.measuring.load_engines import AsyncioEngine, Batch, LoadEngine, Planned
from draftworth.measuring.run_specification import RequestShape
from draftworth.measuring.streamed_request import Client
from draftworth.records.load_shapes import ConcurrencyLoad, PoissonLoad
from draftworth.records.prompt_files import Prompt

ACTORS = 4


def main(kind: str) -> None:
    """Send the requests of all scenarios, one scenario after the other. kind: ray or asyncio."""
    scenarios = json.load(sys.stdin)
    with opened(kind) as (engine, handles):
        measured = []
        for scenario in scenarios:
            if "kill_an_actor_after_seconds" in scenario:
                kill_later(handles[0], scenario["kill_an_actor_after_seconds"])
            measured.append(send(engine, scenario))
        # The JSON is on a line of its own, because Ray writes to standard output too.
        sys.stdout.write(f"\n{json.dumps(measured)}\n")
        sys.stdout.flush()


@contextmanager
def opened(kind: str) -> Iterator[tuple[LoadEngine, list[Any]]]:
    if kind == "asyncio":
        yield AsyncioEngine(), []
        return
    from pods.measuring.ray_actors import ray_engine

    with ray_engine(ACTORS, None, partial(print, file=sys.stderr)) as (engine, actors, _):
        yield engine, [actor.handle for actor in actors]


def kill_later(handle: Any, seconds: float) -> None:
    import ray

    process_id = ray.get(handle.__ray_call__.remote(lambda actor: os.getpid()))
    threading.Timer(seconds, os.kill, (process_id, signal.SIGKILL)).start()


def send(engine: LoadEngine, scenario: dict[str, Any]) -> list[dict[str, Any]]:
    client = Client(base_url=scenario["base_url"], shape=RequestShape(**scenario["shape"]))
    shapes = {"concurrency": ConcurrencyLoad, "poisson": PoissonLoad}
    load = shapes[scenario["load"]["kind"]](**scenario["load"])
    batch = Batch(
        measured=planned("r", scenario["prompts"]), fillers=planned("f", scenario["fillers"])
    )
    outcome = asyncio.run(engine.send(client, batch, load, seed=3))
    return [asdict(m) for m in (*outcome.measured, *outcome.unmeasured)]


def planned(name: str, texts: list[str]) -> list[Planned]:
    return [
        Planned(
            request_id=f"{name}{index}",
            prompt=Prompt(id=f"p{index}", messages=({"role": "user", "content": text},)),
            seed=index,
        )
        for index, text in enumerate(texts)
    ]


if __name__ == "__main__":
    main(sys.argv[1])
