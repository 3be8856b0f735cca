"""Checks the messages, tools and response format of a chat request, which are sent unchanged.

Content that our servers cannot answer is refused: images, audio, and roles that chat templates
ignore without an error.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from draftworth.untrusted import one_line

ROLES = ("system", "user", "assistant", "tool")
TOOL_CHOICES = ("none", "auto", "required")
# For each type of content part that is not text: the `kind` of the NotSendableError it causes.
_MEDIA = {
    **dict.fromkeys(("image_url", "input_image", "image"), "with images"),
    **dict.fromkeys(("input_audio", "audio_url", "audio"), "with audio"),
    **dict.fromkeys(("video_url", "video"), "with video"),
    **dict.fromkeys(("file", "input_file"), "with files"),
}
# A tool's JSON Schema has about ten levels; a value with a hundred is not safe to write as JSON.
_MAX_DEPTH = 40
_MESSAGE_KEYS = {"role", "content", "name"}

Message = Mapping[str, Any]


class NotSendableError(ValueError):
    """A part of a request cannot be sent; the message never contains the user's text.

    kind: the reason, in words that can follow a number of requests, as in "3 with images".
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def wrong_form(message: str) -> NotSendableError:
    """Return the error for a part of a request whose type or keys are not allowed."""
    return NotSendableError("of another form", message)


def checked_messages(value: object) -> tuple[Message, ...]:
    """Return the messages unchanged; raise NotSendableError if they cannot be sent."""
    if not isinstance(value, list) or not value:
        raise wrong_form("messages: allowed: a list of messages, at least one")
    for index, message in enumerate(value):
        _check_message(message, f"messages[{index}]")
    check_plain(value, "messages")
    return tuple(value)


def checked_tools(value: object) -> tuple[Mapping[str, Any], ...]:
    """Return the tools unchanged; raise NotSendableError if they cannot be sent."""
    if not isinstance(value, list) or not value or not all(map(_is_function, value)):
        raise wrong_form(
            "tools: allowed: a list of functions, at least one, as in "
            '{"type": "function", "function": {"name": "weather", "parameters": {...}}}'
        )
    check_plain(value, "tools")
    return tuple(value)


def checked_tool_choice(value: object) -> Any:
    """Return the `tool_choice` unchanged; raise NotSendableError if it cannot be sent."""
    if not (value in TOOL_CHOICES if isinstance(value, str) else _is_function(value)):
        raise wrong_form(
            f"tool_choice: given {_type_name(value)}, allowed: {', '.join(TOOL_CHOICES)}, or "
            '{"type": "function", "function": {"name": "weather"}}'
        )
    check_plain(value, "tool_choice")
    return value


def checked_response_format(value: object) -> Mapping[str, Any]:
    """Return the response format unchanged; raise NotSendableError if it cannot be sent."""
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        raise wrong_form(
            f"response_format: given {_type_name(value)}, allowed: an object with a type, as in "
            '{"type": "json_object"}'
        )
    check_plain(value, "response_format")
    return value


def texts_of(messages: Sequence[Message]) -> Iterator[str]:
    """Yield the texts of the messages, without tool calls."""
    for message in messages:
        content = message.get("content") or ()
        yield from [content] if isinstance(content, str) else (part["text"] for part in content)


def check_plain(value: object, where: str) -> None:
    """Raise NotSendableError if a JSON value contains the character NUL or is nested too deep.

    where: the value's place in the request, such as `messages`, for the error's message.
    """
    levels = [value]
    for _ in range(_MAX_DEPTH):
        if any(isinstance(item, str) and "\x00" in item for item in levels):
            raise NotSendableError(
                "with the character NUL", f"{where}: the character NUL; allowed: text without it"
            )
        levels = [inner for item in levels for inner in _inner(item)]
        if not levels:
            return
    raise NotSendableError("nested too deep", f"{where}: allowed: at most {_MAX_DEPTH} levels")


def _inner(item: object) -> Iterator[object]:
    if isinstance(item, dict):
        yield from item
        yield from item.values()
    elif isinstance(item, list):
        yield from item


def _check_message(message: object, where: str) -> None:
    if not isinstance(message, dict) or message.get("role") not in ROLES:
        raise wrong_form(
            f"{where}: allowed: an object with a role ({', '.join(ROLES)}) and content (text)"
        )
    role = message["role"]
    of_role = {"assistant": {"tool_calls"}, "tool": {"tool_call_id"}}.get(role, set())
    if unknown := message.keys() - _MESSAGE_KEYS - of_role:
        names = one_line(", ".join(sorted(unknown)), characters=100)
        allowed = ", ".join(sorted(_MESSAGE_KEYS | of_role))
        raise wrong_form(f"{where}: given {names}, allowed with role {role}: {allowed}")
    for name in ("name", "tool_call_id"):
        if not isinstance(message.get(name, ""), str):
            raise wrong_form(f"{where}.{name}: given {_type_name(message[name])}, allowed: text")
    calls = message.get("tool_calls")
    if "tool_calls" in message and not (
        isinstance(calls, list) and calls and all(map(_is_call, calls))
    ):
        raise wrong_form(
            f"{where}.tool_calls: allowed: a list, as in "
            '{"id": "call-1", "type": "function", "function": {"name": "weather", '
            '"arguments": "{}"}}'
        )
    if not (calls and message.get("content") is None):
        _check_content(message.get("content"), f"{where}.content")


def _check_content(content: object, where: str) -> None:
    if isinstance(content, str):
        return
    if not isinstance(content, list) or not content:
        raise wrong_form(f"{where}: allowed: text, or a list of parts of type text")
    for index, part in enumerate(content):
        kind = part.get("type") if isinstance(part, dict) else None
        if isinstance(kind, str) and kind in _MEDIA:
            raise NotSendableError(
                _MEDIA[kind],
                f"{where}[{index}]: given type {kind}, allowed: text, because speculation is "
                "measured on text alone",
            )
        if kind != "text" or part.keys() != {"type", "text"} or not isinstance(part["text"], str):
            raise wrong_form(f'{where}[{index}]: allowed: {{"type": "text", "text": "..."}}')


def _is_function(value: object) -> bool:
    if not isinstance(value, dict) or value.get("type") != "function":
        return False
    function = value.get("function")
    return isinstance(function, dict) and isinstance(function.get("name"), str)


def _is_call(value: object) -> bool:
    if not _is_function(value):
        return False
    call: Any = value
    names_good = call.keys() <= {"id", "type", "function", "index"}
    return (
        names_good
        and isinstance(call.get("id", ""), str)
        and isinstance(call["function"].get("arguments"), str)
    )


def _type_name(value: object) -> str:
    """Return only the value's type, because error messages must not contain the user's text."""
    return "null" if value is None else type(value).__name__
