"""Prompts that the load generator's memory can hold, and that the servers will answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict

from draftworth.errors import Problem
from draftworth.experiment.model import Experiment
from draftworth.records.codec import dump_json
from draftworth.records.prompts import MAX_PROMPT_BYTES, Case, Prompt


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


def _tool_calls_can_be_read(experiment: Experiment, cases: Sequence[Case]) -> Iterator[Problem]:
    """vLLM answers each of these requests with 400, once the nodes are paid for."""
    places = _which(cases, lambda prompt: prompt.tools and prompt.tool_choice in (None, "auto"))
    if places and not experiment.serving.tool_call_parser:
        yield Problem(
            key=("serving", "tool_call_parser"),
            given=f"nothing, and {places} with tools that the model may call",
            allowed="the name of a tool call parser of vLLM that fits the target, such as hermes "
            "for Qwen3 or llama3_json for Llama 3.1; or in these prompts another tool_choice than "
            "auto, which is also what leaving it out means",
            reason="a server without one refuses such requests",
        )


def _length_is_not_forced(experiment: Experiment, cases: Sequence[Case]) -> Iterator[Problem]:
    """A grammar has an end, and nothing may follow it."""
    places = _which(cases, lambda prompt: prompt.tools or prompt.response_format)
    if places and experiment.workload.fixed_output_length:
        yield Problem(
            key=("workload", "fixed_output_length"),
            given=f"true, and {places} with tools or a response_format",
            allowed="false, which is the default",
            reason="such an answer ends where its form ends: what the model is made to write after "
            "that is no work of yours",
        )


def _which(cases: Sequence[Case], wanted: Callable[[Prompt], object]) -> str:
    """`3 prompts (the first: mine/chat, chat-000017)`; empty: none."""
    found = [(c, p) for c in cases for p in c.prompts if wanted(p)]
    if not found:
        return ""
    case, prompt = found[0]
    count = f"{len(found)} prompt{'s' * (len(found) > 1)}"
    return f"{count} (the first: {case.prompt_class}/{case.name}, {prompt.id})"


COMMON = (_tool_calls_can_be_read, _length_is_not_forced)
