"""Whether each side's outputs are drawn from the target, by their likelihood under it.

`likelihoods.json` in the run's folder, written when the run is over by who has the target at hand
(`draftworth/estimating/likelihood.py` has the method). Standard library only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist

from draftworth.records.beside import read_beside

LIKELIHOODS_FILE = "likelihoods.json"
# False alarms: in this part of right servers.
FALSE_ALARMS = 0.01


@dataclass(frozen=True, kw_only=True)
class Likelihood:
    """One variant's sampled outputs under the target.

    deviation: of the log-likelihood from what the target expects, in standard errors.
    per_token: the same a token, in nats: below 0 the tokens are less likely than the target's own.
    """

    variant: str
    outputs: int
    tokens: int
    deviation: float
    per_token: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.deviation) and math.isfinite(self.per_token)):
            raise ValueError("deviation, per_token: allowed: finite numbers")

    @property
    def is_the_targets(self) -> bool:
        """Nothing shows that the outputs are not drawn from the target."""
        return abs(self.deviation) <= NormalDist().inv_cdf(1 - FALSE_ALARMS / 2)

    @property
    def words(self) -> str:
        """What is wrong, for a reader; empty where nothing is."""
        if self.is_the_targets:
            return ""
        less = "less" if self.deviation < 0 else "more"
        return (
            f"{self.variant}: its answers are not the target's: their tokens are "
            f"{abs(self.per_token):.2f} nats {less} likely than what the target draws "
            f"({abs(self.deviation):.1f} standard errors, {self.outputs} "
            f"output{'s' * (self.outputs != 1)})"
        )


@dataclass(frozen=True, kw_only=True)
class Likelihoods:
    """`likelihoods.json`."""

    schema: str = "draftworth.likelihoods/1"
    run_id: str
    likelihoods: tuple[Likelihood, ...]


def read_likelihoods(folder: Path, run_id: str) -> tuple[Likelihood, ...]:
    """Those of a run; none where nobody wrote any.

    Raises:
        UserInputError: the file is none of this version, or of another run.
    """
    found = read_beside(Likelihoods, folder / LIKELIHOODS_FILE, run_id, what="likelihoods")
    return found.likelihoods if found else ()
