"""The server's own counters, read from its Prometheus endpoint before and after a block.

vLLM V1 publishes speculation counters (`vllm:spec_decode_num_*_total`), a counter of generated
tokens, the prompt tokens that its prefix cache was asked for and had, and a histogram of the time
per output token; the V0 Neuron fork may not have them. llama.cpp
(August 2026) has the same speculation counters under its own prefix, and another name for the
generated tokens. SGLang has no counters of drafted and accepted tokens, only means over periods
that it chooses itself and that do not match a block, so its metrics are not read. vLLM Neuron has
gauges of how long a server's start, each graph's compilation and the loading of the weights took
(seconds). A metric that a server does not have is left out; so is a metric with a line that cannot
be read, because its sum would be wrong.
"""

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

from draftworth.measuring.http_client import HttpError, ask
from draftworth.records.results import (
    PrefixCacheCounters,
    ServerStart,
    ServerTimings,
    SpeculationCounters,
)
from draftworth.untrusted import MIB

_TIMEOUT_SECONDS = 10.0
# vLLM's page of metrics has about 0.1 MiB.
_LIMIT_BYTES = 4 * MIB
# The most positions in a draft that are counted separately: ten times the usual window.
_MAX_POSITIONS = 64
# Counts must be below this, because a record keeps them in 64 bits.
_COUNT_LIMIT = 2.0**63
# The total of each metric at one time, summed over all labels but `position`. Empty: no metrics.
ServerMetrics = Mapping[str, float]

DRAFTS = "vllm:spec_decode_num_drafts_total"
_DRAFT_TOKENS = "vllm:spec_decode_num_draft_tokens_total"
ACCEPTED = "vllm:spec_decode_num_accepted_tokens_total"
_ACCEPTED_AT = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
GENERATED = "vllm:generation_tokens_total"
FINISHED = "vllm:request_success_total"  # used only by alarms, not by this module
_CACHE_QUERIES = "vllm:prefix_cache_queries_total"  # in tokens, as the hits
_CACHE_HITS = "vllm:prefix_cache_hits_total"
_TPOT = "vllm:request_time_per_output_token_seconds"
_STARTUP = "vllm_neuron:startup_time_seconds"
_COMPILATION = "vllm_neuron:compilation_time_seconds"  # one line per compiled graph
_LOAD = "vllm_neuron:model_load_time_seconds"
_LOAD_BYTES = "vllm_neuron:model_load_size_bytes"
_GAUGES = (_STARTUP, _COMPILATION, _LOAD, _LOAD_BYTES)
_GRAPHS = f"{_COMPILATION} lines"
_COUNTERS = (DRAFTS, _DRAFT_TOKENS, ACCEPTED)
_CACHE = (_CACHE_QUERIES, _CACHE_HITS)
# vLLM's names of llama.cpp's counters, where the two differ in more than the prefix.
_LLAMA_CPP = {"llamacpp:tokens_predicted_total": GENERATED}
_TIMINGS = f"{_TPOT}_sum", f"{_TPOT}_count"
_NAMES = frozenset((*_COUNTERS, GENERATED, *_CACHE, *_TIMINGS, *_GAUGES, _ACCEPTED_AT))

_PREFIXES = ("vllm", "llamacpp:")
# `name{labels} value timestamp`; the timestamp is optional (Prometheus text format 0.0.4).
_REST = re.compile(r"(?:\{.*\})?[ \t]+([0-9.eE+-]+)(?:[ \t]+-?[0-9]+)?[ \t]*")
_POSITION = re.compile(r'[{,][ \t]*position="([0-9]{1,2})"')


def parse_metrics(text: str) -> ServerMetrics:
    """Parse Prometheus text; return the totals of the metrics in `_NAMES`, by vLLM's names."""
    totals: defaultdict[str, float] = defaultdict(float)
    unreadable = set()
    for line in text.split("\n"):
        if not line.startswith(_PREFIXES):
            continue
        sent_name = line.partition("{")[0].partition(" ")[0]
        name = _LLAMA_CPP.get(sent_name, sent_name.replace("llamacpp:", "vllm:", 1))
        if name not in _NAMES:
            continue
        key, value = _key(name, line), _value(line[len(sent_name) :])
        if key is None or value is None:
            unreadable.add(name)
        else:
            totals[key] += value
            if name == _COMPILATION:
                totals[_GRAPHS] += 1
    return {key: total for key, total in totals.items() if key.split()[0] not in unreadable}


