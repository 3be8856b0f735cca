"""Above temperature 0 the real server draws by each request's own seed."""

import asyncio
import dataclasses
from pathlib import Path

import pytest

from draftworth.measuring.client import Client
from draftworth.records.prompts import Prompt
from tests.rehearsal.test_prompt_forms import engine

PROMPT = Prompt(id="a", messages=({"role": "user", "content": "Write a poem about a key."},))


@pytest.mark.engine
def test_the_real_server_draws_the_same_text_for_the_same_seed_alone(tmp_path: Path) -> None:
    """The one without a draft: with one, vLLM 0.32.0 on CPU draws noise, another one each time."""
    with engine(tmp_path, speculates=False) as (base_url, shape):
        client = Client(base_url=base_url, shape=dataclasses.replace(shape, temperature=0.8))
        measured = [
            asyncio.run(client.measure(PROMPT, request_id="r", seed=seed)) for seed in (1, 1, 2)
        ]

    assert [m.record.error_msg for m in measured] == ["", "", ""]
    assert [m.record.seed for m in measured] == [1, 1, 2]
    first, again, other = (m.transcript.text for m in measured)
    assert first == again != other
