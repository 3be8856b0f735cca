"""Says which comparisons cannot be right: a cost per token rests on the servers' counts of tokens.

Only what no server can do is named here. A gateway that counts tokens twice halves the cost of a
token, and a cache of whole responses takes nearly all of it; both look like a proven gain.
"""

from collections.abc import Iterable

from draftworth.analysis.outputs import SHA256_OF_NOTHING
from draftworth.analysis.pairing import Pair
from draftworth.analysis.statistics import Estimate
from draftworth.errors import counted
from draftworth.records.results import BlockResult, RequestRecord

# Of equal texts, the sums of both servers' token counts differ by less than this. Servers may count
# the end token or not, which is more only where outputs are very short.
_EQUAL_COUNTS = 0.01
# What a step may yield where the window is not known: twice as many tokens as the longest window
# that was published yields (15 drafted tokens, DFlash).
_MOST_TOKENS_PER_STEP = 32


def why_not_believed(
    pairs: Iterable[Pair],
    cost_ratio: Estimate | None,
    drafted: Iterable[BlockResult],
    *,
    price_ratio: float,
) -> str:
    """Say why a comparison allows no verdict; empty if it allows one.

    pairs: those in which both requests count. drafted: the variant's blocks.
    price_ratio: variant / baseline of what the servers cost an hour.
    """
    by_counts = _counts_against_text(pairs)
    return by_counts or _beyond_speculation(cost_ratio, drafted, price_ratio)


def _counts_against_text(pairs: Iterable[Pair]) -> str:
    equal = [pair for pair in pairs if _text(pair.plain) == _text(pair.drafted) is not None]
    counts = [(p.plain.number_output_tokens, p.drafted.number_output_tokens) for p in equal]
    both = [(plain, drafted) for plain, drafted in counts if plain and drafted]
    plain, drafted = (sum(side) for side in zip(*both, strict=True)) if both else (0, 0)
    if abs(plain - drafted) <= _EQUAL_COUNTS * max(plain, drafted):
        return ""
    return (
        f"the servers count tokens differently; in {counted(len(both), 'output')} with the same "
        f"text the baseline counts {plain:,} tokens and the variant {drafted:,}, so a cost per "
        "token says nothing"
    )


def _text(record: RequestRecord) -> str | None:
    """Return the hash of an output's text; None: the text is empty or not known."""
    return None if record.output_sha256 == SHA256_OF_NOTHING else record.output_sha256


def _beyond_speculation(
    cost_ratio: Estimate | None, drafted: Iterable[BlockResult], price_ratio: float
) -> str:
    """A step takes at least as long as the baseline's, which yields one token."""
    windows = {block.max_tokens_per_step for block in drafted}
    most = max((each for each in windows if each), default=_MOST_TOKENS_PER_STEP)
    if cost_ratio is None or cost_ratio.high is None or most == 1:
        return ""
    if cost_ratio.high >= price_ratio / most:
        return ""
    return (
        f"no speculation can gain so much; the variant is {price_ratio / cost_ratio.value:.0f} "
        f"times as fast, and a step yields at most {most} tokens: a cache of responses may have "
        "answered, or a faster server"
    )
