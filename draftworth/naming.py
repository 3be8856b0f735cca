"""Names that other systems accept, made from the experiment's own."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def dns_label(name: str) -> str:
    """A DNS label (RFC 1035): what Services and stacks are called. `qwen3-1.7b` is `qwen3-1-7b`."""
    return name.replace(".", "-")


def content_hash(value: Any, *, length: int) -> str:
    """The first `length` hex digits of the SHA-256 of a JSON value in canonical form."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:length]
