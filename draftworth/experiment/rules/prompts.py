"""Prompts that fit where they travel."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from draftworth.errors import Problem
from draftworth.records.prompts import Case

# kubectl keeps a copy of what it applied in an annotation, and all annotations of an object may
# have 262,144 bytes together: far less than the 1 MiB of a ConfigMap. The rest is for the run
# specification around the prompts, labels and the annotation's own name.
MAX_PROMPT_BYTES = 240_000


def fit_a_config_map(cases: Sequence[Case]) -> Iterator[Problem]:
    """The prompts travel to the load generator in a ConfigMap inside the template."""
    size = config_map_bytes(cases)
    if size > MAX_PROMPT_BYTES:
        yield Problem(
            key=("workload", "classes"),
            given=f"{size:,} bytes of prompts, written as a ConfigMap in JSON",
            allowed=f"at most {MAX_PROMPT_BYTES:,} bytes in all classes together",
            reason="the prompts travel to the load generator in a ConfigMap inside the template; "
            "kubectl keeps a copy of it in an annotation, and annotations hold no more; take a "
            "sample of your prompts, or fewer cases (workload.classes[].cases)",
        )


def config_map_bytes(cases: Sequence[Case]) -> int:
    """The size of the prompts as kubectl writes them into its annotation."""
    return kubectl_json_bytes(json.dumps([asdict(case) for case in cases]))


def kubectl_json_bytes(value: object) -> int:
    """The size of an object as kubectl writes it: compact, `<`, `>` and `&` as six bytes each."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return len(text.encode()) + sum(text.count(character) for character in "<>&") * 5
