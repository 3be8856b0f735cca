"""The real server: what it takes, logs, draws and tells, and what our client reads of it."""

import asyncio
import dataclasses
import json
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from draftworth.measuring.client import Client, Measured
from draftworth.measuring.context import Tokenizer
from draftworth.measuring.run_specification import RequestShape
from draftworth.planning.resolved import load
from draftworth.records.prompts import Prompt, load_case
from draftworth.serving import command
from rehearsal.engine import EngineServer
from tests.conftest import ROOT
from tests.rehearsal.engines import engine_server, request_shape, serve_together
from tests.support.waiting import HANGS_AFTER_SECONDS

pytestmark = pytest.mark.engine

TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, RequestShape]]:
    """The server with a draft and a parser of tool calls, and what a request looks like."""
    experiment = load(ROOT / "experiments/rehearsal.yaml")
    serving = experiment.spec.serving.model_copy(update={"tool_call_parser": "hermes"})
    spec = experiment.spec.model_copy(update={"serving": serving})
    experiment = dataclasses.replace(experiment, spec=spec)  # type: ignore[arg-type]
    variant = next(v for v in experiment.variants if v.speculates)
    server = engine_server(tmp_path_factory.mktemp("engine"), experiment, variant)
    assert f"{command.PER_REQUEST_ACCEPTANCE}=summary" in server.arguments
    shape = dataclasses.replace(
        request_shape(experiment), fixed_output_length=False, token_ids=True, output_tokens=40
    )
    with serve_together([server]):
        yield server.base_url, shape


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, EngineServer]]:
    """Two servers without a draft: one with our flag against logged requests, one without it."""
    experiment = load(ROOT / "experiments/rehearsal.yaml")
    servers = {}
    for name in ("ours", "logging"):
        server = engine_server(tmp_path_factory.mktemp(name), experiment, experiment.variants[0])
        server.environment = {**server.environment, "VLLM_LOGGING_LEVEL": "DEBUG"}
        servers[name] = server
    ours = servers["ours"].arguments
    assert command.REQUESTS_NOT_LOGGED in ours
    logging = [a.replace(command.REQUESTS_NOT_LOGGED, "--enable-log-requests") for a in ours]
    servers["logging"].arguments = logging
    with serve_together(list(servers.values())):
        yield servers


def measure(served: tuple[str, RequestShape], folder: Path, **line: Any) -> tuple[Prompt, Measured]:
    base_url, shape = served
    path = folder / "case.jsonl"
    path.write_text(json.dumps({"id": "a", **line}))
    (prompt,) = load_case(path, prompt_class="mine", most_tokens=shape.output_tokens).prompts
    client = Client(base_url=base_url, shape=shape)
    return prompt, asyncio.run(client.measure(prompt, request_id="r", seed=0))


FORMS: dict[str, dict[str, Any]] = {
    "a prompt": {"prompt": "Count from 1 to 400."},
    "a text to continue": {"text_to_continue": "1\n2\n3\n"},
    "its own most tokens": {"text_to_continue": "1\n2\n3\n", "max_tokens": 7},
    "parts of text": {
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Count from 1."}]}]
    },
    "a log with calls of tools": {
        "messages": [
            {"role": "user", "content": "Rain?"},
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "c1", "content": "dry"},
        ],
        "tools": [TOOL],
    },
    "tools that are not called": {"prompt": "Rain?", "tools": [TOOL], "tool_choice": "none"},
    "tools that may be called": {"prompt": "Rain?", "tools": [TOOL]},
    "an object of JSON": {"prompt": "Rain?", "response_format": {"type": "json_object"}},
    "a tool that must be called": {
        "prompt": "Rain?",
        "tools": [TOOL],
        "tool_choice": {"type": "function", "function": {"name": "weather"}},
    },
}


@pytest.mark.parametrize("form", FORMS)
def test_the_real_server_answers_every_form_of_prompt(
    served: tuple[str, RequestShape], tmp_path: Path, form: str
) -> None:
    prompt, measured = measure(served, tmp_path, **FORMS[form])
    record, transcript = measured.record, measured.transcript
    assert not record.failed, record.error_msg
    assert record.usage_source == "every_chunk"
    assert record.number_output_tokens is not None
    assert 0 < record.number_output_tokens <= (prompt.max_tokens or 40)
    assert record.finish_reason in ("length", "stop", "tool_calls")
    assert transcript.text
    assert transcript.token_ids is not None
    assert len(transcript.token_ids) == record.number_output_tokens
    assert sum(transcript.chunk_tokens or ()) == record.number_output_tokens
    # What prompts of a given length are made by is what the server counts them by.
    base_url, shape = served
    tokenizer = Tokenizer(base_url=base_url, shape=shape, api_key=None)
    assert asyncio.run(tokenizer.count(prompt)) == record.number_input_tokens


POEM = Prompt(id="a", messages=({"role": "user", "content": "Write a poem about a key."},))


def test_the_real_server_draws_the_same_text_for_the_same_seed_alone(
    plain: Mapping[str, EngineServer], served: tuple[str, RequestShape]
) -> None:
    """The one without a draft: with one, vLLM 0.32.0 on CPU draws noise, another one each time."""
    _, shape = served
    sampled = dataclasses.replace(shape, temperature=0.8)
    client = Client(base_url=plain["ours"].base_url, shape=sampled)
    measured = [asyncio.run(client.measure(POEM, request_id="r", seed=seed)) for seed in (1, 1, 2)]

    assert [m.record.error_msg for m in measured] == ["", "", ""]
    assert [m.record.seed for m in measured] == [1, 1, 2]
    first, again, other = (m.transcript.text for m in measured)
    assert first == again != other


def test_the_real_server_tells_what_became_of_each_requests_drafts(
    served: tuple[str, RequestShape],
) -> None:
    base_url, _ = served
    experiment = load(ROOT / "experiments/rehearsal.yaml")
    drafted = next(variant for variant in experiment.variants if variant.speculates)
    client = Client(base_url=base_url, shape=request_shape(experiment))
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


SECRET = "Do not repeat this to anybody: xyzzy"


def ask(server: EngineServer) -> None:
    body = {"model": "rehearsal", "messages": [{"role": "user", "content": SECRET}]}
    request = urllib.request.Request(
        f"{server.base_url}/v1/chat/completions",
        data=json.dumps({**body, "max_tokens": 2}).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=HANGS_AFTER_SECONDS) as answer:
        assert answer.status == 200


def test_the_real_server_logs_no_prompt_and_would_without_our_flag(
    plain: Mapping[str, EngineServer],
) -> None:
    for server in plain.values():
        ask(server)

    assert SECRET in plain["logging"].log_path.read_text(errors="replace")
    assert "xyzzy" not in plain["ours"].log_path.read_text(errors="replace")
