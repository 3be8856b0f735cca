"""The truth server's prefix cache: only whole blocks behind the same prefix are found again."""

import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from draftworth.errors import UserInputError
from draftworth.truth.block_cache import BlockCache, PromptTokens
from draftworth.truth.request_log import read_log
from draftworth.truth.token_timeline import TimelineSpec, writes_of
from draftworth.truth.trial import truth_server
from tests.support.waiting import HANGS_AFTER_SECONDS

TEXT = "0123456789abcdef"
CACHED = TimelineSpec(output_tokens=2, gap_seconds=0.0, ttft_seconds=0.4, cache_block_tokens=4)


@pytest.mark.parametrize(
    ("again", "cached"),
    [
        (TEXT, 12),  # the last token is computed, and with it the block that has it
        (f"{TEXT}g", 16),
        (f"{TEXT[:11]}x", 8),
        (TEXT[:4], 0),
        (TEXT[:5], 4),
        ("x" + TEXT, 0),
        ("", 0),
    ],
)
def test_whole_blocks_are_found_again(again: str, cached: int) -> None:
    cache = BlockCache(block_tokens=4)
    assert cache.cached_tokens(TEXT) == 0
    assert cache.cached_tokens(again) == cached


def test_a_salt_has_a_cache_of_its_own() -> None:
    cache = BlockCache(block_tokens=4)
    assert cache.cached_tokens(TEXT, salt="a") == cache.cached_tokens(TEXT, salt="b") == 0
    assert cache.cached_tokens(TEXT, salt="a") == 12


@pytest.mark.parametrize(("cached", "wait_s"), [(None, 0.4), (0, 0.4), (4, 0.3), (16, 0.0)])
def test_cached_tokens_shorten_the_first_wait(cached: int | None, wait_s: float) -> None:
    prompt = PromptTokens(tokens=16, cached=cached)
    first, *_ = writes_of(CACHED, 0, "every_chunk", prompt=prompt)
    assert first.offset_ns == pytest.approx(wait_s * 1e9)


def ask(url: str, text: str, **more: Any) -> dict[str, Any]:
    """Return the usage that ends the answer to a prompt."""
    body = {"prompt": text, "stream": True, "stream_options": {"include_usage": True}, **more}
    request = urllib.request.Request(f"{url}/v1/completions", json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=HANGS_AFTER_SECONDS) as answer:
        *_, last, _done, _end = answer.read().decode().split("\n\n")
    usage: dict[str, Any] = json.loads(last.removeprefix("data: "))["usage"]
    return usage


@pytest.mark.parametrize("reports", [True, False])
def test_the_server_reports_its_cache_where_wanted(tmp_path: Path, *, reports: bool) -> None:
    quick = f'{{"reports_cached": {json.dumps(reports)}, "ttft_seconds": 0.05}}'
    with truth_server(CACHED.changed(quick), tmp_path / "log") as url:
        usages = [ask(url, TEXT), ask(url, TEXT), ask(url, TEXT, cache_salt="own")]
    assert [usage["prompt_tokens"] for usage in usages] == [16] * 3
    details = [usage.get("prompt_tokens_details") for usage in usages]
    assert details == [{"cached_tokens": n} if reports else None for n in (0, 12, 0)]
    # It is planned for the same time whether or not it is reported.
    waits = [(log.writes[0].due_ns - log.handled_ns) / 1e9 for log in read_log(tmp_path / "log")]
    assert waits == pytest.approx([0.05, 0.0125, 0.05])


def test_a_block_cannot_be_smaller_than_nothing() -> None:
    with pytest.raises(UserInputError, match=r"cache_block_tokens: allowed: 0 to 10,000"):
        CACHED.changed('{"cache_block_tokens": -1}')
