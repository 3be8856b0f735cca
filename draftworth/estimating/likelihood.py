"""Whether outputs are drawn from the target: by their likelihood under the target itself.

Speculation must not change what is said. At temperature 0 the texts show it; above, two right
servers say different things, and only their distribution can be checked. Where each token is drawn
from the target's distribution p, log p(token) + the entropy of p at its position has the mean 0
given all tokens before it: a martingale difference, whose variance the target's own distribution
gives. So the sum over all tokens of all outputs, divided by the root of the summed variances, is a
standard normal number whatever the texts are about (martingale central limit theorem; Brown 1971),
and one that lies far out shows a sampler that is not the target's: too likely tokens (a lower
temperature, repeats), or too unlikely ones (noise).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from draftworth.records.likelihoods import Likelihood
from draftworth.records.readings import Reading


def likelihood_of(variant: str, readings: Sequence[Reading]) -> Likelihood | None:
    """Check outputs that were sampled; None where the target leaves nothing to chance."""
    variance = math.fsum(r.variance for r in readings)
    tokens = sum(len(r.hits) + 1 for r in readings)
    if variance <= 0:
        return None
    surplus = math.fsum(r.log_likelihood + r.entropy for r in readings)
    return Likelihood(
        variant=variant,
        outputs=len(readings),
        tokens=tokens,
        deviation=surplus / math.sqrt(variance),
        per_token=surplus / tokens,
    )
