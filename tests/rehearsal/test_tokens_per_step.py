"""Tokens per step of real servers, compared with their engines' numbers of steps."""

import asyncio
import os
import re
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.error import URLError

import pytest

from draftworth.measuring.server_counters import read_metrics, speculation_between
from draftworth.measuring.streamed_request import Client
from draftworth.metrics import steps
from draftworth.planning.resolved import load
from draftworth.records.prompt_files import Prompt, load_case
from draftworth.records.results import BlockResult, RequestRecord
from tests.conftest import ROOT
from tests.rehearsal.engines import engine_server, serve_together
from tests.support.blocks import make_block
from tests.support.specifications import shape
from tests.support.waiting import HANGS_AFTER_SECONDS

OUTPUT_TOKENS = 96
N_GRAM = (
    '--speculative-config={"method":"ngram","num_speculative_tokens":5,"prompt_lookup_max":4,'
    '"prompt_lookup_min":2}'
)
# The counters of an engine's runs (steps), which include prefills.
RUNS = re.compile(
    r"^(?:vllm:iteration_tokens_total_count|llamacpp:n_decode_total)(?:\{.*\})? (.+)$", re.MULTILINE
)


def engine_runs(url: str) -> float:
    with urllib.request.urlopen(f"{url}/metrics", timeout=HANGS_AFTER_SECONDS) as page:
        return float(RUNS.findall(page.read().decode())[0])


@dataclass(frozen=True)
class Truth:
    """A block of one server's answers, and the number of steps that its engine ran for it."""

    block: BlockResult
    engine_runs: float

    @property
    def tokens_per_step(self) -> float:
        outputs = [record.number_output_tokens or 0 for record in self.block.requests]
        return (sum(outputs) - len(outputs)) / (self.engine_runs - len(outputs))

    @property
    def most_tokens_per_step(self) -> float:
        """The tokens per step if no accepted token that the server counts was cut off."""
        counters, requests = self.block.speculation, len(self.block.requests)
        assert counters is not None
        assert counters.generated_tokens is not None
        tokens = counters.generated_tokens - requests
        return tokens / max(counters.drafts, tokens - counters.accepted_tokens)


async def answered(url: str, prompts: Sequence[Prompt], *, most: int | None) -> Truth:
    """Send the prompts in turn. most: the most tokens per step, as a user gives it."""
    client = Client(base_url=url, shape=shape(model="rehearsal", output_tokens=OUTPUT_TOKENS))
    before, runs_before = await read_metrics(url), engine_runs(url)
    requests: list[RequestRecord] = []
    for number, prompt in enumerate(prompts):
        record = (await client.measure(prompt, request_id=f"r{number}", seed=0)).record
        assert not record.failed, record.error_msg
        requests.append(replace(record, excluded=None))
    # A server's counters grow a moment after its answer has ended.
    give_up_at = time.monotonic() + HANGS_AFTER_SECONDS
    generated = sum(record.number_output_tokens or 0 for record in requests)
    while True:
        counters = speculation_between(before, await read_metrics(url))
        if counters is None or counters.generated_tokens == generated:
            break
        assert time.monotonic() < give_up_at, counters
        await asyncio.sleep(0.1)
    block = make_block(
        requests=tuple(requests), warmup_requests=0, max_tokens_per_step=most, speculation=counters
    )
    return Truth(block=block, engine_runs=engine_runs(url) - runs_before)


def without_request_counts(block: BlockResult) -> BlockResult:
    requests = (
        replace(r, verification_steps=None, drafted_tokens=None, accepted_tokens=None)
        for r in block.requests
    )
    return replace(block, requests=tuple(requests))


@pytest.mark.engine
def test_tokens_per_step_of_vllm_match_its_engine(tmp_path: Path) -> None:
    experiment = load(ROOT / "experiments/rehearsal.yaml")
    plain, drafted = (engine_server(tmp_path, experiment, v) for v in experiment.variants)
    n_gram = replace(
        engine_server(tmp_path, experiment, experiment.variants[0]),
        name="n-gram",
        log_path=tmp_path / "n-gram.log",
    )
    n_gram.arguments = [*n_gram.arguments, N_GRAM]
    case = ROOT / "prompts/structured/count.jsonl"
    prompts = load_case(case, prompt_class="structured", most_tokens=OUTPUT_TOKENS).prompts[:3]
    with serve_together([plain, n_gram, drafted]):
        alone, looked_up, with_draft = (
            asyncio.run(answered(server.base_url, prompts, most=most))
            # A busy front end merges chunks. Without speculation a server has no counters that
            # would show this, so it is given as one that yields one token per step.
            for server, most in ((plain, 1), (n_gram, 6), (drafted, 8))
        )

    assert steps.tokens_per_step([alone.block]) == alone.tokens_per_step == 1.0
    for truth in (looked_up, with_draft):
        assert truth.tokens_per_step > 1.2
        for block in (truth.block, without_request_counts(truth.block)):
            counted = steps.tokens_per_step([block])
            assert counted is not None
            # A busy server merges chunks, so that fewer steps may be counted than there were; but
            # no fewer than tokens that are no accepted drafts.
            assert 0.97 * truth.tokens_per_step <= counted <= 1.03 * truth.most_tokens_per_step


@contextmanager
def llama_cpp(folder: Path, *arguments: str) -> Iterator[str]:
    """A server of llama.cpp on its own port, ended with the block."""
    program, model = (os.environ.get(f"DRAFTWORTH_LLAMA_{name}") for name in ("SERVER", "MODEL"))
    if program is None or model is None:
        pytest.skip("needs llama.cpp's server and a model as GGUF (make test-llama-cpp)")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
    words = ["--host", "127.0.0.1", "--port", str(port), "--metrics", "--alias", "rehearsal"]
    log = (folder / "llama-server.log").open("wb")
    with (
        log,
        subprocess.Popen(
            [program, "--model", model, "--ctx-size", "2048", *words, *arguments],
            stdout=log,
            stderr=log,
        ) as server,
    ):
        try:
            _wait_for(f"http://127.0.0.1:{port}", server)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.kill()


def _wait_for(url: str, server: subprocess.Popen[bytes]) -> None:
    give_up_at = time.monotonic() + HANGS_AFTER_SECONDS
    while True:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=HANGS_AFTER_SECONDS):
                return
        except (URLError, OSError):
            assert server.poll() is None, "the server ended before it was ready"
            assert time.monotonic() < give_up_at, "the server is not ready"
            time.sleep(0.2)


REPEATED = "Repeat this sentence {} times: the river brings salt to the sea."


@pytest.mark.llama_cpp
@pytest.mark.parametrize("drafted", [None, 8, 12])
def test_tokens_per_step_of_llama_cpp_match_it(tmp_path: Path, drafted: int | None) -> None:
    """Each prompt is sent once, because a cached prompt needs no prefill."""
    prompts = [
        Prompt(id=count, messages=({"role": "user", "content": REPEATED.format(count)},))
        for count in ("four", "five", "six")
    ]
    n_gram = ("--spec-type", "ngram-simple", "--spec-ngram-simple-size-n", "4")
    arguments = (*n_gram, "--spec-ngram-simple-size-m", str(drafted)) if drafted else ()
    with llama_cpp(tmp_path, *arguments) as url:
        truth = asyncio.run(answered(url, prompts, most=drafted and drafted + 1))

    assert truth.tokens_per_step == 1.0 if drafted is None else truth.tokens_per_step > 1.2
    for block in (truth.block, without_request_counts(truth.block)):
        counted = steps.tokens_per_step([block])
        assert counted == pytest.approx(truth.tokens_per_step, rel=0.03)
