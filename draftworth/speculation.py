"""The arithmetic of speculation: what a window yields, what it must yield, and what a step costs.

The one place of it: the catalogue's conventions, `plan`, `estimate`, a search and the report all
compute with these functions. Standard library only.

A draft proposes greedily, so as long as its proposals are accepted its prefix is the target's own
text. One pass of the draft over that text therefore shows for every position whether the draft
would have said that token (a hit), and the hits, cut as the engine cuts them, give the steps of
EVERY window. For greedy outputs this is exact but for numerics; for sampled ones the hit rate is an
unbiased estimate, because the acceptance probability of a greedy proposal is the target's
probability of that token (Leviathan et al. 2023, "Fast Inference from Transformers via Speculative
Decoding", section 2). It does not hold for heads that read the target's hidden states (EAGLE,
DFlash).

Engines count windows in two ways: in NxD Inference's fused speculation k drafts are made and k - 1
checked, in upstream vLLM all k (`most_tokens_per_step`; the catalogue says of each release which,
and from where that is known). Functions that take `checked` know nothing of either.

A step's cost is counted in baseline steps, of which each yields one token. So a step that costs
2.3 of them breaks even at 2.3 tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

# A step's tokens, checked drafts and the one after them, up to which no jump in its cost is known:
# matrix products are computed in tiles.
TOKENS_BEFORE_A_JUMP = 8


def most_tokens_per_step(window: int, *, checks_all: bool) -> int:
    """What a step yields where every checked draft is accepted.

    checks_all: all drafts of the window are checked (upstream vLLM), not all but one (NxD
        Inference's fused speculation).
    """
    return window + 1 if checks_all else window


def step_cost(window: float, *, per_drafted: float) -> float:
    """In baseline steps, where each drafted token adds so much of one.

    window: drafted tokens, or passes of the first draft that take as long.
    """
    return 1 + window * per_drafted


def steps_of(hits: Sequence[bool], *, checked: int) -> Iterator[int]:
    """Output tokens of each verification step, in order.

    Args:
        hits: whether the draft would have said each output token; without the first token, which
            the prefill yields.
        checked: drafted tokens that a step checks.

    The last step is cut off where the output ends.
    """
    if checked < 0:
        raise ValueError(f"checked: given {checked}, allowed: 0 or more")
    position = 0
    while position < len(hits):
        accepted = 0
        while accepted < checked and position + accepted < len(hits) and hits[position + accepted]:
            accepted += 1
        tokens = min(accepted + 1, len(hits) - position)
        yield tokens
        position += tokens


def tokens_per_step(hits: Sequence[bool], *, checked: int) -> float | None:
    """Mean over an output's steps; None for an output of one token, which has no step."""
    steps = sum(1 for _ in steps_of(hits, checked=checked))
    return len(hits) / steps if steps else None


def expected_tokens_per_step(acceptance: float, *, checked: int) -> float:
    """With the same acceptance (0 to 1) at each drafted token, independently.

    (1 - a^(c + 1)) / (1 - a), Leviathan et al. 2023, equation 1.
    """
    if not 0 <= acceptance <= 1:
        raise ValueError(f"acceptance: given {acceptance:g}, allowed: 0 to 1")
    return sum(acceptance**n for n in range(checked + 1))


def acceptance_of(tokens: float, *, checked: int) -> float:
    """The acceptance with which `expected_tokens_per_step` yields so many, 0 to 1; by bisection.

    More than a step can yield counts as all accepted, less than one token as none.
    """
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if expected_tokens_per_step(middle, checked=checked) < tokens:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def explained_acceptance(tokens_per_step: float | None, *, most: int | None) -> float | None:
    """The acceptance rate, 0 to 1, that explains so many tokens per step, of at most `most`.

    None where no rate does, or where one of the two is not known.
    """
    accepted = None if tokens_per_step is None else tokens_per_step - 1
    drafted = (most or 1) - 1
    if accepted is None or drafted < 1 or not 0 <= accepted <= drafted:
        return None
    return accepted / drafted


def cost_ratio(*, step_cost: float, tokens: float) -> float:
    """Time of a token / the baseline's, in decoding alone; 1 where it breaks even."""
    return step_cost / tokens
