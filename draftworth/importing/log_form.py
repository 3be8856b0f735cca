"""What a form of log is: which requests a record has, and how each is read."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from draftworth.importing.chat_log import Logged

Value = Mapping[str, Any]


def _whole(value: Value) -> Iterable[Value]:
    return (value,)


def listed_under(name: str) -> Callable[[Value], Iterable[Value]]:
    """Return a function that yields the objects of the list `name`, or the record without one."""

    def parts(value: Value) -> Iterable[Value]:
        listed = value.get(name)
        if not isinstance(listed, list):
            return (value,)
        return (part if isinstance(part, dict) else {} for part in listed)

    return parts


def body_of(value: Value, *names: str) -> Value:
    """Return the object under the first of the names, or under `body` in it, or the value."""
    for name in names:
        inner = value.get(name)
        if isinstance(inner, dict):
            body = inner.get("body")
            return body if isinstance(body, dict) else inner
    return value


@dataclass(frozen=True, kw_only=True)
class LogForm:
    """A form of log.

    read: converts one logged request; NotSendableError: it cannot be sent again.
    parts: the requests of one record, which some tools write as a list.
    has_cases: its records name their category, which becomes their case.
    """

    read: Callable[[Value], Logged]
    parts: Callable[[Value], Iterable[Value]] = _whole
    has_cases: bool = False
