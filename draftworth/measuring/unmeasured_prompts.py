"""Gives requests that are not measured a prompt that no measured request has.

A server with a prefix cache would have a measured prompt in it after the same prompt in a warm-up
or a filler. Few cases have prompts to spare, so an unmeasured request has a measured prompt with
another beginning: a line with a number. The caches of vLLM, SGLang and llama.cpp find only what
begins alike, which is then the beginning of the chat template. The rest of the prompt stays, so the
request is as long, but for the few tokens of the number, and its output is of the same kind.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from draftworth.records.prompt_files import Prompt

_NUMBERS = 10_000


def with_other_beginning(prompt: Prompt, *, key: str) -> Prompt:
    """Return a prompt that begins with a line with a number, which follows from `key`.

    In a conversation the line begins the first message that has text.
    """
    line = f"{int.from_bytes(hashlib.sha256(key.encode()).digest()[:8]) % _NUMBERS:04d}\n"
    if prompt.text_to_continue is not None:
        return replace(prompt, text_to_continue=line + prompt.text_to_continue)
    messages = [*prompt.messages]
    first = next((i for i, message in enumerate(messages) if message.get("content")), None)
    if first is None:
        messages.insert(0, {"role": "user", "content": line})
    else:
        messages[first] = _with_line(messages[first], line)
    return replace(prompt, messages=tuple(messages))


def _with_line(message: Mapping[str, Any], line: str) -> Mapping[str, Any]:
    content = message["content"]
    if isinstance(content, str):
        return {**message, "content": line + content}
    return {**message, "content": [{"type": "text", "text": line}, *content]}
