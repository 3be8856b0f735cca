"""Makes the changes of a shipped experiment file that a test's YAML file describes."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tests.support.experiments import Edit, drop, put

# The new value by key path, as messages write it (`variants[1].window`); GONE removes the key.
Changes = dict[str, Any]


def changed(changes: Mapping[str, Any]) -> Edit:
    def edit(data: dict[str, Any]) -> None:
        for name, value in each_of(changes):
            parts = re.findall(r"[^.\[\]]+", name)
            key = [int(part) if part.isdecimal() else part for part in parts]
            if key[0] == "variants" and key[1:] == [len(data["variants"])]:
                data["variants"].append(None)
            (drop(*key) if value == "GONE" else put(*key, value=value))(data)

    return edit


def each_of(changes: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield (key path, value) of each change; `variants[2..5]` becomes one change per index."""
    for name, value in changes.items():
        if indices := re.fullmatch(r"variants\[(\d+)\.\.(\d+)\]", name):
            for index in range(int(indices[1]), int(indices[2]) + 1):
                text = json.dumps(value).replace('"INDEX"', str(index))
                yield f"variants[{index}]", json.loads(text.replace("INDEX", str(index)))
        else:
            yield name, value
