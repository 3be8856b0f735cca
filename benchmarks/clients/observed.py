"""The figures that a client reports, in one form for all clients."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Observed:
    """Per-request figures in seconds, and the client's own output throughput.

    itl_s: the client's time per output token after the first, by its own definition.
    excluded: samples that the client itself excludes; None where it excludes none.
    prompts: the prompt of each request, to find its truth; None where a tool does not tell.
    """

    ttft_s: Sequence[float]
    itl_s: Sequence[float]
    throughput_token_per_s: float
    excluded: int | None = None
    prompts: Sequence[str] | None = None

    @classmethod
    def from_json(cls, text: str) -> Observed:
        """Read the last line of the output of `clients.bare` or `clients.ours`."""
        return cls(**json.loads(text.strip().splitlines()[-1]))
