"""Paths into records, such as `inputs.messages`: what is there, and which ones a log has.

A key may have dots itself (`attributes.gen_ai.prompt`), and a value may be the JSON text of another
record; both are followed. Of a log only keys are printed, and only those that look like names of
fields, because the keys of an object may be what people wrote.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from draftworth.importing.messages import decoded

MISSING: Any = object()
_NAME = re.compile(r"[A-Za-z_$][\w.$-]{0,39}", re.ASCII)
MOST_LEVELS, _MOST_KEYS = 5, 40


def at_path(value: Any, path: Sequence[str]) -> Any:
    """Return what is at a path of keys and of positions in lists; MISSING: nothing is there."""
    if not path:
        return value
    value = decoded(value)
    if isinstance(value, list):
        number = int(path[0]) if path[0].isdecimal() and len(path[0]) < 6 else len(value)
        return at_path(value[number], path[1:]) if number < len(value) else MISSING
    if isinstance(value, dict):
        for count in range(len(path), 0, -1):  # the longest key first
            key = ".".join(path[:count])
            if key in value and (inner := at_path(value[key], path[count:])) is not MISSING:
                return inner
    return MISSING


def named_values(value: Any, levels: int = MOST_LEVELS) -> Iterator[tuple[str, Any]]:
    """Yield (path, value) of what is in a record, of a list its first item alone.

    A path has keys of the record, and `0` for a first item. JSON texts stay closed.
    """
    if levels == 0:
        return
    if isinstance(value, list):
        items: list[tuple[str, Any]] = [("0", value[0])] if value else []
    else:
        items = [*value.items()][:_MOST_KEYS] if isinstance(value, dict) else []
    for name, inner in items:
        if name == "0" or _NAME.fullmatch(name):
            yield name, inner
            for path, further in named_values(inner, levels - 1):
                yield f"{name}.{path}", further
