"""Messages of all kinds of logs become those of a chat request, and answers become text."""

import json
from typing import Any

import pytest

from draftworth.importing.messages import answer_text, read_messages
from draftworth.records.chat import NotSendableError, checked_messages

HELLO = {"role": "user", "content": "Hello"}


def langchain(name: str, **fields: Any) -> dict[str, Any]:
    return {"lc": 1, "type": "constructor", "id": ["langchain", "messages", name], "kwargs": fields}


@pytest.mark.parametrize(
    "value",
    [
        "Hello",
        [HELLO],
        {"messages": [HELLO]},
        HELLO,
        json.dumps([HELLO]),
        [["human", "Hello"]],
        [{"type": "human", "content": "Hello"}],
        [{"type": "human", "data": {"content": "Hello"}}],
        [[langchain("HumanMessage", content="Hello", type="human")]],
        [{"role": "user", "parts": [{"type": "text", "content": "Hello"}]}],
        [{"role": "user", "content": [{"text": "Hello"}]}],
        [{"role": "user", "content": [{"type": "input_text", "text": "Hello"}], "id": None}],
    ],
)
def test_one_message_in_many_forms(value: object) -> None:
    assert read_messages(value).messages == [HELLO]


@pytest.mark.parametrize(
    ("name", "role"),
    [("SystemMessage", "system"), ("AIMessageChunk", "assistant"), ("ToolMessage", "tool")],
)
def test_classes_of_langchain_are_roles(name: str, role: str) -> None:
    (message,) = read_messages([langchain(name, content="x")]).messages
    assert message == {"role": role, "content": "x"}


def test_several_texts_stay_parts() -> None:
    parts = [{"type": "text", "text": "a", "cache_control": {}}, {"type": "text", "text": "b"}]
    (message,) = read_messages([{"role": "user", "content": parts}]).messages
    assert message["content"] == [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]


def test_reasoning_is_left_out_with_a_note() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    content = [thought, {"type": "text", "text": "x"}]
    read = read_messages([{"role": "assistant", "content": content}])
    assert read.messages == [{"role": "assistant", "content": "x"}]
    assert [*read.notes] == ["with the model's reasoning, which is left out"]
    assert read_messages([{"role": "assistant", "content": [thought]}]).messages == []


def test_calls_that_stand_alone_join_a_message() -> None:
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    items = [{"role": "assistant", "content": "I look."}, call, {**call, "call_id": "d"}]
    (message,) = read_messages(items).messages
    assert message["content"] == "I look."
    assert [each["id"] for each in message["tool_calls"]] == ["c", "d"]


def test_results_stand_before_what_was_said_with_them() -> None:
    result = {"type": "tool_result", "tool_use_id": "c", "content": {"rain": True}}
    content = [{"type": "text", "text": "And now?"}, result]
    assert read_messages([{"role": "user", "content": content}]).messages == [
        {"role": "tool", "content": '{"rain": true}', "tool_call_id": "c"},
        {"role": "user", "content": "And now?"},
    ]


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ({"type": "image", "source": {}}, "with images"),
        ({"type": "input_image", "image_url": "x"}, "with images"),
        ({"type": "uri", "modality": "video", "uri": "x"}, "with video"),
        ({"type": "document", "source": {}}, "with files"),
        ({"type": "web_search_call"}, "of another form"),
        ({"type": ["text"]}, "of another form"),
        ({"type": "text"}, "of another form"),
    ],
)
def test_media_are_refused_as_in_chats(part: dict[str, Any], words: str) -> None:
    messages = read_messages([{"role": "user", "content": [part]}]).messages
    with pytest.raises(NotSendableError) as refused:
        checked_messages(messages)
    assert refused.value.kind == words


@pytest.mark.parametrize("value", [[7], [{}], [{"role": "user"}], 7, None, [{"order": 1}]])
def test_what_is_no_message_is_refused(value: object) -> None:
    with pytest.raises(NotSendableError, match="messages: "):
        read_messages(value)


@pytest.mark.parametrize(
    "value",
    [
        "Hi",
        {"role": "assistant", "content": "Hi"},
        {"choices": [{"message": {"role": "assistant", "content": "Hi"}}, {"text": "no"}]},
        {"generations": [[{"text": "Hi", "message": langchain("AIMessage", content="Hi")}]]},
        {"messages": [HELLO, {"type": "ai", "content": "Hi"}]},
        {"output": [{"type": "reasoning"}, {"role": "assistant", "content": "Hi"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "Hi"}]},
        [{"type": "text", "text": "Hi"}],
        json.dumps({"role": "assistant", "content": "Hi"}),
    ],
)
def test_an_answer_in_many_forms(value: object) -> None:
    assert answer_text(value) == "Hi"


@pytest.mark.parametrize(
    "value", [None, "", "data: {}", {}, {"error": {}}, {"choices": []}, [7], 7, {"output": [HELLO]}]
)
def test_no_answer_is_none(value: object) -> None:
    assert answer_text(value) is None


def test_json_that_a_model_wrote_is_text() -> None:
    for text in ('{"answer": 7}', '["a", "b"]', "[1, 2]", '{"text": "x"}', '{"role": "admin"}'):
        assert answer_text(text) == text
        assert read_messages(text).messages == [{"role": "user", "content": text}]
