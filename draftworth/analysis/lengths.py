"""How long a variant's prompts and outputs were, and what ended the outputs."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from draftworth.records.load import Load
from draftworth.records.results import RequestRecord

# vLLM has four; a reason is a server's own word, and a table has room for some.
_MOST_REASONS = 5


# A server counts prompts by more than its tokenizer was asked of, by a few tokens at most.
_INPUT_TOLERANCE = 0.05


def wrong_input_tokens(records: Sequence[RequestRecord], load: Load) -> float | None:
    """The mean input tokens, where they are not what the load asks for; None: they are."""
    counts = [r.number_input_tokens for r in records if r.number_input_tokens is not None]
    if load.input_tokens is None or not counts:
        return None
    mean = statistics.fmean(counts)
    return mean if abs(mean / load.input_tokens - 1) > _INPUT_TOLERANCE else None


@dataclass(frozen=True, kw_only=True)
class Lengths:
    """Tokens of prompts or of outputs."""

    fewest: int
    median: float
    most: int


def lengths_of(counts: Iterable[int | None]) -> Lengths | None:
    """Of those that are known; None where none is."""
    known = [count for count in counts if count is not None]
    if not known:
        return None
    return Lengths(fewest=min(known), median=statistics.median(known), most=max(known))


@dataclass(frozen=True, kw_only=True)
class OutputLengths(Lengths):
    """Output tokens of the requests that did not fail, and how many each reason ended.

    ends: by finish reason (`stop`: the model's own end, `length`: max_tokens), the most frequent
        first; `not told` where the server says none, `other` for all beyond the first few.
    """

    ends: Mapping[str, int]


def output_lengths(records: Sequence[RequestRecord]) -> OutputLengths | None:
    """Of one variant; None where the server counts no tokens."""
    done = [r for r in records if not r.failed]
    lengths = lengths_of(r.number_output_tokens for r in done)
    if lengths is None:
        return None
    ends = Counter(r.finish_reason or "not told" for r in done)
    named = dict(ends.most_common(_MOST_REASONS))
    others = {"other": ends.total() - sum(named.values())}
    ended = {**named, **(others if others["other"] else {})}
    return OutputLengths(**vars(lengths), ends=ended)
