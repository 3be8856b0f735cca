"""EventBridge's pattern language, as far as the templates use it."""

import fnmatch
from collections.abc import Mapping
from typing import Any


def matches(pattern: Any, value: Any) -> bool:
    """Return whether the value fits: names, lists of values, prefixes, suffixes and wildcards."""
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
