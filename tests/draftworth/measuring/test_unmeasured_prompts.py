"""Requests that are not measured have the measured prompts, with another beginning."""

from dataclasses import replace
from typing import Any

import pytest

from draftworth.measuring.unmeasured_prompts import with_other_beginning
from draftworth.records.prompt_files import Prompt, prompt_of
from draftworth.records.results import PromptCache
from tests.support.serving_facts import make_serving_facts
from tests.support.stand_in_runs import case, spec

PARTS = [{"type": "text", "text": "b"}, {"type": "text", "text": "c"}]
CALL = {"type": "function", "function": {"name": "f", "arguments": "{}"}}
SYSTEM, USER = {"role": "system", "content": "s"}, {"role": "user", "content": "u"}
CALLING: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": [CALL]}


def changed(*messages: dict[str, Any], key: str = "k") -> list[dict[str, Any]]:
    prompt = with_other_beginning(Prompt(id="p", messages=messages), key=key)
    return [dict(message) for message in prompt.messages]


def test_a_line_with_a_number_comes_first() -> None:
    number = changed(USER)[0]["content"].removesuffix("\nu")
    assert number.isdecimal()
    assert len(number) == 4


@pytest.mark.parametrize(
    ("messages", "places"),
    [
        ((USER,), ["user"]),
        ((SYSTEM, USER), ["system"]),
        ((CALLING, USER), ["user"]),  # a message without text has no beginning to change
    ],
)
def test_the_first_text_of_a_conversation_changes(
    messages: tuple[dict[str, Any], ...], places: list[str]
) -> None:
    after = changed(*messages)
    assert [m["role"] for m, old in zip(after, messages, strict=True) if m != old] == places


def test_parts_of_a_text_get_one_more() -> None:
    (message,) = changed({"role": "user", "content": PARTS})
    first, *rest = message["content"]
    assert rest == PARTS
    assert first["type"] == "text"
    # Prompt files may hold the result, so a server can be sent it.
    assert prompt_of({"id": "p", "messages": [message]})


def test_a_conversation_without_text_gets_some() -> None:
    first, second = changed(CALLING)
    assert second == CALLING
    assert first["role"] == "user"


def test_a_text_to_continue_has_the_line_too() -> None:
    prompt = Prompt(id="p", text_to_continue="Once")
    text = with_other_beginning(prompt, key="k").text_to_continue
    assert text == changed(USER)[0]["content"].removesuffix("u") + "Once"


def test_another_key_is_another_beginning() -> None:
    texts = {changed(USER, key=f"c1/{n}/filler-0")[0]["content"] for n in range(50)}
    assert len(texts) >= 49  # of 10,000 numbers, two may be the same
    assert changed(USER, key="a") == changed(USER, key="a")


@pytest.mark.parametrize(
    ("prompt_cache", "is_new"), [("cold", True), ("salted", True), ("warm", False)]
)
def test_a_wanted_cache_may_have_every_prompt(prompt_cache: PromptCache, *, is_new: bool) -> None:
    run_spec = spec("http://a", cases=[case("count")])
    run_spec = replace(run_spec, shape=replace(run_spec.shape, prompt_cache=prompt_cache))
    assert run_spec.keeps_prompts_new is is_new


def test_an_experiments_servers_have_no_cache() -> None:
    run_spec = spec("http://a", cases=[case("count")])
    assert run_spec.keeps_prompts_new
    assert not replace(run_spec, serving=make_serving_facts()).keeps_prompts_new
    started = tuple(replace(endpoint, server="a") for endpoint in run_spec.endpoints)
    assert not replace(run_spec, endpoints=started).keeps_prompts_new


def test_a_prompt_made_to_a_length_keeps_it() -> None:
    run_spec = spec("http://a", cases=[case("count")])
    loads = tuple(replace(load, input_tokens=512) for load in run_spec.loads)
    assert not replace(run_spec, loads=loads).keeps_prompts_new
