"""What is sent for a prompt: where to, and the body, which every variant gets byte for byte."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from draftworth.measuring.run_specification import RequestShape
from draftworth.records.prompts import Prompt


def max_tokens_of(shape: RequestShape, prompt: Prompt) -> int:
    """Most tokens of a prompt's output: its own number, else that of every request."""
    return shape.output_tokens if prompt.max_tokens is None else prompt.max_tokens


def request_path(prompt: Prompt) -> str:
    """A text to be continued goes where no chat template is put around it."""
    return "/v1/chat/completions" if prompt.text_to_continue is None else "/v1/completions"


def request_seed(shape: RequestShape, place: int) -> int:
    """The seed of the request at a place in a case's sequence of requests.

    Every variant gets it at that place, so both requests of a pair have it; a prompt that comes
    again has another one, so that a sampled output is drawn anew. 31 bits: any server takes them.
    """
    digest = hashlib.sha256(f"{shape.seed}/{place}".encode()).digest()
    return int.from_bytes(digest[:4]) >> 1


def request_body(shape: RequestShape, prompt: Prompt, *, seed: int) -> bytes:
    """The body; nothing in it is of a variant."""
    max_tokens = max_tokens_of(shape, prompt)
    body: dict[str, Any] = {
        "model": shape.model,
        **asked_of(prompt),
        "max_tokens": max_tokens,
        "temperature": shape.temperature,
        "seed": seed,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    }
    if prompt.text_to_continue is None:
        body["chat_template_kwargs"] = {"enable_thinking": shape.enable_thinking}
    if shape.fixed_output_length:
        body |= {"ignore_eos": True, "min_tokens": max_tokens}
    if shape.token_ids:  # not sent otherwise: a server may refuse what it does not know
        body["return_token_ids"] = True
    return json.dumps(body).encode()


def asked_of(prompt: Prompt) -> dict[str, Any]:
    """The conversation with its tools, or the text."""
    if prompt.text_to_continue is not None:
        return {"prompt": prompt.text_to_continue}
    beside = {
        "tools": prompt.tools,
        "tool_choice": prompt.tool_choice,
        "response_format": prompt.response_format,
    }
    given = {name: value for name, value in beside.items() if value is not None}
    return {"messages": prompt.messages, **given}
