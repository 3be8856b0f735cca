"""`compare` with servers that have a prefix cache: a saving by it is none with new prompts."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from draftworth.analysis.doubts import PromptsCached
from draftworth.decision.facts import RunFacts, facts_of
from draftworth.decision.run_decision import NextStep
from draftworth.records.run_folder import read_run
from draftworth.truth.token_timeline import MODEL, TimelineSpec
from draftworth.truth.trial import truth_server
from tests.draftworth.conftest import Ran

# The first 96 of 100 tokens of a prompt are in blocks that are found again.
BLOCK, PROMPT_TOKENS, CACHED = 16, 100, 96
PLAIN = TimelineSpec(output_tokens=4, ttft_seconds=0.05, gap_seconds=0.002)
WITH_CACHE = replace(PLAIN, cache_block_tokens=BLOCK, reports_cached=True)
ROUNDS = 2


@pytest.fixture
def urls(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Run a baseline without a prefix cache, and an equal server that has one."""
    (tmp_path / "mails").mkdir()
    prompts = ({"id": f"{n}", "prompt": f"{n} mail".ljust(PROMPT_TOKENS, ".")} for n in range(8))
    lines = "".join(json.dumps(prompt) + "\n" for prompt in prompts)
    (tmp_path / "mails" / "inbox.jsonl").write_text(lines)
    with ExitStack() as stack:
        first, second = (
            stack.enter_context(truth_server(spec, tmp_path / f"{name}.log"))
            for name, spec in (("plain", PLAIN), ("cached", WITH_CACHE))
        )
        yield first, second


def compared(ran: Ran, folder: Path, urls: tuple[str, str], *options: str) -> tuple[str, RunFacts]:
    baseline, variant = urls
    output = ran(
        *("compare", "--baseline", baseline, "--variant", f"fast={variant}", "--model", MODEL),
        *("--prompts", folder / "mails", "--out", folder / "runs", "--rounds", ROUNDS, *options),
    )
    (run,) = (folder / "runs").iterdir()
    return output, facts_of(read_run(run), {})


@pytest.mark.usefixtures("_every_request_counts")
def test_a_caches_saving_is_no_saving(ran: Ran, tmp_path: Path, urls: tuple[str, str]) -> None:
    output, facts = compared(ran, tmp_path, urls)
    # Each prompt is new in the first round, and no warm-up or filler has sent it before.
    share = CACHED / PROMPT_TOKENS * (ROUNDS - 1) / ROUNDS
    (comparison,) = facts.comparisons
    assert comparison.judgement == "inconclusive"
    assert comparison.reason == PromptsCached(variant="fast", share=share)
    assert "No decision: prompts were not new to fast." in output
    assert f"Prompt tokens from a cache: fast {share:.1%}" in output
    assert facts.decision.next_step is NextStep.MEASURE_COLD


@pytest.mark.usefixtures("_every_request_counts")
def test_salts_keep_a_caches_prompts_apart(ran: Ran, tmp_path: Path, urls: tuple[str, str]) -> None:
    output, facts = compared(ran, tmp_path, urls, "--cache", "salted")
    records = [r for block in facts.run.blocks for r in block.requests if block.variant == "fast"]
    assert {record.cached_input_tokens for record in records} == {0}
    assert not isinstance(facts.comparisons[0].reason, PromptsCached)
    assert "from a cache" not in output


@pytest.mark.usefixtures("_every_request_counts")
def test_a_wanted_cache_is_told_and_counts(ran: Ran, tmp_path: Path, urls: tuple[str, str]) -> None:
    output, facts = compared(ran, tmp_path, urls, "--cache", "warm")
    assert facts.run.result.prompt_cache == "warm"
    assert facts.cached_shares["fast"] > 0.4
    assert not isinstance(facts.comparisons[0].reason, PromptsCached)
    assert "Prompt tokens from a cache: fast" in output
