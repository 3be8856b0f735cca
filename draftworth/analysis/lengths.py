"""How long a variant's outputs were, and what ended them."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from draftworth.records.results import RequestRecord

# vLLM has four; a reason is a server's own word, and a table has room for some.
_MOST_REASONS = 5


@dataclass(frozen=True, kw_only=True)
class OutputLengths:
    """Output tokens of the requests that did not fail, and how many each reason ended.

    ends: by finish reason (`stop`: the model's own end, `length`: max_tokens), the most frequent
        first; `not told` where the server says none, `other` for all beyond the first few.
    """

    fewest: int
    median: float
    most: int
    ends: Mapping[str, int]


def output_lengths(records: Sequence[RequestRecord]) -> OutputLengths | None:
    """Of one variant; None where the server counts no tokens."""
    done = [r for r in records if not r.failed]
    lengths = [r.number_output_tokens for r in done if r.number_output_tokens is not None]
    if not lengths:
        return None
    ends = Counter(r.finish_reason or "not told" for r in done)
    named = dict(ends.most_common(_MOST_REASONS))
    others = {"other": ends.total() - sum(named.values())}
    return OutputLengths(
        fewest=min(lengths),
        median=statistics.median(lengths),
        most=max(lengths),
        ends={**named, **(others if others["other"] else {})},
    )
