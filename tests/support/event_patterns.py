"""EventBridge's pattern language, as far as the templates use it."""

import fnmatch
from collections.abc import Mapping
from typing import Any


def matches(pattern: Any, value: Any) -> bool:
    """Return whether an event, or a value in it, matches an EventBridge pattern.

    The pattern may have keys, lists of values, and the filters `prefix`, `suffix` and `wildcard`.
    """
    if isinstance(pattern, Mapping):
        return isinstance(value, Mapping) and all(
            key in value and matches(wanted, value[key]) for key, wanted in pattern.items()
        )
    return any(_is_wanted(wanted, value) for wanted in pattern)


def _is_wanted(wanted: Any, value: Any) -> bool:
    if not isinstance(wanted, Mapping):
        return bool(wanted == value)
    ((kind, text),) = wanted.items()
    shapes = {"prefix": f"{text}*", "suffix": f"*{text}", "wildcard": text}
    return fnmatch.fnmatchcase(str(value), shapes[kind])
