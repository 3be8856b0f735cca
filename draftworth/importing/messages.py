"""Converts the messages of any log to those of a chat request, and its answers to plain text.

Logs write the same message in many ways: with a content or with parts, with `role` or with `type`,
a tool's call beside the content or in it. What these ways have in common is read here, so that a
log's form says only where its messages are.

Sources: OpenAI, Chat Completions and Responses; Anthropic, Messages; OpenTelemetry, JSON Schemas of
gen_ai.input.messages and gen_ai.output.messages; LangChain, serialised messages (`lc`, `type`) and
content blocks.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from draftworth.records.chat import NotSendableError, wrong_form
from draftworth.records.codec import RecordError, load_value

_ROLES = {
    **dict.fromkeys(("user", "human"), "user"),
    **dict.fromkeys(("assistant", "ai", "model"), "assistant"),
    **dict.fromkeys(("system", "developer"), "system"),
    **dict.fromkeys(("tool", "function"), "tool"),
}
_TEXTS = ("text", "input_text", "output_text", "refusal")
_TEXT_KEYS = ("text", "content", "refusal")
_THOUGHTS = ("thinking", "redacted_thinking", "reasoning", "reasoning_content")
_CALLS = ("tool_use", "tool_call", "function_call")
_RESULTS = ("tool_result", "tool_call_response", "function_call_output")
_ARGUMENT_KEYS = ("arguments", "args", "input")
_RESULT_KEYS = ("content", "output", "response", "result")
_CALL_ID_KEYS = ("tool_use_id", "tool_call_id", "call_id", "id")
# The modalities of OpenTelemetry, and Anthropic's `document`, in the words of chat requests, which
# are refused in `records/chat.py` alone.
_MEDIA = {"image": "image", "audio": "audio", "video": "video", "document": "file"}
# Where an answer is, in an object that is not a message itself: the first key of these.
_ANSWER_KEYS = (
    *("choices", "generations", "message", "messages", "output", "output_text", "text"),
    *("generated_text", "response", "answer", "completion", "result"),
)
_MOST_LEVELS = 6
# Keys by which a JSON text is known as messages, beside a `role`.
_SIGNS = {"messages", "choices", "generations", "kwargs", "tool_calls"}


@dataclass(kw_only=True)
class Messages:
    """Messages as a chat request has them.

    notes: what was changed or left out, each in a few words without the user's text.
    """

    messages: list[dict[str, Any]] = field(default_factory=list)
    notes: dict[str, None] = field(default_factory=dict)


def decoded(value: object) -> Any:
    """Return the object or list in a JSON text; any other value unchanged."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return load_value(value)
        except RecordError:
            return value
    return value


def _decoded_messages(value: object) -> Any:
    """Return the messages in a JSON text; any other value unchanged, so that JSON can be asked."""
    inner = decoded(value)
    first = inner[0] if isinstance(inner, list) and inner else inner
    if isinstance(first, list):
        return inner if _is_pair(first) or isinstance(next(iter(first), None), dict) else value
    if not isinstance(first, dict):
        return value
    role = first.get("role")
    return inner if _SIGNS & first.keys() or (isinstance(role, str) and role in _ROLES) else value


def read_messages(value: object, *, role: str = "user") -> Messages:
    """Return a log's messages as a chat request has them.

    value: a list of messages, an object with `messages`, one message, a text, or their JSON text.
    role: of a text, and of what names no role.
    NotSendableError: the messages are of no form that is read.
    """
    value = _decoded_messages(value)
    if isinstance(value, dict):
        value = value.get("messages", [value])
    # LangChain calls a model with a batch of conversations, which is nearly always of one.
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], list):
        value = value if _is_pair(value[0]) else value[0]
    if not isinstance(value, list):
        value = [value]
    read = Messages()
    for item in value:
        _add(read, item, role)
    return read


