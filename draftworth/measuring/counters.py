"""The server's own view, read from its Prometheus endpoint before and after a block.

vLLM V1 publishes speculation counters (`vllm:spec_decode_num_*_total`) and histograms of TTFT and
of the time per output token; the V0 Neuron fork does not promise them. What a server does not
have is None, and the reader says so.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from draftworth.measuring.http import HttpError, get_text
from draftworth.records.results import ServerTimings, SpeculationCounters

_TIMEOUT_SECONDS = 10.0
_DRAFTS = "vllm:spec_decode_num_drafts_total"
_DRAFT_TOKENS = "vllm:spec_decode_num_draft_tokens_total"
_ACCEPTED = "vllm:spec_decode_num_accepted_tokens_total"
_ACCEPTED_AT = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
_TPOT = "vllm:request_time_per_output_token_seconds"
_TTFT = "vllm:time_to_first_token_seconds"
_POSITION = re.compile(r'position="(\d+)"')


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Metric totals at one moment, summed over labels; positions apart. Empty: nothing to read."""

    totals: Mapping[str, float]
    accepted_at: Mapping[int, float]


NOTHING = Reading(totals={}, accepted_at={})


def parse_metrics(text: str) -> Reading:
    """The metrics that matter here, from Prometheus text."""
    wanted = {_DRAFTS, _DRAFT_TOKENS, _ACCEPTED}
    wanted |= {f"{name}_{part}" for name in (_TPOT, _TTFT) for part in ("sum", "count")}
    totals: defaultdict[str, float] = defaultdict(float)
    accepted_at: defaultdict[int, float] = defaultdict(float)
    for line in text.splitlines():
        name = line.partition("{")[0].partition(" ")[0]
        if name in wanted:
            totals[name] += float(line.rsplit(" ", 1)[1])
        elif name == _ACCEPTED_AT and (position := _POSITION.search(line)):
            accepted_at[int(position[1])] += float(line.rsplit(" ", 1)[1])
    return Reading(totals=dict(totals), accepted_at=dict(accepted_at))


async def read_metrics(base_url: str, *, api_key: str | None = None) -> Reading:
    """The server's metrics now; NOTHING where it has no such endpoint."""
    try:
        status, text = await get_text(
            f"{base_url}/metrics", timeout_seconds=_TIMEOUT_SECONDS, api_key=api_key
        )
    except (HttpError, TimeoutError):
        return NOTHING
    return parse_metrics(text) if status == 200 else NOTHING


def restarted(before: Reading, after: Reading) -> bool:
    """Whether the server counts less than before: it is not the process that it was."""
    return any(after.totals.get(name, total) < total for name, total in before.totals.items())


def speculation_between(before: Reading, after: Reading) -> SpeculationCounters | None:
    """What was drafted and accepted between two readings.

    None when the server does not count, or counts less than before: then it was restarted.
    """
    added = _added(before, after, (_DRAFTS, _DRAFT_TOKENS, _ACCEPTED))
    if added is None:
        return None
    positions = range(max(after.accepted_at, default=-1) + 1)
    return SpeculationCounters(
        drafts=int(added[_DRAFTS]),
        draft_tokens=int(added[_DRAFT_TOKENS]),
        accepted_tokens=int(added[_ACCEPTED]),
        accepted_per_position=tuple(
            int(after.accepted_at.get(p, 0) - before.accepted_at.get(p, 0)) for p in positions
        ),
    )


def timings_between(before: Reading, after: Reading) -> ServerTimings | None:
    """The server's own latencies between two readings; None when it has no histograms."""
    names = [f"{name}_{part}" for name in (_TPOT, _TTFT) for part in ("sum", "count")]
    added = _added(before, after, names)
    if added is None:
        return None
    return ServerTimings(
        time_per_output_token_sum_s=added[f"{_TPOT}_sum"],
        time_per_output_token_count=int(added[f"{_TPOT}_count"]),
        ttft_sum_s=added[f"{_TTFT}_sum"],
        ttft_count=int(added[f"{_TTFT}_count"]),
    )


def _added(
    before: Reading, after: Reading, names: tuple[str, ...] | list[str]
) -> dict[str, float] | None:
    if any(name not in reading.totals for name in names for reading in (before, after)):
        return None
    added = {name: after.totals[name] - before.totals[name] for name in names}
    return None if min(added.values()) < 0 else added
