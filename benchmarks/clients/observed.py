"""What a client says it observed, in one form for all of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Observed:
    """Per-request figures in seconds, and the client's own output throughput.

    itl_s: the client's time per output token after the first, by its own definition.
    excluded: samples that the client itself distrusts; None where it has no such notion.
    prompts: what each request said, to find its truth; None where a tool does not tell.
    """

    ttft_s: Sequence[float]
    itl_s: Sequence[float]
    throughput_token_per_s: float
    excluded: int | None = None
    prompts: Sequence[str] | None = None

    @classmethod
    def from_json(cls, text: str) -> Observed:
        """What `clients.bare` and `clients.ours` print on their last line."""
        return cls(**json.loads(text.strip().splitlines()[-1]))
