"""What the real server tells of each request's drafts is what our client reads and counts."""

import asyncio
from pathlib import Path

import pytest

from draftworth.measuring.client import Client
from draftworth.planning.resolved import load
from draftworth.serving.command import PER_REQUEST_ACCEPTANCE
from tests.conftest import ROOT
from tests.rehearsal.engines import engine_server, request_shape, serve_together


@pytest.mark.engine
def test_the_real_server_tells_what_became_of_each_requests_drafts(tmp_path: Path) -> None:
    experiment = load(ROOT / "experiments/rehearsal.yaml")
    drafted = next(variant for variant in experiment.variants if variant.speculates)
    server = engine_server(tmp_path, experiment, drafted)
    assert f"{PER_REQUEST_ACCEPTANCE}=summary" in server.arguments

    with serve_together([server]):
        client = Client(base_url=server.base_url, shape=request_shape(experiment))
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
