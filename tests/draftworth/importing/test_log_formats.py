"""Converting records of each log format: requests, answers, and records that cannot be used."""

import base64
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from draftworth.importing.chat_log import Logged
from draftworth.importing.forms.openai_chat import openai_jsonl, sagemaker
from draftworth.importing.forms.public_sets import sharegpt, speed_bench
from draftworth.importing.log_formats import FORMATS
from draftworth.records.chat import NotSendableError
from draftworth.records.prompt_files import prompt_of

QUESTION = [{"role": "user", "content": "2+2?"}]
FOUR = {"role": "assistant", "content": "4"}
ANSWERED = {"choices": [{"message": FOUR}]}
TEXT = ("without messages, taken as texts to continue, which get no chat template",)
NO_ANSWER = Logged(line={"messages": QUESTION}, answer=None)
CALL = {"id": "c", "type": "function", "function": {"name": "add", "arguments": "[2,2]"}}


def test_a_line_of_a_batch_is_its_body() -> None:
    body = {"model": "m", "messages": QUESTION, "max_completion_tokens": 9}
    logged = openai_jsonl({"custom_id": "a", "method": "POST", "url": "/v1/x", "body": body})
    assert logged == Logged(line={"messages": QUESTION, "max_tokens": 9}, answer=None, model="m")


def test_a_chats_final_answer_is_not_sent() -> None:
    logged = openai_jsonl({"messages": [*QUESTION, FOUR]})
    assert (logged.line, logged.answer) == ({"messages": QUESTION}, "4")


@pytest.mark.parametrize(
    "response", [ANSWERED, {"status_code": 200, "body": ANSWERED}, "4", {"generated_text": "4"}]
)
def test_a_log_has_request_and_response(response: object) -> None:
    assert openai_jsonl({"request": {"messages": QUESTION}, "response": response}).answer == "4"
    wrapped = {"request": {"body": {"messages": QUESTION}}, "response": response}
    assert openai_jsonl(wrapped) == Logged(line={"messages": QUESTION}, answer="4")


def test_a_text_for_training_has_prompt_and_completion() -> None:
    logged = openai_jsonl({"prompt": "2+2=", "completion": "4"})
    assert logged == Logged(line={"text_to_continue": "2+2="}, answer="4", notes=TEXT)


@pytest.mark.parametrize(
    "response", [{"error": {}}, {"choices": []}, {"choices": [7]}, [], 7, "data: {}\n\n", ""]
)
def test_a_response_without_answer_leaves_the_question(response: object) -> None:
    assert openai_jsonl({"request": {"messages": QUESTION}, "response": response}) == NO_ANSWER


def test_tool_calls_are_answers_as_in_measured_streams() -> None:
    message = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    request = {"messages": QUESTION, "tools": [CALL], "tool_choice": "auto"}
    logged = openai_jsonl({"request": request, "response": {"choices": [{"message": message}]}})
    assert logged.answer == "add[2,2]"
    assert logged.line == request


def test_empty_keys_of_a_responses_message_are_dropped() -> None:
    empty: dict[str, object] = {"refusal": None, "annotations": [], "function_call": None}
    history = [{**QUESTION[0], **empty}, {**FOUR, **empty}, *QUESTION]
    logged = openai_jsonl({"messages": history})
    assert logged.line["messages"] == [*QUESTION, FOUR, *QUESTION]
    prompt_of({"id": "a", **logged.line})


def test_what_is_changed_or_not_kept_is_said() -> None:
    body = {
        "messages": [{"role": "developer", "content": "be"}, *QUESTION],
        "temperature": 0.7,
        "top_p": 1,
        "stop": ["\n"],
        "parameters": {"top_k": 40},
    }
    logged = openai_jsonl({"body": body})
    assert logged.line["messages"][0]["role"] == "system"
    assert logged.notes == (
        "with the role developer, written as system",
        "with temperature, which is not kept",
        "with stop, which is not kept",
        "with top_k, which is not kept",
    )


def test_a_text_to_continue_is_one() -> None:
    response = {"choices": [{"text": " up"}]}
    logged = openai_jsonl({"request": {"prompt": "Once"}, "response": response})
    assert logged == Logged(line={"text_to_continue": "Once"}, answer=" up", notes=TEXT)


def captured(request: object, response: object, encoding: str = "JSON") -> dict[str, Any]:
    def part(value: object) -> dict[str, Any]:
        text = json.dumps(value)
        data = base64.b64encode(text.encode()).decode() if encoding == "BASE64" else text
        return {"observedContentType": "application/json", "data": data, "encoding": encoding}

    return {
        "captureData": {"endpointInput": part(request), "endpointOutput": part(response)},
        "eventMetadata": {"eventId": "e", "inferenceTime": "2026-11-01T00:00:00Z"},
        "eventVersion": "0",
    }


CAPTURED = datetime(2026, 11, 1, tzinfo=UTC)


@pytest.mark.parametrize("encoding", ["JSON", "BASE64"])
def test_data_capture_has_both_as_text(encoding: str) -> None:
    logged = sagemaker(captured({"messages": QUESTION}, ANSWERED, encoding))
    assert logged == Logged(line={"messages": QUESTION}, answer="4", time=CAPTURED)


def test_data_capture_of_a_text_to_continue() -> None:
    request = {"inputs": "Once", "parameters": {"max_new_tokens": 5}}
    logged = sagemaker(captured(request, [{"generated_text": " upon"}]))
    line = {"text_to_continue": "Once", "max_tokens": 5}
    assert logged == Logged(line=line, answer=" upon", notes=TEXT, time=CAPTURED)


def test_data_capture_without_answer_keeps_the_question() -> None:
    line = captured({"messages": QUESTION}, None)
    for output in (None, 7, {"data": "4", "encoding": "CSV"}, {"data": "data: {}"}):
        line["captureData"]["endpointOutput"] = output
        assert sagemaker(line) == replace(NO_ANSWER, time=CAPTURED)


def test_sharegpt_is_the_first_question_and_its_answer() -> None:
    turns = [("system", "be"), ("human", "2+2?"), ("gpt", "4"), ("human", "and 3?"), ("gpt", "5")]
    logged = sharegpt({"id": "x", "conversations": [{"from": f, "value": v} for f, v in turns]})
    assert logged.line == {"messages": [{"role": "system", "content": "be"}, *QUESTION]}
    assert logged.answer == "4"


@pytest.mark.parametrize(
    "record",
    [
        {"question_id": "q", "category": "math", "turns": ["2+2?", "and 3?"]},
        {"category": "math", "messages": [*QUESTION, {"role": "user", "content": "and 3?"}]},
    ],
)
def test_speed_bench_gives_first_turns_by_category(record: dict[str, Any]) -> None:
    logged = speed_bench(record)
    assert (logged.line, logged.case) == ({"messages": QUESTION}, "math")
    assert logged.notes == ("of several turns, of which the first is taken",)


UNUSABLE = yaml.safe_load(Path(__file__).with_name("unusable.yaml").read_text())


@pytest.mark.parametrize(
    ("form", "record", "words"), [(form, *row) for form, rows in UNUSABLE.items() for row in rows]
)
def test_unusable_records_are_counted_by_kind(
    form: str, record: dict[str, Any], words: str
) -> None:
    with pytest.raises(NotSendableError) as refused:
        prompt_of({"id": "a", **FORMATS[form].read(record).line})
    assert refused.value.kind.startswith(words)
