"""Prompts that the load generator's memory can hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from draftworth.errors import Problem
from draftworth.records.codec import dump_json
from draftworth.records.prompts import MAX_PROMPT_BYTES, Case


def fit_the_load_generator(cases: Sequence[Case]) -> Iterator[Problem]:
    """Its pod would refuse more, once the accelerator nodes are there."""
    size = sum(len(dump_json(asdict(case))) for case in cases)
    if size > MAX_PROMPT_BYTES:
        yield Problem(
            key=("workload", "classes"),
            given=f"{size:,} bytes of prompts, written as JSON",
            allowed=f"at most {MAX_PROMPT_BYTES:,} bytes in all classes together",
            reason="the load generator holds them in memory; take a sample of your prompts, or "
            "fewer cases (workload.classes[].cases)",
        )
