"""Reads calls of models in OpenTelemetry's traces and logs, in all ways that they were written.

A span has the messages in its attributes: as JSON (gen_ai.input.messages), or, from older
instrumentations, a number for each (gen_ai.prompt.0.content). Or its events have them: one for the
whole call (gen_ai.client.inference.operation.details), or one for each message
(gen_ai.user.message, gen_ai.choice), which are log records where an SDK writes events so.

Sources: OpenTelemetry, semantic conventions for generative AI 1.28 to 1.37 and their JSON Schemas,
and the JSON encoding of OTLP; OpenLLMetry, semantic conventions (gen_ai.prompt.N,
llm.request.functions.N).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from draftworth.importing.chat_log import Logged
from draftworth.importing.forms.otlp import (
    any_value,
    attributes_of,
    groups_of_log_records,
    objects_in,
)
from draftworth.importing.log_form import LogForm, Value
from draftworth.importing.messages import decoded
from draftworth.importing.recorded import Recorded, converted
from draftworth.records.chat import NotSendableError

_CALLS = ("chat", "text_completion", "generate_content")
# The events of one message each, and of a whole prompt or completion in the oldest convention.
_MESSAGES = {
    **{f"gen_ai.{role}.message": role for role in ("system", "user", "assistant", "tool")},
    "gen_ai.choice": "assistant",
}
_ANSWERS = ("gen_ai.choice", "gen_ai.content.completion")
_WHOLE = {
    "gen_ai.content.prompt": "gen_ai.prompt",
    "gen_ai.content.completion": "gen_ai.completion",
}
_TIMES = ("startTimeUnixNano", "timeUnixNano", "start_time")


def spans_of(value: Value) -> Iterable[Value]:
    """Yield the spans of a record, and one span for all log records of the same span."""
    if "resourceSpans" in value:
        yield from objects_in(value, "resourceSpans", "scopeSpans", "spans")
    elif "resourceLogs" in value:
        yield from groups_of_log_records(value)
    else:
        yield value


def opentelemetry(value: Value) -> Logged:
    """Read a span that called a model; NotSendableError: it is another one, or has no messages."""
    events = [*_events(value)]
    attributes: dict[str, Any] = {}
    for event in (*events, attributes_of(value)):  # an event of a whole call has those of its span
        attributes.update(event)
    if attributes.get("gen_ai.operation.name", "chat") not in _CALLS:
        raise NotSendableError("of spans that call no model", "another operation")
    request = _below(attributes, "gen_ai.request.")
    return converted(
        Recorded(
            messages=_messages(attributes, events),
            system=decoded(attributes.get("gen_ai.system_instructions")),
            answer=_answer(attributes, events),
            tools=attributes.get("gen_ai.tool.definitions")
            or _indexed(attributes, "llm.request.functions"),
            settings=request,
            model=request.get("model", attributes.get("gen_ai.response.model")),
            time=next((value[name] for name in _TIMES if value.get(name)), None),
        )
    )


def _messages(attributes: Mapping[str, Any], events: list[dict[str, Any]]) -> list[Any]:
    messages = decoded(attributes.get("gen_ai.input.messages"))
    if messages is None:
        messages = _indexed(attributes, "gen_ai.prompt") or _of_events(events, answers=False)
    if not messages:
        raise NotSendableError("of spans without messages", "no messages of a prompt")
    if not isinstance(messages, list):  # SDKs cut attributes that are too long for them
        raise NotSendableError("with messages that are not JSON, or cut off", "not a list")
    return messages


def _answer(attributes: Mapping[str, Any], events: list[dict[str, Any]]) -> object:
    """Return the first choice of the answer."""
    choices = decoded(attributes.get("gen_ai.output.messages"))
    if choices is None:
        choices = _indexed(attributes, "gen_ai.completion") or _of_events(events, answers=True)
    return choices[:1] if isinstance(choices, list) else choices


def _events(value: Value) -> Iterator[dict[str, Any]]:
    """Yield the attributes of each event, with its name and the body of a log record."""
    events = value.get("events")
    for event in events if isinstance(events, list) else ():
        if isinstance(event, dict):
            attributes = attributes_of(event)
            name = event.get("name") or attributes.get("event.name")
            yield {**attributes, "event.name": name, "body": any_value(event.get("body"))}


def _of_events(events: list[dict[str, Any]], *, answers: bool) -> list[Any]:
    return [
        message
        for event in events
        if (event["event.name"] in _ANSWERS) == answers
        for message in _of_event(event)
    ]


def _of_event(event: Mapping[str, Any]) -> Iterator[Any]:
    name = event["event.name"]
    if not isinstance(name, str):
        return
    if name in _WHOLE:
        whole = decoded(event.get(_WHOLE[name]))
        yield from whole if isinstance(whole, list) else [whole]
    elif name in _MESSAGES:
        body = decoded(event.get("gen_ai.event.content", event["body"]))
        fields = {**event, **(body if isinstance(body, dict) else {})}
        if isinstance(body, str):
            fields["content"] = body
        message = decoded(fields.get("message"))
        if message is not None:
            fields.update(message if isinstance(message, dict) else {"content": message})
        content, calls = _parts(fields.get("content")), decoded(fields.get("tool_calls"))
        if content is None and calls is None:  # the log keeps no content of messages
            return
        yield {
            "role": fields.get("role", _MESSAGES[name]),
            "content": content,
            "tool_calls": calls,
            "tool_call_id": fields.get("id"),
        }


def _parts(content: object) -> object:
    """Return the parts in a JSON text, as Strands Agents writes Amazon Bedrock's."""
    parts = decoded(content)
    is_parts = isinstance(parts, list) and all(isinstance(p, dict) and "text" in p for p in parts)
    return parts if is_parts else content


def _below(attributes: Mapping[str, Any], start: str) -> dict[str, Any]:
    return {
        name.removeprefix(start): value
        for name, value in attributes.items()
        if name.startswith(start)
    }


def _indexed(attributes: Mapping[str, Any], start: str) -> list[dict[str, Any]]:
    """Return the objects of attributes such as `gen_ai.prompt.0.content`, in their order."""
    numbered: dict[int, dict[str, Any]] = {}
    for name, value in _below(attributes, f"{start}.").items():
        number, _, key = name.partition(".")
        if number.isdecimal() and len(number) < 6 and key:
            numbered.setdefault(int(number), {})[key] = value
    objects = [numbered[number] for number in sorted(numbered)]
    for item in objects:
        if calls := _indexed(item, "tool_calls"):
            item["tool_calls"] = calls
    return objects


OPENTELEMETRY = LogForm(read=opentelemetry, parts=spans_of)
