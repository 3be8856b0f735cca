"""Asks a server for the tokens of a prompt, as its own tokenizer and chat template make them.

vLLM answers `POST /tokenize` with the tokens' ids and their number. llama.cpp has the same path for
a text alone, without a chat template, and other keys; it is not asked.
"""

import json
from collections.abc import Mapping
from typing import Any

from draftworth.measuring.http_client import ask, refusal
from draftworth.records.chat import texts_of
from draftworth.records.codec import RecordError, load_object

_TIMEOUT_SECONDS = 60.0
# The most bytes of an answer of `/tokenize`, which lists every token's id (up to eight bytes with
# its comma) and their count. The limit is twice that.
_LIMIT_BYTES, _LIMIT_BYTES_PER_TOKEN = 64 * 1024, 16
# The most tokens of one character, for a tokenizer that splits characters into bytes.
_MOST_TOKENS_PER_CHARACTER = 8


class NotTokenizedError(Exception):
    """A server does not answer `POST /tokenize` as vLLM does; the message has what it answered."""


async def tokenized(
    base_url: str, body: Mapping[str, Any], *, api_key: str | None
) -> Mapping[str, Any]:
    """Return a server's answer to `POST /tokenize`.

    body: the model, and a `prompt` or `messages`; settings of vLLM beside them.
    NotTokenizedError: the answer is an error, or no JSON object. HttpError, TimeoutError: there is
    no answer.
    """
    texts = [body["prompt"]] if "prompt" in body else texts_of(body["messages"])
    characters = sum(map(len, texts))
    head, text = await ask(
        f"{base_url}/tokenize",
        timeout_seconds=_TIMEOUT_SECONDS,
        limit_bytes=_LIMIT_BYTES + _LIMIT_BYTES_PER_TOKEN * _MOST_TOKENS_PER_CHARACTER * characters,
        api_key=api_key,
        body=json.dumps(body).encode(),
    )
    if head.status != 200:
        raise NotTokenizedError(refusal(head))
    try:
        return load_object(text)
    except RecordError as error:
        raise NotTokenizedError(str(error)) from error


def chat_settings(*, enable_thinking: bool) -> Mapping[str, Any]:
    """Return the settings with which vLLM tokenizes a conversation as it does to answer it."""
    return {
        "add_generation_prompt": True,
        "chat_template_kwargs": {"enable_thinking": enable_thinking},
    }
