"""The gates between the servers' start and the first block: one short answer of each server."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from draftworth.measuring.gates import (
    ANSWER_TOKENS,
    BASELINE_ANSWERS,
    LOAD,
    TRIES,
    VARIANT_ANSWERS,
)
from draftworth.records.results import RunResult
from draftworth.records.run_folder import read_run
from draftworth.records.servers import (
    COMPILE_LIMIT_MINUTES,
    LOAD_LIMIT_MINUTES,
    SELF_TEST_LIMIT_MINUTES,
)
from tests.conftest import ROOT
from tests.support.stand_in_runs import case, run, server, spec
from tests.support.stream_server import (
    DONE,
    HEADERS,
    Request,
    Script,
    Step,
    StreamServer,
    Write,
    completion,
    event,
    plain,
    stream_server,
    usage_event,
)

MODELS = plain("200 OK", b'{"data": [{"id": "other"}, {"id": "another"}, {}, 3]}')
NO_MODEL = plain("404 Not Found", b"The model `tiny` does not exist.")
EMPTY = [Write(HEADERS), Write(event("", tokens=8, finish="length")), Write(DONE)]
NO_TOKEN = [Write(HEADERS), Write(usage_event(0)), Write(DONE)]


def answering(*posts: Sequence[Step]) -> Script:
    """Return a healthy server that answers its first requests with `posts`, all others well."""
    left = [*posts]

    def script(request: Request) -> Iterable[Step]:
        if request.method == "POST":
            return left.pop(0) if left else completion(1, 1)
        return MODELS if request.path == "/v1/models" else plain("200 OK", b"")

    return script


def count_of_posts(requests: Sequence[Request]) -> int:
    return sum(request.method == "POST" for request in requests)


def test_baseline_and_then_variant_answer_one_prompt(tmp_path: Path) -> None:
    with stream_server(server(1, 1, 1)) as a, stream_server(server(2, 1)) as b:
        run_spec = spec(a.base_url, b.base_url, cases=[case("count"), case("repeat")])
        result = run(run_spec, tmp_path)
        first = [next(r.json for r in s.requests if r.method == "POST") for s in (a, b)]

    assert result.status == "complete"
    assert [(g.gate, g.variant, g.tokens) for g in result.gates] == [
        ("baseline answers", "baseline", 3),
        ("variant answers", "k7", 3),
    ]
    assert all(g.seconds > 0 and g.at_unix_s >= result.started_at_unix_s for g in result.gates)
    assert read_run(tmp_path / "test-1").result.gates == result.gates
    # It is the last prompt of the first case, with another beginning, so that the gate puts no
    # measured prompt into a server's cache.
    assert first[0] == first[1]
    assert re.fullmatch("[0-9]{4}\ncount 2", first[0]["messages"][0]["content"])
    assert first[0]["max_tokens"] == ANSWER_TOKENS


def run_with(bad: Script, failing: str, folder: Path) -> tuple[RunResult, Sequence[StreamServer]]:
    """Measure two variants, `failing` on the server `bad`; return the result and both servers."""
    scripts = {"baseline": answering(), "k7": answering(), failing: bad}
    with stream_server(scripts["baseline"]) as a, stream_server(scripts["k7"]) as b:
        run_spec = spec(a.base_url, b.base_url, cases=[case("count"), case("repeat")])
        return run(run_spec, folder), (a, b)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (NO_MODEL, "answer: 404: The model `tiny` does not exist."),
        (EMPTY, "answer: an empty text"),
        (NO_TOKEN, "answer: the server sent no output token"),
    ],
)
@pytest.mark.parametrize("failing", ["baseline", "k7"])
def test_a_server_without_answer_ends_the_run_immediately(
    tmp_path: Path, failing: str, answer: Sequence[Step], why: str
) -> None:
    result, (a, b) = run_with(answering(*[answer] * 9), failing, tmp_path)

    broken = a if failing == "baseline" else b
    gate = "baseline answers" if failing == "baseline" else "variant answers"
    assert result.status == "failed"
    assert result.reason == (
        f"gate `{gate}`: {failing} at {broken.base_url}, {why}; asked for: up to 8 tokens of tiny "
        f"to a prompt of structured/count; {broken.base_url}/v1/models lists: other, another; "
        "next: ask for a model that is listed"
    )
    assert (count_of_posts(a.requests), count_of_posts(b.requests)) == (1, int(failing == "k7"))
    assert result.blocks == ()
    assert len(result.gates) == int(failing == "k7")


def test_a_tool_parser_may_hold_first_tokens_back(tmp_path: Path) -> None:
    tool = {"type": "function", "function": {"name": "find"}}
    prompts = tuple(replace(p, tools=(tool,)) for p in case("count").prompts)
    with stream_server(answering(EMPTY)) as a:
        run_spec = spec(a.base_url, cases=[replace(case("count"), prompts=prompts)])
        assert run(run_spec, tmp_path).status == "complete"


@pytest.mark.parametrize(("failures", "status"), [(TRIES - 1, "complete"), (TRIES, "failed")])
def test_a_fault_that_may_pass_is_tried_again(tmp_path: Path, failures: int, status: str) -> None:
    fault = plain("502 Bad Gateway", b"no upstream")
    with stream_server(answering(*[fault] * failures)) as flaky:
        result = run(spec(flaky.base_url, cases=[case("count")]), tmp_path)

    assert result.status == status
    assert ("502: no upstream" in result.reason) == (status == "failed")


@pytest.mark.parametrize("failing", ["baseline", "k7"])
def test_a_first_block_of_failures_ends_the_run(tmp_path: Path, failing: str) -> None:
    boom = plain("500 Internal Server Error", b"boom")
    result, _ = run_with(answering(completion(1), *[boom] * 99), failing, tmp_path)

    assert result.status == "failed"
    (stem,) = [stem for stem in result.blocks if failing in stem]
    assert result.reason == f"gate `load`: every request failed in {stem}: 500: boom"
    blocks = read_run(tmp_path / "test-1").blocks
    assert {r.error_code for b in blocks for r in b.requests if b.variant == failing} == {500}


def test_operations_show_the_gates_with_their_limits() -> None:
    page = (ROOT / "docs" / "operations.md").read_text()
    for words in (
        f"| self-test | .*, {SELF_TEST_LIMIT_MINUTES} minutes of a pod at most",
        f"| {BASELINE_ANSWERS} | .* one prompt with {ANSWER_TOKENS} tokens | ready: ",
        f"{LOAD_LIMIT_MINUTES} minutes with compiled graphs, {COMPILE_LIMIT_MINUTES} without",
        f"| {VARIANT_ANSWERS} | .*, at most {TRIES} tries",
        f"| {LOAD} | ",
    ):
        assert re.search(words.replace("|", r"\|"), page), words
