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
from dataclasses import dataclass
from statistics import NormalDist

from draftworth.records.readings import Reading

# False alarms: in this part of right servers.
FALSE_ALARMS = 0.01


@dataclass(frozen=True, kw_only=True)
class LikelihoodCheck:
    """One side's outputs under the target.

    deviation: of the log-likelihood from what the target expects, in standard errors.
    per_token: the same a token, in nats: below 0 the tokens are less likely than the target's own.
    """

    outputs: int
    tokens: int
    deviation: float
    per_token: float

    @property
    def is_the_targets(self) -> bool:
        """Nothing shows that the outputs are not drawn from the target."""
        return abs(self.deviation) <= NormalDist().inv_cdf(1 - FALSE_ALARMS / 2)


def likelihood_check(readings: Sequence[Reading]) -> LikelihoodCheck | None:
    """Check outputs that were sampled; None where the target leaves nothing to chance."""
    variance = math.fsum(r.variance for r in readings)
    tokens = sum(len(r.hits) + 1 for r in readings)
    if variance <= 0:
        return None
    surplus = math.fsum(r.log_likelihood + r.entropy for r in readings)
    return LikelihoodCheck(
        outputs=len(readings),
        tokens=tokens,
        deviation=surplus / math.sqrt(variance),
        per_token=surplus / tokens,
    )
