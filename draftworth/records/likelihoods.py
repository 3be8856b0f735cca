"""What a model says of each side's outputs: whether they are the target's, and what it predicted.

`rehearse` and `estimate` write `likelihoods.json` (`draftworth/estimate/likelihood.py` has the
methods) and `predictions.json` into the run's folder when the run is over, and the report shows
them. Standard library only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Literal, Protocol

from draftworth.records.beside import read_beside

LIKELIHOODS_FILE = "likelihoods.json"
# False alarms: in this part of right servers.
FALSE_ALARMS = 0.01
# Two tokens of which one is so much less likely, in nats, are a near tie: another way to round may
# say either. The target's two best lay at most 0.06 apart where rounding parted outputs; a token
# that the target would not have said lies mostly several nats below.
NEAR_TIE_NATS = 0.5
# Both sides are equally likely under a draft where they differ by at most so much a token, in nats.
# One token in fifty drawn from nothing showed 0.8 under the draft of the rehearsal, the draft's own
# token in the place of one in five 0.4.
DRAFT_MARGIN_NATS = 0.25

_NOT_THE_TARGETS = "its answers are not the target's"


class AnswersCheck(Protocol):
    """One look at whether a variant's outputs are the target's."""

    @property
    def variant(self) -> str:
        """Whose outputs."""

    @property
    def is_the_targets(self) -> bool | None:
        """False: they are shown not to be; True: nothing shows it; None: cannot be told."""

    @property
    def words(self) -> str:
        """What is wrong or not known, for a reader; empty where nothing is."""


@dataclass(frozen=True, kw_only=True)
class Likelihood:
    """One variant's sampled outputs under the target.

    deviation: of the log-likelihood from what the target expects, in standard errors.
    per_token: the same a token, in nats: below 0 the tokens are less likely than the target's own.
    """

    kind: Literal["sampled_by_target"] = "sampled_by_target"
    variant: str
    outputs: int
    tokens: int
    deviation: float
    per_token: float

    def __post_init__(self) -> None:
        _check_finite(deviation=self.deviation, per_token=self.per_token)

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
            f"{self.variant}: {_NOT_THE_TARGETS}: their tokens are "
            f"{abs(self.per_token):.2f} nats {less} likely than what the target draws "
            f"({abs(self.deviation):.1f} standard errors, {self.outputs} "
            f"output{'s' * (self.outputs != 1)})"
        )


@dataclass(frozen=True, kw_only=True)
class GreedyLikelihood:
    """One variant's greedy outputs under the target, one of each prompt.

    beyond: outputs with a token further than a near tie below the target's most likely one.
    farthest: the furthest that any token lies below it, nats.
    chance: that a right server has so many beyond, or more.
    """

    kind: Literal["greedy_by_target"] = "greedy_by_target"
    variant: str
    outputs: int
    tokens: int
    beyond: int
    farthest: float
    chance: float

    def __post_init__(self) -> None:
        _check_finite(farthest=self.farthest, chance=self.chance)

    @property
    def is_the_targets(self) -> bool:
        """Nothing shows that the target would not have said them."""
        return self.chance > FALSE_ALARMS

    @property
    def words(self) -> str:
        """What is wrong, for a reader; empty where nothing is."""
        if self.is_the_targets:
            return ""
        return (
            f"{self.variant}: {_NOT_THE_TARGETS}: {self.beyond} of {self.outputs} have a token "
            f"that the target would not have said, and rounding does not explain (up to "
            f"{self.farthest:.1f} nats below its most likely one; a near tie: {NEAR_TIE_NATS:g})"
        )


@dataclass(frozen=True, kw_only=True)
class DraftLikelihood:
    """One variant's outputs in one class and the baseline's under a draft, which favours neither.

    draft: what read them. difference: variant - baseline of the mean log-likelihood a token, nats,
        over prompts; low, high: its interval, 99% for all classes of the variant together, None
        with too few prompts.
    """

    kind: Literal["by_draft"] = "by_draft"
    variant: str
    prompt_class: str
    draft: str
    prompts: int
    outputs: int
    difference: float
    low: float | None
    high: float | None

    def __post_init__(self) -> None:
        _check_finite(difference=self.difference, low=self.low or 0.0, high=self.high or 0.0)

    @property
    def is_the_targets(self) -> bool | None:
        """True where the whole interval lies within the margin; else False where it is all on one
        side of 0, which of right servers 1% show."""
        if self.low is None or self.high is None:
            return None
        if self.low >= -DRAFT_MARGIN_NATS and self.high <= DRAFT_MARGIN_NATS:
            return True
        return False if self.low > 0 or self.high < 0 else None

    @property
    def words(self) -> str:
        """What is wrong or not known, for a reader; empty where nothing is."""
        if self.is_the_targets:
            return ""
        prompts = f"{self.prompts} prompt{'s' * (self.prompts != 1)} of {self.prompt_class}"
        if self.low is None or self.high is None:
            return f"{self.variant}: {_NOT_KNOWN}: {prompts} are too few to tell"
        found = (
            f"under {self.draft} their tokens are {self.low:+.2f} to {self.high:+.2f} nats beside "
            f"the baseline's ({prompts}; equal: within {DRAFT_MARGIN_NATS:g})"
        )
        if self.is_the_targets is None:
            return f"{self.variant}: {_NOT_KNOWN}: {found}: too few prompts to tell"
        return f"{self.variant}: {_NOT_THE_TARGETS}: {found}"


_NOT_KNOWN = "whether its answers are the target's is not known"


def _check_finite(**values: float) -> None:
    if not all(map(math.isfinite, values.values())):
        raise ValueError(f"{', '.join(values)}: allowed: finite numbers")


# What a model says of one variant's outputs.
ModelsCheck = Likelihood | GreedyLikelihood | DraftLikelihood


@dataclass(frozen=True, kw_only=True)
class Likelihoods:
    """`likelihoods.json`."""

    schema: str = "draftworth.likelihoods/3"
    run_id: str
    likelihoods: tuple[ModelsCheck, ...]


def read_likelihoods(folder: Path, run_id: str) -> tuple[ModelsCheck, ...]:
    """Those of a run; none where nobody wrote any.

    Raises:
        UserInputError: the file is none of this version, or of another run.
    """
    found = read_beside(Likelihoods, folder / LIKELIHOODS_FILE, run_id, what="likelihoods")
    return found.likelihoods if found else ()


PREDICTIONS_FILE = "predictions.json"


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """One variant in one prompt class.

    requests: of the variant, to prompts whose output was read. predicted, measured: tokens a step,
    over the same requests. shown: requests whose chunks show each step, none merged on the way;
    same_sequence: those of them whose steps are the predicted ones, each and in order.
    """

    variant: str
    prompt_class: str
    requests: int
    predicted: float
    measured: float
    shown: int
    same_sequence: int

    def __post_init__(self) -> None:
        if not (self.predicted >= 1 and self.measured >= 1):
            raise ValueError("predicted, measured: allowed: 1 or more tokens a step")

    @property
    def difference(self) -> float:
        """Predicted / measured - 1."""
        return self.predicted / self.measured - 1


@dataclass(frozen=True, kw_only=True)
class Predictions:
    """`predictions.json`."""

    schema: str = "draftworth.predictions/1"
    run_id: str
    predictions: tuple[Prediction, ...]


def read_predictions(folder: Path, run_id: str) -> tuple[Prediction, ...]:
    """Those of a run; none where nobody wrote any.

    Raises:
        UserInputError: the file is none of this version, or of another run.
    """
    found = read_beside(Predictions, folder / PREDICTIONS_FILE, run_id, what="predictions")
    return found.predictions if found else ()
