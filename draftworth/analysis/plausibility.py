"""Finds comparisons that cannot be right, because servers count tokens wrong or cache answers.

Only results that no correct server can reach are found. A gateway that counts each token twice
halves the measured cost of a token, and a cache of whole responses makes it nearly zero. Both would
look like a proven gain.
"""

from collections.abc import Iterable

from draftworth.analysis.doubts import BeyondSpeculation, CountsDiffer, NotBelieved
from draftworth.analysis.output_differences import SHA256_OF_NOTHING
from draftworth.analysis.pairing import Pair
from draftworth.analysis.statistics import Estimate
from draftworth.records.results import BlockResult, RequestRecord

# Over outputs with equal texts, two servers' sums of token counts may differ by up to this share.
_EQUAL_COUNTS = 0.01
# One of two servers may count the end token of each output, and the other not. That is accepted if
# end tokens are at most this share of all tokens, because the cost per token then changes too
# little to count as a difference. With short outputs, end tokens could decide the verdict.
_END_TOKENS = 0.05
# The most tokens that a step can yield, for a server whose window is not known. The longest
# published window drafts 15 tokens (DFlash), and a step adds one. A variant that does not speculate
# may also be up to this many times as fast as the baseline; beyond that, a cache is likelier than a
# faster machine.
_MOST_TOKENS_PER_STEP = 16


def why_not_believed(
    pairs: Iterable[Pair],
    cost_ratio: Estimate | None,
    drafted: Iterable[BlockResult],
    *,
    price_ratio: float,
) -> NotBelieved | None:
    """Return why the result of a comparison cannot be right; None if nothing shows that.

    pairs: those of which both requests succeeded with a timing that can be trusted.
    drafted: the variant's blocks. price_ratio: variant / baseline of what a server costs per hour.
    """
    by_counts = _counts_against_text(pairs)
    return by_counts or _beyond_speculation(cost_ratio, drafted, price_ratio)


def _counts_against_text(pairs: Iterable[Pair]) -> CountsDiffer | None:
    equal = [pair for pair in pairs if _text(pair.plain) == _text(pair.drafted) is not None]
    counts = [(p.plain.number_output_tokens, p.drafted.number_output_tokens) for p in equal]
    both = [(plain, drafted) for plain, drafted in counts if plain and drafted]
    plain, drafted = (sum(side) for side in zip(*both, strict=True)) if both else (0, 0)
    difference, most = abs(plain - drafted), max(plain, drafted)
    end_tokens = difference <= len(both) and difference <= _END_TOKENS * most
    if end_tokens or difference <= _EQUAL_COUNTS * most:
        return None
    return CountsDiffer(outputs=len(both), baseline_tokens=plain, variant_tokens=drafted)


def _text(record: RequestRecord) -> str | None:
    """Return the hash of an output's text; None: the text is empty or not known."""
    return None if record.output_sha256 == SHA256_OF_NOTHING else record.output_sha256


def _beyond_speculation(
    cost_ratio: Estimate | None, drafted: Iterable[BlockResult], price_ratio: float
) -> BeyondSpeculation | None:
    """Return whether a variant is shown to be faster than speculation can make it, else None.

    A variant's step takes at least as long as a baseline step, which yields one token. So the
    speedup cannot exceed the most tokens that a step can yield.
    """
    most = max((block.max_tokens_per_step or 1 for block in drafted), default=1)
    if most == 1:
        most = _MOST_TOKENS_PER_STEP
    if cost_ratio is None or cost_ratio.high is None or cost_ratio.high >= price_ratio / most:
        return None
    return BeyondSpeculation(times=price_ratio / cost_ratio.value, tokens=most)
