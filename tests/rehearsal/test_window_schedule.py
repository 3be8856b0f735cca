"""The real engine takes the exported schedule of windows, and drafts nothing where it says zero."""

from __future__ import annotations

import asyncio
import os
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest

from draftworth.measuring.client import Client
from draftworth.measuring.run_specification import RequestShape
from draftworth.planning.resolved import ResolvedLocal, load
from draftworth.planning.run_specification import Server, run_spec
from draftworth.records.results import RequestRecord
from draftworth.serving.command import ModelPaths
from rehearsal.engine import EngineServer, serve_together
from tests.charts.winner.runs import LOCAL, experiment_path, exported
from tests.conftest import ROOT
from tests.pods.compiled_graphs.pods import eventually

# More than the server can be through with before the request beside them is.
LONG_TOKENS, SHORT_TOKENS = 700, 40


@pytest.mark.engine
def test_the_real_engine_drafts_at_one_request_and_not_at_the_load_where_the_schedule_says_zero(
    tmp_path: Path,
) -> None:
    python = os.environ.get("DRAFTWORTH_ENGINE_PYTHON")
    if python is None:
        pytest.skip("set DRAFTWORTH_ENGINE_PYTHON to the engine's interpreter (make test-engine)")
    export = exported(tmp_path, LOCAL)
    words = "batch 1: window 7; batch 2 to 4: window 0"
    assert export.annotations["draftworth/window-schedule"] == words
    server = EngineServer(
        python=Path(python),
        name=export.name,
        arguments=_on_this_machine(export.server["args"]),
        environment={v["name"]: v["value"] for v in export.server["env"]},
        log_path=tmp_path / "engine.log",
    )
    with serve_together([server]):
        alone, beside = asyncio.run(_measure(server.base_url))

    assert not alone.failed, alone.error_msg
    assert alone.drafted_tokens
    assert alone.tokens_per_step
    assert alone.tokens_per_step > 1.5
    assert not beside.failed, beside.error_msg
    assert not beside.drafted_tokens
    assert beside.tokens_per_step == 1.0


async def _measure(base_url: str) -> tuple[RequestRecord, RequestRecord]:
    """A short request by itself, and the same one beside three long ones."""
    experiment = load(experiment_path(LOCAL))
    assert isinstance(experiment, ResolvedLocal)
    servers = {v.name: [Server(base_url=base_url)] for v in experiment.variants}
    shape = run_spec(experiment, servers=servers, ready_deadline_seconds=60.0).shape
    prompt = next(c for c in experiment.cases if c.prompt_class == "structured").prompts[0]

    def sent(tokens: int) -> asyncio.Task[RequestRecord]:
        own: RequestShape = replace(shape, output_tokens=tokens)
        client = Client(base_url=base_url, shape=own)

        async def measured() -> RequestRecord:
            return (await client.measure(prompt, request_id=f"r{tokens}", seed=0)).record

        return asyncio.create_task(measured())

    alone = await sent(SHORT_TOKENS)
    others = [sent(LONG_TOKENS) for _ in range(3)]
    await asyncio.to_thread(eventually, lambda: _running(base_url) == len(others))
    beside = await sent(SHORT_TOKENS)
    assert not any(other.done() for other in others), "the load was over before the request was"
    await asyncio.gather(*others)
    return alone, beside


def _running(base_url: str) -> float:
    """Requests in the server's batch, by its own gauge."""
    with urllib.request.urlopen(f"{base_url}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(x.split()[-1]) for x in lines if x.startswith("vllm:num_requests_running"))


def _on_this_machine(arguments: tuple[str, ...]) -> list[str]:
    """The checkpoints where they are, and a port that is free."""
    pair, pod = ROOT / "rehearsal/tiny_pair", ModelPaths()
    places = {pod.target: str(pair / "target"), pod.draft: str(pair / "draft")}
    kept = [a for a in arguments if not a.startswith("--port=")]
    for path, place in places.items():
        kept = [a.replace(path, place) for a in kept]
    return kept
