"""Converts one record of a log or a public data set to a request and its answer, by format.

Sources: OpenAI, batch input and fine-tuning files; Amazon SageMaker, data capture from real-time
endpoints; SPEED-Bench, data card (question_id, category, turns) and NeMo-Skills' prepare.py, which
writes messages instead of turns; Spec-Bench, question.jsonl (question_id, category, turns).
"""

import base64
from collections.abc import Callable, Mapping
from typing import Any

from draftworth.importing.chat_log import Logged, logged
from draftworth.records.chat import NotSendableError, wrong_form
from draftworth.records.codec import RecordError, load_value

# SPEED-Bench has this text in the place of prompts that it must not publish itself.
_PLACEHOLDER = "FULL BENCHMARK DATA SHOULD BE FETCHED"
_ASKERS, _ANSWERERS = ("human", "user"), ("gpt", "chatgpt", "assistant", "model", "bard", "bing")


def openai_jsonl(value: Mapping[str, Any]) -> Logged:
    """Read a line of OpenAI's batch input or fine-tuning files, or of a log with responses."""
    request = _body(value.get("body") or value.get("request") or value)
    return logged(request, _body(value.get("response", value.get("completion"))))


def sagemaker(value: Mapping[str, Any]) -> Logged:
    """Read a line of SageMaker's data capture: a request to an endpoint and its response.

    An unreadable response counts as not logged; an unreadable request raises NotSendableError.
    """
    captured = value.get("captureData")
    if not isinstance(captured, dict) or "endpointInput" not in captured:
        raise NotSendableError("without captureData", "no captureData.endpointInput")
    request = _payload(captured["endpointInput"])
    try:
        response = _payload(captured.get("endpointOutput"))
    except NotSendableError:  # the request is useful without its answer
        response = None
    return logged(request, response)


def sharegpt(value: Mapping[str, Any]) -> Logged:
    """Read a conversation of a ShareGPT file: its first question and the answer to that.

    vLLM's benchmark takes the same two turns.
    """
    turns = value.get("conversations")
    if not isinstance(turns, list) or not all(map(_is_turn, turns)):
        raise wrong_form("conversations: not a list of turns")
    system, rest = (turns[:1], turns[1:]) if turns and turns[0]["from"] == "system" else ([], turns)
    if not rest or rest[0]["from"] not in _ASKERS:
        raise NotSendableError("without a question", "the first turn asks nothing")
    messages = [{"role": "system", "content": turn["value"]} for turn in system]
    messages.append({"role": "user", "content": rest[0]["value"]})
    answered = len(rest) > 1 and rest[1]["from"] in _ANSWERERS
    return Logged(
        line={"messages": messages}, answer=rest[1]["value"] or None if answered else None
    )


def speed_bench(value: Mapping[str, Any]) -> Logged:
    """Read the first turn of a SPEED-Bench or Spec-Bench record; its category names the case."""
    messages = value.get("messages")
    if messages is None:
        turns = value.get("turns")
        if not isinstance(turns, list) or not turns:
            raise NotSendableError("without messages or turns", "neither messages nor turns")
        messages = [{"role": "user", "content": turn} for turn in turns]
    first, left = _up_to_first_question(messages)
    if any(_PLACEHOLDER in str(message.get("content")) for message in first):
        raise NotSendableError(
            "with a placeholder for the text, which the set's prepare.py fills in", "no text"
        )
    category = value.get("category")
    notes = ("of several turns, of which the first is taken",) if left else ()
    case = category if isinstance(category, str) else None
    return Logged(line={"messages": first}, answer=None, case=case, notes=notes)


Format = Callable[[Mapping[str, Any]], Logged]
FORMATS: Mapping[str, Format] = {
    "openai-jsonl": openai_jsonl,
    "sagemaker": sagemaker,
    "sharegpt": sharegpt,
    "speed-bench": speed_bench,
}


def _body(value: object) -> object:
    inner = value.get("body") if isinstance(value, dict) else None
    return value if inner is None else inner


def _payload(captured: object) -> Any:
    if not isinstance(captured, dict):
        raise wrong_form("captureData: a part that is not an object")
    data, encoding = captured.get("data"), captured.get("encoding")
    try:
        if isinstance(data, str) and encoding == "BASE64":
            return load_value(base64.b64decode(data, validate=True))
        return load_value(data if isinstance(data, str) and encoding == "JSON" else "")
    except (RecordError, ValueError) as error:
        raise NotSendableError("with data that is not JSON", "the data cannot be read") from error


def _is_turn(turn: object) -> bool:
    return (
        isinstance(turn, dict)
        and isinstance(turn.get("from"), str)
        and isinstance(turn.get("value"), str)
    )


def _up_to_first_question(messages: object) -> tuple[list[dict[str, Any]], int]:
    if not isinstance(messages, list) or not all(isinstance(m, dict) for m in messages):
        raise wrong_form("messages: not a list of objects")
    for index, message in enumerate(messages):
        if message.get("role") == "user":
            return messages[: index + 1], len(messages) - index - 1
    raise NotSendableError("without a question", "no message of a user")