def answer_text(value: object) -> str | None:
    """Return the text of a logged answer, with its tool calls; None: it has none.

    value: a text, a message, a list of messages, or an API's response. Of several choices the first
    is taken, as in `chat_log.answer_of`.
    """
    try:
        return _answer(_decoded_messages(value), _MOST_LEVELS) or None
    except NotSendableError:  # the request is useful without its answer
        return None


def message_text(message: Mapping[str, Any]) -> str:
    """Return a message's content, followed by the names and arguments of its tool calls.

    This is the order in which the measuring client (`measuring/chunks.py`) joins streamed text.
    """
    content = message.get("content")
    pieces: list[object] = [content]
    if isinstance(content, list):
        pieces = [part.get("text") for part in content if isinstance(part, dict)]
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            pieces += [function.get("name"), function.get("arguments")]
    return "".join(piece for piece in pieces if isinstance(piece, str))


def json_text(value: object) -> str:
    """Return a value as the text that a model writes or reads: a text as it is, or JSON."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError as error:
        raise NotSendableError("nested too deep", "a value that JSON cannot be made of") from error


def _answer(value: object, levels: int) -> str:
    if levels == 0 or value is None:
        return ""
    if isinstance(value, str):
        return "" if value.startswith("data:") else value
    if isinstance(value, dict) and not _is_message(value):
        key = next((key for key in _ANSWER_KEYS if value.get(key) is not None), None)
        if key in ("choices", "generations"):
            return _answer(_first(value[key]), levels - 1)
        return _answer(value[key], levels - 1) if key else ""
    messages = read_messages(value, role="assistant").messages
    return "".join(message_text(m) for m in messages if m["role"] == "assistant")


def _first(value: object) -> object:
    """Return the first choice, which LangChain has in a list of lists."""
    for _ in range(2):
        if isinstance(value, list):
            value = value[0] if value else None
    return value


def _is_message(value: Mapping[str, Any]) -> bool:
    return any(name in value for name in ("content", "parts", "kwargs", "tool_calls"))


def _is_pair(item: object) -> bool:
    return isinstance(item, list) and len(item) == 2 and all(isinstance(i, str) for i in item)


def _add(read: Messages, item: Any, role: str) -> None:
    """Add one logged item; calls that stand alone join the assistant's message before them."""
    if isinstance(item, str):
        item = {"role": role, "content": item}
    elif _is_pair(item):  # LangChain's ("human", "Hello")
        item = {"role": item[0], "content": item[1]}
    if not isinstance(item, dict):
        raise wrong_form("messages: not a list of objects")
    fields, role = _fields_and_role(item, role)
    if not (_is_message(fields) or _is_part(fields)):
        raise wrong_form("messages: one without content")
    for message in _messages_of(read, fields, role):
        calls = message.get("tool_calls")
        if calls and "content" not in message and read.messages:
            last = read.messages[-1]
            if last["role"] == "assistant":
                last.setdefault("tool_calls", []).extend(calls)
                continue
        read.messages.append(message)


def _fields_and_role(item: dict[str, Any], default: str) -> tuple[dict[str, Any], str]:
    """Return where the message's content is, and its role in the log's own word."""
    fields, role = item, item.get("role")
    path = item.get("id")
    if isinstance(item.get("kwargs"), dict) and isinstance(path, list) and path:
        name = path[-1] if isinstance(path[-1], str) else ""
        fields = item["kwargs"]
        role = fields.get("role", name.removesuffix("Chunk").removesuffix("Message").lower())
    elif isinstance(item.get("data"), dict):  # LangChain's {"type": "human", "data": {...}}
        fields, role = item["data"], item.get("type")
    elif role is None and _is_part(item):
        role = "assistant" if _kind(item) in _CALLS else default
    elif role is None:
        role = item.get("type", default)
    return fields, role if isinstance(role, str) else ""


def _is_part(item: Mapping[str, Any]) -> bool:
    """Return whether a part stands among the messages, as in OpenAI's Responses."""
    return "role" not in item and _kind(item) in (*_TEXTS, *_THOUGHTS, *_CALLS, *_RESULTS)


