"""The arithmetic of speculation.

Acceptance rate means accepted / drafted tokens. With a window that yields at most m tokens a step
(`MethodFacts.max_tokens_per_step`), m - 1 drafts are checked and one token follows from the check
itself, so tokens per step = 1 + acceptance x (m - 1) (Leviathan et al. 2023, "Fast Inference from
Transformers via Speculative Decoding", with the rate taken over all checked drafts).
"""

from __future__ import annotations


def acceptance_from_tokens_per_step(tokens_per_step: float, *, max_tokens_per_step: int) -> float:
    """Acceptance rate (0 to 1) that explains a measured number of output tokens per step.

    An estimate for servers without counters. Raises ValueError where no acceptance can explain it.
    """
    if max_tokens_per_step < 2:
        raise ValueError(f"max_tokens_per_step must be at least 2, given {max_tokens_per_step}")
    if not 1 <= tokens_per_step <= max_tokens_per_step:
        raise ValueError(
            f"tokens_per_step must be between 1 and {max_tokens_per_step}, given {tokens_per_step}"
        )
    return (tokens_per_step - 1) / (max_tokens_per_step - 1)


def break_even_tokens_per_step(
    *, baseline_step_seconds: float, speculative_step_seconds: float
) -> float:
    """Tokens a speculative step must yield to be no slower than decoding one at a time."""
    if baseline_step_seconds <= 0 or speculative_step_seconds <= 0:
        raise ValueError("step latencies must be above 0 seconds")
    return speculative_step_seconds / baseline_step_seconds
