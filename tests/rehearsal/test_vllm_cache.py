"""A real vLLM with its prefix cache on: what it counts as cached, exactly to the block."""

import asyncio
import re
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pytest

from draftworth.measuring.server_counters import prefix_cache_between, read_metrics
from draftworth.measuring.streamed_request import Client
from draftworth.measuring.unmeasured_prompts import with_other_beginning
from draftworth.planning.resolved import load
from draftworth.records.prompt_files import Prompt
from draftworth.records.results import PrefixCacheCounters, PromptCache, RequestRecord
from tests.conftest import ROOT
from tests.rehearsal.engines import engine_server, request_shape, serve_together
from tests.support.waiting import HANGS_AFTER_SECONDS

pytestmark = pytest.mark.engine

OFF, ON = "--no-enable-prefix-caching", "--enable-prefix-caching"
TEXT = "".join(f"line {n}\n" for n in range(100))
PROMPT = Prompt(id="lines", text_to_continue=TEXT)


@dataclass(frozen=True, kw_only=True)
class Server:
    """A running vLLM. tokens_of_block: the size of a block of its prefix cache."""

    url: str
    tokens_of_block: int

    def cached_in(self, tokens: int) -> int:
        """Return how many of a prompt's tokens are cached when it is sent again.

        The last token is always computed.
        """
        return (tokens - 1) // self.tokens_of_block * self.tokens_of_block


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Server]]:
    """Run a vLLM with its prefix cache on, and one with it off."""
    experiment, folder = load(ROOT / "experiments/rehearsal.yaml"), tmp_path_factory.mktemp("vllm")
    for name in ("on", "off"):
        (folder / name).mkdir()
    on, off = (engine_server(folder / n, experiment, experiment.variants[0]) for n in ("on", "off"))
    assert OFF in off.arguments
    off.arguments = [*off.arguments, "--enable-prompt-tokens-details"]
    on.arguments = [ON if argument == OFF else argument for argument in off.arguments]
    with serve_together([on, off]):
        yield _running(on.base_url), _running(off.base_url)


def _running(url: str) -> Server:
    with urllib.request.urlopen(f"{url}/metrics", timeout=HANGS_AFTER_SECONDS) as answer:
        sizes = re.findall(r'vllm:cache_config_info\{.*block_size="(\d+)"', answer.read().decode())
    return Server(url=url, tokens_of_block=int(sizes[0]))


def answered(
    server: Server,
    prompts: Sequence[Prompt],
    *,
    prompt_cache: PromptCache = "cold",
    queried: int | None = None,
) -> tuple[list[RequestRecord], PrefixCacheCounters | None]:
    """Send the prompts in turn; return the records, and what the server's counters gained.

    queried: how many tokens of the prompts the server looks up; None: all of them.
    """

    async def run() -> tuple[list[RequestRecord], PrefixCacheCounters | None]:
        shape = request_shape(load(ROOT / "experiments/rehearsal.yaml"))
        shape = replace(shape, output_tokens=4, prompt_cache=prompt_cache)
        client = Client(base_url=server.url, shape=shape)
        before = await read_metrics(server.url)
        records = [
            (await client.measure(prompt, request_id=f"r/{n}", seed=0)).record
            for n, prompt in enumerate(prompts)
        ]
        assert not any(record.failed for record in records), records
        most = sum(r.number_input_tokens or 0 for r in records) if queried is None else queried
        give_up_at = time.monotonic() + HANGS_AFTER_SECONDS
        while True:  # the counters grow a moment after an answer has ended
            counters = prefix_cache_between(before, await read_metrics(server.url))
            if counters is None or counters.queried_tokens >= most:
                return records, counters
            assert time.monotonic() < give_up_at, counters
            await asyncio.sleep(0.1)

    return asyncio.run(run())


def test_a_real_vllm_counts_whole_cached_blocks(servers: tuple[Server, Server]) -> None:
    on, _ = servers
    other = with_other_beginning(PROMPT, key="unmeasured")
    records, counters = answered(on, [other, PROMPT, PROMPT])
    tokens = records[-1].number_input_tokens or 0
    assert tokens > 2 * on.tokens_of_block
    cached = on.cached_in(tokens)
    # A prompt with another beginning leaves nothing in the cache for the measured one.
    assert [record.cached_input_tokens for record in records] == [0, 0, cached]
    assert counters is not None
    assert counters.cached_tokens == cached
    assert counters.queried_tokens == sum(r.number_input_tokens or 0 for r in records)


def test_salts_leave_nothing_for_each_other(servers: tuple[Server, Server]) -> None:
    on, _ = servers
    answered(on, [PROMPT])
    records, counters = answered(on, [PROMPT, PROMPT], prompt_cache="salted")
    assert [record.cached_input_tokens or 0 for record in records] == [0, 0]
    assert counters is not None
    assert counters.cached_tokens == 0


def test_a_vllm_without_its_cache_counts_none(servers: tuple[Server, Server]) -> None:
    _, off = servers
    records, counters = answered(off, [PROMPT, PROMPT], queried=0)
    assert [record.cached_input_tokens or 0 for record in records] == [0, 0]
    assert counters == PrefixCacheCounters(queried_tokens=0, cached_tokens=0)
