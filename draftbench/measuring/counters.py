"""The server's own speculation counters, read from its Prometheus endpoint.

vLLM V1 publishes `vllm:spec_decode_num_{drafts,draft_tokens,accepted_tokens}_total`; the V0 Neuron
fork does not promise them. A server without them gives None, and the reader says so.
"""

from __future__ import annotations

from draftbench.measuring.http import HttpError, get_text
from draftbench.results import SpeculationCounters

_NAMES = {
    "vllm:spec_decode_num_drafts_total": "drafts",
    "vllm:spec_decode_num_draft_tokens_total": "draft_tokens",
    "vllm:spec_decode_num_accepted_tokens_total": "accepted_tokens",
}
_TIMEOUT_SECONDS = 10.0


def parse_counters(text: str) -> SpeculationCounters | None:
    """The counters in Prometheus text, summed over labels; None unless all three are there."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        name = line.partition("{")[0].partition(" ")[0]
        if name in _NAMES:
            key = _NAMES[name]
            found[key] = found.get(key, 0.0) + float(line.rsplit(" ", 1)[1])
    if len(found) < len(_NAMES):
        return None
    return SpeculationCounters(**{key: int(value) for key, value in found.items()})


async def read_counters(base_url: str) -> SpeculationCounters | None:
    """The server's counters now; None where it has no such endpoint or does not speculate."""
    try:
        status, text = await get_text(f"{base_url}/metrics", timeout_seconds=_TIMEOUT_SECONDS)
    except (HttpError, TimeoutError):
        return None
    return parse_counters(text) if status == 200 else None


def difference(
    before: SpeculationCounters | None, after: SpeculationCounters | None
) -> SpeculationCounters | None:
    """What was counted between two readings; None when one is missing or the server restarted."""
    if before is None or after is None or after.drafts < before.drafts:
        return None
    return SpeculationCounters(
        drafts=after.drafts - before.drafts,
        draft_tokens=after.draft_tokens - before.draft_tokens,
        accepted_tokens=after.accepted_tokens - before.accepted_tokens,
    )
