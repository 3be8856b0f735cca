"""What an experiment may take over as it is: keys below `aws`, as YAML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import yaml


def yaml_lines(below_aws: Mapping[str, Any]) -> Iterator[str]:
    """The keys below `aws:` as lines of an experiment file."""
    text = yaml.safe_dump({"aws": dict(below_aws)}, sort_keys=False, width=1000)
    yield from text.splitlines()


def merged(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Several such mappings as one; a key of two that are mappings holds both."""
    whole: dict[str, Any] = {}
    for part in parts:
        for key, value in part.items():
            both = isinstance(value, Mapping) and isinstance(whole.get(key), Mapping)
            whole[key] = merged([whole[key], value]) if both else value
    return whole
