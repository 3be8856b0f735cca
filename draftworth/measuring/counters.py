"""The server's own view, read from its Prometheus endpoint before and after a block.

vLLM V1 publishes speculation counters (`vllm:spec_decode_num_*_total`) and histograms of TTFT and
of the time per output token; the V0 Neuron fork does not promise them. What a server does not
have is None, and the reader says so.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

from draftworth.measuring.http import HttpError, get_text
from draftworth.records.results import ServerTimings, SpeculationCounters

_TIMEOUT_SECONDS = 10.0
# Totals at one moment, by metric, summed over labels; positions apart. Empty: nothing to read.
Reading = Mapping[str, float]

_DRAFTS = "vllm:spec_decode_num_drafts_total"
_DRAFT_TOKENS = "vllm:spec_decode_num_draft_tokens_total"
_ACCEPTED = "vllm:spec_decode_num_accepted_tokens_total"
_ACCEPTED_AT = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
_TPOT = "vllm:request_time_per_output_token_seconds"
_TTFT = "vllm:time_to_first_token_seconds"
_POSITION = re.compile(r'position="(\d+)"')
_COUNTERS = (_DRAFTS, _DRAFT_TOKENS, _ACCEPTED)
_TIMINGS = tuple(f"{name}_{part}" for name in (_TPOT, _TTFT) for part in ("sum", "count"))


def parse_metrics(text: str) -> Reading:
    """The metrics that matter here, from Prometheus text."""
    totals: defaultdict[str, float] = defaultdict(float)
    for line in text.splitlines():
        name = line.partition("{")[0].partition(" ")[0]
        if name == _ACCEPTED_AT and (position := _POSITION.search(line)):
            name = _accepted_at(int(position[1]))
        elif name not in _COUNTERS + _TIMINGS:
            continue
        totals[name] += float(line.rsplit(" ", 1)[1])
    return dict(totals)


def _accepted_at(position: int) -> str:
    return f"{_ACCEPTED_AT} {position}"


async def read_metrics(base_url: str, *, api_key: str | None = None) -> Reading:
    """The server's metrics now; none where it has no such endpoint."""
    try:
        status, text = await get_text(
            f"{base_url}/metrics", timeout_seconds=_TIMEOUT_SECONDS, api_key=api_key
        )
    except (HttpError, TimeoutError):
        return {}
    return parse_metrics(text) if status == 200 else {}


def restarted(before: Reading, after: Reading) -> bool:
    """Whether the server counts less than before: it is not the process that it was."""
    return any(after.get(name, total) < total for name, total in before.items())


def speculation_between(before: Reading, after: Reading) -> SpeculationCounters | None:
    """What was drafted and accepted between two readings.

    None when the server does not count, or counts less than before: then it was restarted.
    """
    added = _added(before, after, _COUNTERS)
    if added is None:
        return None
    known = [int(name.split()[1]) for name in after if name.startswith(f"{_ACCEPTED_AT} ")]
    at = [_accepted_at(position) for position in range(max(known, default=-1) + 1)]
    return SpeculationCounters(
        drafts=int(added[_DRAFTS]),
        draft_tokens=int(added[_DRAFT_TOKENS]),
        accepted_tokens=int(added[_ACCEPTED]),
        accepted_per_position=tuple(int(after.get(n, 0) - before.get(n, 0)) for n in at),
    )


def timings_between(before: Reading, after: Reading) -> ServerTimings | None:
    """The server's own latencies between two readings; None when it has no histograms."""
    added = _added(before, after, _TIMINGS)
    if added is None:
        return None
    return ServerTimings(
        time_per_output_token_sum_s=added[f"{_TPOT}_sum"],
        time_per_output_token_count=int(added[f"{_TPOT}_count"]),
        ttft_sum_s=added[f"{_TTFT}_sum"],
        ttft_count=int(added[f"{_TTFT}_count"]),
    )


def _added(before: Reading, after: Reading, names: Sequence[str]) -> dict[str, float] | None:
    if any(name not in reading for name in names for reading in (before, after)):
        return None
    added = {name: after[name] - before[name] for name in names}
    return None if min(added.values()) < 0 else added
