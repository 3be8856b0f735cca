"""What the real server tells of each request's drafts is what our client reads and counts."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from draftworth.measuring.client import Client
from draftworth.planning.resolved import load
from draftworth.planning.run_specification import Server, run_spec
from draftworth.serving.command import PER_REQUEST_ACCEPTANCE, ModelPaths
from draftworth.serving.dialects import serving_command
from rehearsal.engine import EngineServer, serve_together
from tests.conftest import ROOT


@pytest.mark.engine
def test_the_real_server_tells_what_became_of_each_requests_drafts(tmp_path: Path) -> None:
    python = os.environ.get("DRAFTWORTH_ENGINE_PYTHON")
    if python is None:
        pytest.skip("set DRAFTWORTH_ENGINE_PYTHON to the engine's interpreter (make test-engine)")
    experiment = load(ROOT / "experiments/rehearsal.yaml")
    drafted = next(variant for variant in experiment.variants if variant.speculates)
    pair = ROOT / "rehearsal/tiny_pair"
    paths = ModelPaths(target=str(pair / "target"), draft=str(pair / "draft"))
    command = serving_command(experiment.spec, drafted.spec, paths)
    assert f"{PER_REQUEST_ACCEPTANCE}=summary" in command.arguments
    server = EngineServer(
        python=Path(python),
        name=drafted.name,
        arguments=command.arguments,
        environment=command.environment,
        log_path=tmp_path / "engine.log",
    )
    servers = {v.name: [Server(base_url="http://127.0.0.1:1")] for v in experiment.variants}
    shape = run_spec(experiment, servers=servers, ready_deadline_seconds=60.0).shape

    with serve_together([server]):
        client = Client(base_url=server.base_url, shape=shape)
        prompt = experiment.cases[0].prompts[0]
        record = asyncio.run(client.measure(prompt, request_id="r", seed=0)).record

    assert not record.failed, record.error_msg
    assert record.verification_steps
    assert record.drafted_tokens
    assert record.accepted_tokens is not None
    assert record.tokens_per_verification is not None
    assert record.tokens_per_verification <= drafted.max_tokens_per_step
    assert record.number_output_tokens is not None
    # Each step yields what it accepts and one token more; the last one may be cut off.
    made = record.accepted_tokens + record.verification_steps
    assert 0 <= made - (record.number_output_tokens - 1) < drafted.max_tokens_per_step