def _messages_of(read: Messages, fields: dict[str, Any], role: str) -> Iterator[dict[str, Any]]:
    content = [fields] if _is_part(fields) else fields.get("parts", fields.get("content"))
    parts = content if isinstance(content, list) else [content]
    if role == "developer":
        read.notes["with the role developer, written as system"] = None
    role = _ROLES.get(role, role)
    if role == "tool" and not any(_kind(part) in _RESULTS for part in parts):
        parts = [{**fields, "type": _RESULTS[0], "content": content}]
    for part in parts:
        if isinstance(part, dict) and _kind(part) in _RESULTS:
            yield _result(read, part)
    message = {"role": role, **_spoken(read, parts, _calls(fields, parts))}
    if len(message) > 1:
        yield message


def _spoken(read: Messages, parts: Sequence[Any], calls: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the content and the calls of a message; empty if it has neither."""
    rest = [part for part in parts if _kind(part) not in (*_RESULTS, *_CALLS)]
    content = _content(read, rest)
    is_empty = all(part is None or _kind(part) in _THOUGHTS for part in rest)
    spoken = {} if is_empty and (calls or rest != [None]) else {"content": content}
    return {**spoken, **({"tool_calls": calls} if calls else {})}


def _kind(part: object) -> str:
    """Return the type of a part; Amazon Bedrock's texts have none."""
    if not isinstance(part, dict) or ("text" in part and "type" not in part):
        return "text"
    kind = part.get("type")
    return kind if isinstance(kind, str) else ""


def _content(read: Messages, parts: Sequence[Any]) -> str | list[dict[str, Any]]:
    """Return the texts of the parts; others stay as types alone, which no request may have."""
    kept: list[dict[str, Any]] = []
    for part in parts:
        kind = _kind(part)
        if kind in _THOUGHTS:
            read.notes["with the model's reasoning, which is left out"] = None
        elif not isinstance(part, dict):
            kept.append({"type": "text", "text": "" if part is None else part})
        elif kind in _TEXTS:
            text = next((part[name] for name in _TEXT_KEYS if name in part), None)
            kept.append({"type": "text", "text": text})
        else:
            modality = part.get("modality", kind)
            kept.append({"type": _MEDIA.get(modality, kind) if isinstance(modality, str) else kind})
    is_one_text = len(kept) == 1 and isinstance(kept[0].get("text"), str)
    return str(kept[0]["text"]) if is_one_text else kept or ""


def _calls(fields: Mapping[str, Any], parts: Sequence[Any]) -> list[dict[str, Any]]:
    """Return a message's calls of tools, which stand in its content or beside it."""
    inside = [part for part in parts if _kind(part) in _CALLS]
    further = fields.get("additional_kwargs")
    beside = fields.get("tool_calls") or (isinstance(further, dict) and further.get("tool_calls"))
    calls = inside or (beside if isinstance(beside, list) else [])
    return [_call(call) for call in calls if isinstance(call, dict)]


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call["function"] if isinstance(call.get("function"), dict) else call
    arguments: object = next(
        (function[n] for n in ("arguments", "args", "input") if n in function), {}
    )
    return {
        **_filled("id", call.get("call_id", call.get("id"))),
        "type": "function",
        "function": {"name": function.get("name"), "arguments": json_text(arguments)},
    }


def _result(read: Messages, part: Mapping[str, Any]) -> dict[str, Any]:
    content = next((part[name] for name in _RESULT_KEYS if part.get(name) is not None), "")
    is_parts = isinstance(content, list) and all(isinstance(p, dict) for p in content)
    call_id = next((part[name] for name in _CALL_ID_KEYS if name in part), None)
    return {
        "role": "tool",
        "content": _content(read, content) if is_parts else json_text(content),
        **_filled("tool_call_id", call_id),
    }


def _filled(name: str, value: object) -> dict[str, object]:
    return {} if value is None else {name: value}
