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
from draftworth.measuring.http_client import API_KEY_VARIABLE
from draftworth.records.results import SPECIFICATION_FILE
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
    assert "Cure:  start the servers with no prefix cache" in output
    (first,) = (tmp_path / "runs").iterdir()
    assert f"compare --again {first}\n" in output


@pytest.mark.usefixtures("_every_request_counts")
def test_one_more_run_takes_servers_and_prompts(
    ran: Ran, tmp_path: Path, urls: tuple[str, str]
) -> None:
    _, doubted = compared(ran, tmp_path, urls)
    (first,) = (tmp_path / "runs").iterdir()
    output = ran("compare", "--again", first, "--cache", "salted")
    (second,) = {*(tmp_path / "runs").iterdir()} - {first}
    facts = facts_of(read_run(second), {})
    assert facts.run.result.prompt_cache == "salted"
    assert "prompts were not new" not in output
    assert len(facts.run.blocks) >= len(doubted.run.blocks)
    sent = [{r.prompt_id for b in f.run.blocks for r in b.requests} for f in (doubted, facts)]
    assert sent[0] == sent[1]
    assert read_run(first).result == doubted.run.result


@pytest.mark.usefixtures("_every_request_counts")
def test_what_cannot_be_repeated_is_refused(
    ran: Ran, tmp_path: Path, urls: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    compared(ran, tmp_path, urls)
    (first,) = (tmp_path / "runs").iterdir()
    both = ran("compare", "--again", first, "--resume", first, code=2)
    assert "--again: given with --resume, allowed: one of them" in both
    part = ran("compare", "--again", first, "--baseline", urls[0], code=2)
    assert "--again: given with a part of the servers" in part
    specification = first / SPECIFICATION_FILE
    spec = json.loads(specification.read_text())
    spec["cases"][0]["prompts"][0]["max_tokens"] = 9
    spec["endpoints"][1]["base_url"] = "http://elsewhere.invalid:1"
    specification.write_text(json.dumps(spec))
    short = ran("compare", "--again", first, "--output-tokens", 4, code=2)
    assert "--output-tokens: given 4, allowed: at least the 9" in short
    monkeypatch.setenv(API_KEY_VARIABLE, "sk-secret")
    remote = ran("compare", "--again", first, code=2)
    assert f"--again: given {first}, which sends your {API_KEY_VARIABLE} to" in remote
    nothing = ran("compare", "--again", tmp_path, code=2)
    assert "allowed: the folder of a run of compare or measure" in nothing


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
