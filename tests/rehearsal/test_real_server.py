"""A real vLLM: what it accepts, logs, draws and reports, and what our client reads."""

import asyncio
import dataclasses
import json
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from draftworth.cli import main
from draftworth.decision.elsewhere import elsewhere
from draftworth.decision.facts import RunFacts, facts_of
from draftworth.measuring.prompt_lengths import Tokenizer
from draftworth.measuring.run_specification import RequestShape
from draftworth.measuring.streamed_request import Client, Measured
from draftworth.planning.resolved import load
from draftworth.records.prompt_files import Prompt, load_case
from draftworth.records.run_folder import read_run
from draftworth.serving import server_command
from rehearsal.engine_processes import EngineServer
from tests.conftest import ROOT, every_request_counts
from tests.rehearsal.engines import engine_server, request_shape, serve_together
from tests.support.waiting import HANGS_AFTER_SECONDS

pytestmark = pytest.mark.engine

TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}


@dataclass(frozen=True, kw_only=True)
class Servers:
    """Two vLLM servers; one has the flag with which it does not log requests.

    shape: the fields that requests to both servers have.
    """

    plain: EngineServer
    drafted_and_logging: EngineServer
    shape: RequestShape


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    experiment = load(ROOT / "experiments/rehearsal.yaml")
    serving = experiment.spec.serving.model_copy(update={"tool_call_parser": "hermes"})
    spec = experiment.spec.model_copy(update={"serving": serving})
    experiment = dataclasses.replace(experiment, spec=spec)  # type: ignore[arg-type]
    folder = tmp_path_factory.mktemp("engine")
    plain, drafted = (engine_server(folder, experiment, v) for v in experiment.variants)
    for server in (plain, drafted):
        server.environment = {**server.environment, "VLLM_LOGGING_LEVEL": "DEBUG"}
        assert server_command.REQUESTS_NOT_LOGGED in server.arguments
    drafted.arguments = [
        argument.replace(server_command.REQUESTS_NOT_LOGGED, "--enable-log-requests")
        for argument in drafted.arguments
    ]
    assert f"{server_command.PER_REQUEST_ACCEPTANCE}=summary" in drafted.arguments
    shape = dataclasses.replace(
        request_shape(experiment), fixed_output_length=False, token_ids=True, output_tokens=40
    )
    with serve_together([plain, drafted]), every_request_counts():
        yield Servers(plain=plain, drafted_and_logging=drafted, shape=shape)


def measure(servers: Servers, folder: Path, **line: Any) -> tuple[Prompt, Measured]:
    shape = servers.shape
    path = folder / "case.jsonl"
    path.write_text(json.dumps({"id": "a", **line}))
    (prompt,) = load_case(path, prompt_class="mine", most_tokens=shape.output_tokens).prompts
    client = Client(base_url=servers.drafted_and_logging.base_url, shape=shape)
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
    servers: Servers, tmp_path: Path, form: str
) -> None:
    prompt, measured = measure(servers, tmp_path, **FORMS[form])
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
    # Prompts of a given length are made with the tokenizer with which the server counts tokens.
    base_url = servers.drafted_and_logging.base_url
    tokenizer = Tokenizer(base_url=base_url, shape=servers.shape, api_key=None)
    assert asyncio.run(tokenizer.count(prompt)) == record.number_input_tokens


POEM = Prompt(id="a", messages=({"role": "user", "content": "Write a poem about a key."},))


def test_one_seed_draws_the_same_text_alone(servers: Servers) -> None:
    """This holds without a draft: with one, vLLM 0.32.0 on CPU draws other noise each time."""
    sampled = dataclasses.replace(servers.shape, temperature=0.8)
    client = Client(base_url=servers.plain.base_url, shape=sampled)
    measured = [asyncio.run(client.measure(POEM, request_id="r", seed=seed)) for seed in (1, 1, 2)]

    assert [m.record.error_msg for m in measured] == ["", "", ""]
    assert [m.record.seed for m in measured] == [1, 1, 2]
    first, again, other = (m.transcript.text for m in measured)
    assert first == again != other


def test_each_requests_drafts_are_counted(servers: Servers) -> None:
    base_url = servers.drafted_and_logging.base_url
    experiment = load(ROOT / "experiments/rehearsal.yaml")
    drafted = next(variant for variant in experiment.variants if variant.speculates)
    client = Client(base_url=base_url, shape=request_shape(experiment))
    prompt = experiment.cases[0].prompts[0]
    record = asyncio.run(client.measure(prompt, request_id="r", seed=0)).record

    assert not record.failed, record.error_msg
    assert record.verification_steps
    assert record.drafted_tokens
    assert record.accepted_tokens is not None
    assert record.tokens_per_step is not None
    assert record.tokens_per_step <= drafted.max_tokens_per_step
    assert record.number_output_tokens is not None
    # Each step yields its accepted tokens and one token more; the last step may be cut off.
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


def test_a_prompt_is_logged_only_without_our_flag(servers: Servers) -> None:
    plain, logging = servers.plain, servers.drafted_and_logging
    for server in (plain, logging):
        ask(server)

    assert SECRET in logging.log_path.read_text(errors="replace")
    assert "xyzzy" not in plain.log_path.read_text(errors="replace")


# `compare` and `measure` take the address of a server that runs already.

PROMPTS = ("prompts/structured/count.jsonl", "prompts/open_ended/poem.jsonl")
OPTIONS = (
    *("--model", "rehearsal", "--prompts", *(str(ROOT / path) for path in PROMPTS)),
    *("--requests-per-case", "2", "--rounds", "2", "--output-tokens", "150", "--fixed-length"),
)


def run(folder: Path, *words: str) -> RunFacts:
    assert main([*words, *OPTIONS, "--out", str(folder)]) == 0
    (run_folder,) = folder.iterdir()
    return facts_of(read_run(run_folder), {})


def test_in_turn_and_two_runs_teach_the_same(
    servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Speculation pays for one class and costs for the other, by factors of two."""
    monkeypatch.chdir(ROOT)
    plain, drafted = servers.plain, servers.drafted_and_logging
    variant = f"k7={drafted.base_url},window=7"
    both = ("--baseline", plain.base_url, "--variant", variant)
    in_turn = run(tmp_path / "in-turn", "compare", *both)
    alone, with_draft = (
        run(tmp_path / server.name, "measure", "--base-url", server.base_url)
        for server in (plain, drafted)
    )
    for ratios in (
        {c.traffic.name: c.cost_ratio for c in in_turn.comparisons},
        {row.traffic.name: row.ratio for row in elsewhere(with_draft, alone).rows},
    ):
        structured, open_ended = ratios["structured"], ratios["open_ended"]
        assert structured is not None
        assert open_ended is not None
        assert structured.value < open_ended.value
    # The acceptance by the server's counters agrees with window and tokens per step.
    checks = [variant.acceptance for variant in in_turn.speculative]
    assert len(checks) == 2
    assert all(check.agrees for check in checks)