def _key(name: str, line: str) -> str | None:
    """Return the key under which a line's value is added up.

    The key is the metric's name; for accepted tokens per draft position, it includes the position.
    None: the position is missing or too large, so the whole metric is left out.
    """
    if name != _ACCEPTED_AT:
        return name
    match = _POSITION.search(line)
    return _accepted_at(int(match[1])) if match and int(match[1]) < _MAX_POSITIONS else None


def _value(rest: str) -> float | None:
    match = _REST.fullmatch(rest)
    try:
        value = float(match[1]) if match else math.nan
    except ValueError:
        return None
    return value if 0 <= value < _COUNT_LIMIT else None


def _accepted_at(position: int) -> str:
    return f"{_ACCEPTED_AT} {position}"


async def read_metrics(base_url: str, *, api_key: str | None = None) -> ServerMetrics:
    """Read a server's metrics; empty if it refuses, sends too much or does not answer in time."""
    try:
        head, text = await ask(
            f"{base_url}/metrics",
            timeout_seconds=_TIMEOUT_SECONDS,
            limit_bytes=_LIMIT_BYTES,
            api_key=api_key,
        )
    except (HttpError, TimeoutError):
        return {}
    return parse_metrics(text) if head.status == 200 else {}


def restarted(before: ServerMetrics, after: ServerMetrics) -> bool:
    """Return whether the server restarted between two reads, which shows by a counter that fell."""
    counted = ((name, total) for name, total in before.items() if name.split()[0] not in _GAUGES)
    return any(after.get(name, total) < total for name, total in counted)


def server_start(reading: ServerMetrics) -> ServerStart | None:
    """Return how long a server's last start took, with compiling and loading, by its metrics.

    None: the server has no such metrics, or a value is impossible.
    """
    if not any(name in reading for name in _GAUGES):
        return None
    graphs = reading.get(_GRAPHS)
    try:
        return ServerStart(
            startup_s=reading.get(_STARTUP),
            compilation_s=reading.get(_COMPILATION),
            graphs=None if graphs is None else int(graphs),
            load_s=reading.get(_LOAD),
            load_bytes=reading.get(_LOAD_BYTES),
        )
    except ValueError:
        return None


def speculation_between(before: ServerMetrics, after: ServerMetrics) -> SpeculationCounters | None:
    """Return how many tokens were drafted and accepted between two reads of the metrics.

    None if the server has no such counters, restarted between the reads, or has impossible counts
    (more tokens accepted than drafted).
    """
    added = _added(before, after, _COUNTERS)
    generated = _added(before, after, (GENERATED,))
    positions = [_accepted_at(position) for position in range(_MAX_POSITIONS)]
    last = max((n for n, name in enumerate(positions) if name in after), default=-1)
    at = [after.get(name, 0.0) - before.get(name, 0.0) for name in positions[: last + 1]]
    if added is None or not all(map(_is_count, at)):
        return None
    try:
        return SpeculationCounters(
            drafts=int(added[DRAFTS]),
            draft_tokens=int(added[_DRAFT_TOKENS]),
            accepted_tokens=int(added[ACCEPTED]),
            accepted_per_position=tuple(map(int, at)),
            generated_tokens=int(generated[GENERATED]) if generated else None,
        )
    except ValueError:
        return None


def prefix_cache_between(before: ServerMetrics, after: ServerMetrics) -> PrefixCacheCounters | None:
    """Return how many prompt tokens the prefix cache was asked for, and had, between two reads.

    None: the server has no such counters, restarted between the reads, or has impossible counts.
    """
    added = _added(before, after, _CACHE)
    if added is None:
        return None
    try:
        return PrefixCacheCounters(
            queried_tokens=int(added[_CACHE_QUERIES]), cached_tokens=int(added[_CACHE_HITS])
        )
    except ValueError:
        return None


def timings_between(before: ServerMetrics, after: ServerMetrics) -> ServerTimings | None:
    """Return how vLLM's histogram of the time per output token grew between two reads.

    None: the server has no such histogram, or it restarted between the reads.
    """
    added = _added(before, after, _TIMINGS)
    if added is None:
        return None
    return ServerTimings(
        time_per_output_token_sum_s=added[f"{_TPOT}_sum"],
        time_per_output_token_count=int(added[f"{_TPOT}_count"]),
    )


def _added(
    before: ServerMetrics, after: ServerMetrics, names: Sequence[str]
) -> dict[str, float] | None:
    if any(name not in reading for name in names for reading in (before, after)):
        return None
    added = {name: after[name] - before[name] for name in names}
    return added if all(map(_is_count, added.values())) else None


def _is_count(value: float) -> bool:
    return 0 <= value < _COUNT_LIMIT
