"""Finds prompts that were not new to a server, because its prefix cache had them.

A run sends each prompt several times. A server with a prefix cache (vLLM has one by default) then
computes a prompt only once, so its TTFT and the cost of its tokens are lower than with new prompts.
Servers count the prompt tokens from their cache for each request (`usage`) or in counters. Of a
server that does neither, a cache shows in the TTFT of a prompt's first request and of later ones,
divided by ITL: a machine that becomes faster during a run shortens both, and a cache TTFT alone.
docs/decisions/0050-prompts-that-a-cache-has.md says why a saving is withheld.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum, auto

from draftworth.analysis.doubts import NotCold, PromptsCached, RepeatsFaster
from draftworth.analysis.pairing import Traffic, repetition_of
from draftworth.analysis.spread import MIN_PROMPTS
from draftworth.analysis.student_t import student_t
from draftworth.records.load_shapes import Load
from draftworth.records.results import BlockResult, PromptCache, RequestRecord, RunResult

# Up to this share of a variant's prompt tokens may come from a cache: it changes TTFT by as little.
MAX_CACHED_SHARE = 0.01
# TTFT / ITL of a first request, divided by that of later ones, shows a cache above this, if chance
# alone would also give so high a ratio in fewer than one variant in a thousand (Student's t over
# prompts). How often that is right: docs/appendix/calibration.md.
MIN_TTFT_RATIO = 1.1
_NO_CHANCE = 0.999


class ColdEvidence(Enum):
    """What shows that prompts were not new to a server."""

    NOTHING = auto()
    """The user has chosen a warm cache."""
    COUNTS = auto()
    """What the server counts. An experiment starts its servers without a prefix cache, so a higher
    TTFT of first requests has another cause there."""
    COUNTS_OR_TTFT = auto()
    """What the server counts or, if it counts nothing, TTFT."""

    @classmethod
    def in_run(cls, result: RunResult) -> "ColdEvidence":
        return cls.of(result.prompt_cache, of_own_servers=result.of_own_servers)

    @classmethod
    def of(cls, prompt_cache: PromptCache, *, of_own_servers: bool) -> "ColdEvidence":
        if prompt_cache == "warm":
            return cls.NOTHING
        return cls.COUNTS_OR_TTFT if of_own_servers else cls.COUNTS


def cached_share(blocks: Sequence[BlockResult]) -> float | None:
    """Return the share (0 to 1) of prompt tokens that a server took from its cache.

    It is of the measured requests if their answers say it; else of all requests of the blocks, by
    the server's counters. None: the server counts neither.
    """
    requests = [r for block in blocks for r in block.requests if r.number_input_tokens]
    # Some servers say it only of requests for which the cache had something.
    by_answers = any(r.cached_input_tokens is not None for r in requests)
    counts = [(r.cached_input_tokens or 0, r.number_input_tokens or 0) for r in requests]
    counters = [b.prefix_cache for b in blocks if b.prefix_cache]
    if not by_answers:
        counts = [(c.cached_tokens, c.queried_tokens) for c in counters]
    if not counts:
        return None
    cached, tokens = map(sum, zip(*counts, strict=True))
    return cached / tokens if tokens else 0.0


def large_cached_share(blocks: Sequence[BlockResult]) -> float | None:
    """Return the share of prompt tokens from a cache if it is too large to leave out of account."""
    share = cached_share(blocks)
    return None if share is None or share <= MAX_CACHED_SHARE else share


def why_not_cold(
    blocks: Sequence[BlockResult], traffic: Traffic, sides: Iterable[str], evidence: ColdEvidence
) -> NotCold | None:
    """Return why prompts were not new to the server of a variant in `sides`; None: they were.

    blocks: all measured blocks. traffic: what the comparison is about.
    """
    if evidence is ColdEvidence.NOTHING:
        return None
    for variant in sides:
        if doubt := _why_not_cold(blocks, traffic, variant, evidence):
            return doubt
    return None


def _why_not_cold(
    blocks: Sequence[BlockResult], traffic: Traffic, variant: str, evidence: ColdEvidence
) -> NotCold | None:
    in_traffic = [b for group in traffic.groups for b in group.blocks(blocks, variant)]
    share = cached_share(in_traffic)
    if share is not None:
        is_large = share > MAX_CACHED_SHARE
        return PromptsCached(variant=variant, share=share) if is_large else None
    if evidence is not ColdEvidence.COUNTS_OR_TTFT:
        return None
    at_all_loads = (b for b in blocks if b.variant == variant)
    return _faster_again([b for b in at_all_loads if b.prompt_class in traffic.weights], variant)


def _faster_again(blocks: Sequence[BlockResult], variant: str) -> RepeatsFaster | None:
    """Return whether one variant's TTFT / ITL is shown to be higher when a prompt is sent first.

    blocks: those of all loads, because a prompt that was sent at one load is cached at the next.
    """
    logs = [*_logs_of_first_to_later(blocks)]
    if len(logs) < MIN_PROMPTS:
        return None
    mean = statistics.fmean(logs)
    standard_error = statistics.stdev(logs) / math.sqrt(len(logs))
    by_chance = student_t(_NO_CHANCE, len(logs) - 1) * standard_error
    if mean <= max(math.log(MIN_TTFT_RATIO), by_chance):
        return None
    return RepeatsFaster(variant=variant, times=math.exp(mean), prompts=len(logs))


def _logs_of_first_to_later(blocks: Iterable[BlockResult]) -> Iterator[float]:
    """Yield, for each prompt, the logarithm of TTFT / ITL of its first request to its later ones'.

    Later ones count at the load of the first alone, as TTFT depends on the load. A prompt is new
    again in each repetition, before which servers are started, and at each prompt length.
    """
    sent = defaultdict[tuple[object, ...], list[tuple[Load, RequestRecord]]](list)
    for block in sorted(blocks, key=lambda b: (b.run_id, b.block)):
        where = repetition_of(block), block.prompt_class, block.case, block.load.input_tokens
        for record in block.requests:
            sent[*where, record.prompt_id].append((block.load, record))
    for (load, first_request), *repeats in sent.values():
        first = _log_of_ttft_to_itl(first_request)
        alike = (_log_of_ttft_to_itl(r) for at, r in repeats if at == load)
        later = [log for log in alike if log is not None]
        if first is not None and later:
            yield first - statistics.fmean(later)


def _log_of_ttft_to_itl(record: RequestRecord) -> float | None:
    ttft_s, itl_s = record.ttft_s, record.inter_token_latency_s
    return math.log(ttft_s / itl_s) if record.counts and ttft_s and itl_s else None
