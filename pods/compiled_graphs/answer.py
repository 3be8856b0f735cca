"""One greedy answer of the server of this pod: what proves that its graphs work on the devices.

Health says that they were loaded. Loading runs each graph once (NxD Inference's warm-up) and only
logs what fails there.
"""

from __future__ import annotations

import http.client
import urllib.request
from collections.abc import Mapping
from typing import Any

from draftworth.records.codec import RecordError, dump_json, load_object
from draftworth.untrusted import TooLargeError, read_at_most

# A prefill, and decode steps enough for several of any window.
MAX_TOKENS = 32
PROMPT = "One, two, three, four, five, six,"


class NoAnswerError(Exception):
    """The server answered nothing that can be used."""


def answered_tokens(base_url: str, *, timeout_seconds: float) -> int:
    """Ask for one completion at temperature 0; how many tokens came, 1 or more.

    Asked directly, whatever proxy the environment names. Raises NoAnswerError.
    """
    models = _list(_answer(f"{base_url}/v1/models", None, timeout_seconds), "data")
    request = {
        "model": models[0].get("id"),
        "prompt": PROMPT,
        "temperature": 0,
        "max_tokens": MAX_TOKENS,
        # vLLM's own: a first token that ends the text would leave the decode graph unused.
        "ignore_eos": True,
    }
    answer = _answer(f"{base_url}/v1/completions", dump_json(request), timeout_seconds)
    if not _list(answer, "choices")[0].get("finish_reason"):
        raise NoAnswerError("the completion has no finish reason")
    usage = answer.get("usage")
    tokens = usage.get("completion_tokens") if isinstance(usage, Mapping) else None
    if not isinstance(tokens, int) or tokens < 1:
        raise NoAnswerError(f"the completion has {tokens!r:.20} tokens; allowed: 1 or more")
    return tokens


def _answer(url: str, body: bytes | None, timeout_seconds: float) -> Mapping[str, Any]:
    request = urllib.request.Request(  # noqa: S310 (this pod's own server)
        url, data=body, headers={"Content-Type": "application/json"}
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=timeout_seconds) as answer:
            return load_object(read_at_most(answer))
    # ValueError: an answer that is no HTTP.
    except (OSError, ValueError, http.client.HTTPException, RecordError, TooLargeError) as error:
        path = url.rpartition("/v1/")[2]
        raise NoAnswerError(f"{path}: {type(error).__name__}: {error}") from error


def _list(answer: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    value = answer.get(name)
    if isinstance(value, list) and value and isinstance(value[0], Mapping):
        return value
    raise NoAnswerError(f"{name}: given {value!r:.40}, allowed: a list of objects")
