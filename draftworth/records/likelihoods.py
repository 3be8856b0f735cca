"""A model's readings of a run: the likelihoods of its outputs, and predicted tokens a step.

`rehearse` and `estimate` write them into the run's folder when the run is over. The methods are in
`draftworth/estimate/`, the judgement is in `draftworth/analysis/likelihoods.py`.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from draftworth.records.findings import read_beside

LIKELIHOODS_FILE = "likelihoods.json"
# A token that is at most so much less likely than the best, in nats, is a near tie, which rounding
# can decide. If rounding parted outputs, the target's two best tokens lay at most 0.06 apart; a
# token that the target would not have chosen mostly lies several nats below.
NEAR_TIE_NATS = 0.5
# Both sides are equally likely under a draft if they differ by at most so much a token, in nats.
# Under the draft of the rehearsal, one random token in fifty showed 0.8, and the draft's own token
# in the place of one in five showed 0.4.
DRAFT_MARGIN_NATS = 0.25


@dataclass(frozen=True, kw_only=True)
class Likelihood:
    """One variant's sampled outputs under the target.

    deviation: of the log-likelihood from its expected value, in standard errors.
    per_token: the deviation a token, in nats: below 0 the tokens are less likely than the target's.
    """

    kind: Literal["sampled_by_target"] = "sampled_by_target"
    variant: str
    outputs: int
    tokens: int
    deviation: float
    per_token: float

    def __post_init__(self) -> None:
        _check_finite(deviation=self.deviation, per_token=self.per_token)


@dataclass(frozen=True, kw_only=True)
class GreedyLikelihood:
    """One variant's greedy outputs under the target, one of each prompt.

    beyond: outputs with a token further than a near tie below the target's most likely one.
    farthest: the largest distance of a token below the most likely one, in nats.
    chance: probability that a correct server has so many `beyond`, or more.
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


@dataclass(frozen=True, kw_only=True)
class DraftLikelihood:
    """One variant's outputs in one class and the baseline's under a draft, which favours neither.

    draft: the model that read them. difference: variant - baseline of the mean log-likelihood a
        token, in nats, over prompts. low, high: its interval, 99% for all classes of the variant
        together; None with too few prompts.
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


def _check_finite(**values: float) -> None:
    if not all(map(math.isfinite, values.values())):
        raise ValueError(f"{', '.join(values)}: allowed: finite numbers")


ModelsCheck = Likelihood | GreedyLikelihood | DraftLikelihood


@dataclass(frozen=True, kw_only=True)
class Likelihoods:
    """`likelihoods.json`."""

    schema: str = "draftworth.likelihoods/3"
    run_id: str
    likelihoods: tuple[ModelsCheck, ...]


def read_likelihoods(folder: Path, run_id: str) -> tuple[ModelsCheck, ...]:
    """Read a run's likelihoods; empty if it has no file; raise UserInputError as `read_beside`."""
    found = read_beside(Likelihoods, folder / LIKELIHOODS_FILE, run_id, what="likelihoods")
    return found.likelihoods if found else ()


PREDICTIONS_FILE = "predictions.json"


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """One variant in one prompt class.

    requests: the variant's requests to prompts whose output was read. predicted, measured: tokens
    a step over these requests. shown: requests whose chunks each show a step;
    same_sequence: those of them whose steps all are the predicted ones, in order.
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
    """Read a run's predictions; empty if it has no file; raise UserInputError as `read_beside`."""
    found = read_beside(Predictions, folder / PREDICTIONS_FILE, run_id, what="predictions")
    return found.predictions if found else ()
