"""Prompts that are cut or padded to a load's prompt length, counted by a server's tokenizer."""

import asyncio
import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from draftworth.errors import DraftworthError
from draftworth.measuring.prompt_lengths import TOLERANCE, TOLERANCE_TOKENS, Tokenizer, fitted_cases
from draftworth.measuring.run_specification import RunSpec
from draftworth.records.load_shapes import ConcurrencyLoad, Load
from draftworth.records.prompt_files import Case, Prompt
from draftworth.records.run_folder import read_run
from tests.support.stand_in_runs import case, run, server, spec
from tests.support.stream_server import Request, Script, Step, plain, stream_server

SYSTEM = {"role": "system", "content": "You are brief."}
TEMPLATE_TOKENS = 5


def counted(request: Request) -> int:
    """Count tokens: half a token per character, and `TEMPLATE_TOKENS` per message."""
    body = request.json
    if "prompt" in body:
        return len(body["prompt"]) // 2
    tools = len(json.dumps(body["tools"])) if "tools" in body else 0
    texts = [message["content"] for message in body["messages"]]
    return sum(len(text) // 2 + TEMPLATE_TOKENS for text in texts) + tools


def tokenizing(script: Script) -> Script:
    """Return a server like `script` that also counts tokens, at `/tokenize`."""

    def answer(request: Request) -> Iterable[Step]:
        if request.path != "/tokenize":
            return script(request)
        ids = [0] * (count := counted(request))
        return plain("200 OK", json.dumps({"count": count, "tokens": ids}).encode())

    return answer


def loads(*lengths: int | None) -> tuple[Load, ...]:
    return tuple(ConcurrencyLoad(concurrency=1, input_tokens=length) for length in lengths)


def fitted(
    cases: list[Case], *lengths: int, script: Script | None = None, rounds: int = 10
) -> dict[int, Case]:
    """Return the first of the cases with prompts of each length, by length."""
    with stream_server(script or tokenizing(server(1))) as a:
        run_spec = spec(a.base_url, cases=cases, loads=loads(*lengths), max_rounds=rounds)
        tokenizer = Tokenizer(base_url=a.base_url, shape=run_spec.shape, api_key=None)
        cases_by_length = asyncio.run(fitted_cases(run_spec, tokenizer, lambda _: None))
    assert cases_by_length[None] == run_spec.cases
    return {length: cases_by_length[length][0] for length in lengths}


def only(prompt: Prompt) -> list[Case]:
    """Return one case whose only prompt is this one."""
    return [Case(prompt_class="structured", name="chat", prompts=(prompt,))]


def text_of(prompt: Prompt) -> str:
    """Return the text of the prompt's last message, which is the user's."""
    text = prompt.messages[-1]["content"]
    assert isinstance(text, str)
    return text


def tokens(prompt: Prompt) -> int:
    return sum(len(message["content"]) // 2 + TEMPLATE_TOKENS for message in prompt.messages)


@pytest.mark.parametrize("length", [12, 100, 3000])
def test_a_prompt_has_the_requested_length_or_less(length: int) -> None:
    made = fitted([case("count", 8)], length)[length]

    for prompt in made.prompts:
        least = length - max(TOLERANCE_TOKENS, TOLERANCE * length)
        assert least <= tokens(prompt) <= length
    assert [prompt.id for prompt in made.prompts] == [f"count-{i}" for i in range(8)]


def test_padding_is_other_prompts_with_the_question_last() -> None:
    made = fitted([case("count", 3)], 60)[60]

    texts = [text_of(prompt) for prompt in made.prompts]
    assert [text.rsplit("\n\n", 1)[1] for text in texts] == ["count 0", "count 1", "count 2"]
    assert texts[0].endswith("count 1\n\ncount 2\n\ncount 0")
    # Each prompt begins with another text, so a prefix cache has no part of it from another prompt.
    assert len({text[:20] for text in texts}) == 3


def test_a_long_prompt_is_cut_from_the_front() -> None:
    text = " ".join(f"sentence {i}." for i in range(100)) + " And now the question?"
    long = Prompt(id="long", messages=({"role": "user", "content": text},))
    made = fitted(only(long), 50)[50]

    assert text.endswith(text_of(made.prompts[0]))
    assert text_of(made.prompts[0]).endswith("And now the question?")


def test_only_the_users_last_message_changes() -> None:
    first, answer = {"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}
    question = {"role": "user", "content": [{"type": "text", "text": "How many?"}]}
    tools = ({"type": "function", "function": {"name": "weather"}},)
    prompt = Prompt(
        id="chat", messages=(SYSTEM, first, answer, question), tools=tools, max_tokens=7
    )
    made = fitted(only(prompt), 300)[300]

    (made_prompt,) = made.prompts
    assert made_prompt.messages[:3] == (SYSTEM, first, answer)
    assert text_of(made_prompt).endswith("\n\nHow many?")
    assert (made_prompt.id, made_prompt.tools, made_prompt.max_tokens) == ("chat", tools, 7)


def test_a_text_to_continue_is_made_longer_too() -> None:
    prompt = Prompt(id="text", text_to_continue="Once upon a time")
    made = fitted(only(prompt), 200)[200]

    text = made.prompts[0].text_to_continue
    assert text is not None
    assert text.endswith("Once upon a time")
    assert 192 <= len(text) // 2 <= 200


def test_the_same_server_makes_the_same_prompts() -> None:
    cases = [case("count", 5)]
    assert fitted(cases, 100, 1000) == fitted(cases, 100, 1000)


def test_no_more_prompts_are_made_than_sent() -> None:
    assert len(fitted([case("count", 50)], 40, rounds=1)[40].prompts) == 4


LONG_SYSTEM = {"role": "system", "content": "x" * 200}
QUESTION = {"role": "user", "content": "?"}


def answering(status: str, body: bytes = b"") -> Script:
    """Return a server that gives this answer to every request."""
    return lambda _: plain(status, body)


@pytest.mark.parametrize(
    ("cases", "script", "message"),
    [
        ([case("count")], answering("404 Not Found"), r"HTTP 404.*is a list.*give one number"),
        (
            only(Prompt(id="long", messages=(LONG_SYSTEM, QUESTION))),
            None,
            r"structured/chat, long: 110 tokens without the user's .*: fewer than the 100",
        ),
        (
            only(Prompt(id="s", messages=(SYSTEM,))),
            None,
            r"structured/chat, s: no message of the user",
        ),
        ([case("count")], answering("200 OK", b'{"count": "7"}'), "no number of tokens"),
        ([case("count")], answering("200 OK", b"<html>"), "not JSON"),
        ([case("count")], answering("200 OK", b'{"count": 7}'), "does not count them"),
    ],
)
def test_what_cannot_be_made_so_long_says_why(
    cases: list[Case], script: Script | None, message: str
) -> None:
    with pytest.raises(DraftworthError, match=message):
        fitted(cases, 100, script=script)


def ladder_of_lengths(*urls: str) -> RunSpec:
    run_spec = spec(*urls, cases=[case("count", 4)], loads=loads(40, 400), max_rounds=2)
    return replace(run_spec, sampling=replace(run_spec.sampling, min_requests=4))


def test_a_run_sends_each_length_to_every_variant(tmp_path: Path) -> None:
    with (
        stream_server(tokenizing(server(1, 1))) as a,
        stream_server(tokenizing(server(2))) as b,
    ):
        result = run(ladder_of_lengths(a.base_url, b.base_url), tmp_path)
        sent = [
            [counted(r) for r in s.requests if r.path == "/v1/chat/completions"] for s in (a, b)
        ]
    assert result.status == "complete", result.reason
    # Only the baseline's server is asked to count tokens.
    assert not any(request.path == "/tokenize" for request in b.requests)
    assert sent[0] == sent[1]
    _gate, *measured = sent[0]
    assert all(32 <= count <= 40 or 392 <= count <= 400 for count in measured)
    assert {b.load.label for b in read_run(tmp_path / "test-1").blocks} == {"c1-i40", "c1-i400"}


def test_a_server_without_tokenizer_ends_the_run_first(
    tmp_path: Path,
) -> None:
    def without_tokenize(request: Request) -> Iterable[Step]:
        if request.path == "/tokenize":
            return plain("404 Not Found", b"")
        return server(1)(request)

    with stream_server(without_tokenize) as a, stream_server(server(2)) as b:
        result = run(ladder_of_lengths(a.base_url, b.base_url), tmp_path)

    assert result.status == "failed"
    assert "/tokenize: answered: HTTP 404" in result.reason
    assert result.blocks == ()
