"""Computes how many tokens a step with speculation yields, and its cost. Standard library only.

A draft model proposes greedily, so as long as its proposals are accepted it continues the target's
own text. One pass of the draft over that text shows for every position whether the draft predicts
the token (a hit). The hits determine the steps for ANY window (`steps_of`). For greedy outputs this
is exact, apart from rounding. For sampled outputs the hit rate is an unbiased estimate of the
acceptance rate, because a greedy proposal is accepted with the target's probability of that token
(Leviathan et al. 2023, "Fast Inference from Transformers via Speculative Decoding", section 2).
This does not hold for draft heads such as EAGLE and DFlash: they read the target's hidden states,
so the text alone does not determine what they propose.

Engines use a window of k in two ways: NxD Inference's fused speculation drafts k tokens and checks
k - 1 of them, upstream vLLM checks all k (`most_tokens_per_step`; the catalogue says what each
release does, with its source). Functions that take the number of checked tokens (`checked`) hold
for both.

The cost of a step is given in baseline steps, each of which yields one token. So a step that costs
2.3 baseline steps breaks even at 2.3 tokens.
"""

from collections.abc import Iterator, Sequence


def most_tokens_per_step(window: int, *, checks_all: bool) -> int:
    """Return how many tokens a step yields if every drafted token that it checks is accepted.

    checks_all: whether the engine checks all drafted tokens of the window (upstream vLLM), or all
        but one (NxD Inference's fused speculation).
    """
    return window + 1 if checks_all else window


def step_cost(window: float, *, per_drafted: float) -> float:
    """Return the cost of a step with `window` drafted tokens, in baseline steps.

    per_drafted: the cost that each drafted token adds to the 1 of a baseline step.
    """
    return 1 + window * per_drafted


def steps_of(hits: Sequence[bool], *, checked: int) -> Iterator[int]:
    """Yield each step's number of output tokens; the last step stops where the output ends.

    Args:
        hits: whether the draft predicts each output token after the first. The prefill yields the
            first token.
        checked: how many drafted tokens a step checks, 0 or more; else ValueError is raised.
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


def expected_tokens_per_step(acceptance: float, *, checked: int, decay: float = 1.0) -> float:
    """Return the mean number of tokens that a step yields if it checks `checked` drafted tokens.

    acceptance: the probability from 0 to 1 that the target accepts the first drafted token; any
        other number raises ValueError.
    decay: the factor by which this probability changes from each drafted token to the next. So
        token n is accepted with probability min(1, acceptance * decay^(n - 1)), if all tokens
        before it are. With a `decay` of 1, the result is that of Leviathan et al., equation 1.
    """
    if not 0 <= acceptance <= 1:
        raise ValueError(f"acceptance: given {acceptance:g}, allowed: 0 to 1")
    tokens = reached = 1.0
    for depth in range(checked):
        reached *= min(1.0, acceptance * decay**depth)
        tokens += reached
    return tokens


def explained_acceptance(tokens_per_step: float | None, *, most: int | None) -> float | None:
    """Return the share of checked drafted tokens that were accepted, from 0 to 1.

    The result is None if an argument is None, if a step checks no drafted token (`most` is 1), or
    if accepted drafts cannot explain `tokens_per_step`: the share would be below 0 or above 1.
    most: the most tokens that a step can yield; None: not known.
    """
    accepted = None if tokens_per_step is None else tokens_per_step - 1
    drafted = (most or 1) - 1
    if accepted is None or drafted < 1 or not 0 <= accepted <= drafted:
        return None
    return accepted / drafted
