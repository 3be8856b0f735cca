"""The files `likelihoods.json` and `predictions.json`, which are written when a run is over.

The first says how likely the run's outputs are under a model, the second compares predicted and
measured tokens per step. `rehearse` and `estimate` write both into the run's folder; the values are
computed in `draftworth/estimate/` and judged in `draftworth/analysis/likelihood_check.py`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from draftworth.records.codec import Between, Checked
from draftworth.records.findings import read_beside

LIKELIHOODS_FILE = "likelihoods.json"
# A token whose log-likelihood is at most this much below the best token's, in nats, is a near tie,
# which rounding can decide. Where rounding made outputs differ, the target's two best tokens were
# at most 0.06 apart; a token that the target would not choose is mostly several nats below.
NEAR_TIE_NATS = 0.5
# The variant's and the baseline's outputs count as equally likely under a draft if they differ by
# at most this many nats per token. With the rehearsal's draft, one random token in 50 made a
# difference of 0.8; replacing one token in 5 by the draft's own token made a difference of 0.4.
DRAFT_MARGIN_NATS = 0.25


@dataclass(frozen=True, kw_only=True)
class Likelihood:
    """How likely one variant's sampled outputs are under the target model.

    deviation: the outputs' log-likelihood minus the mean log-likelihood of outputs that the target
        itself samples, in standard errors.
    per_token: the difference that `deviation` gives in standard errors, here in nats per token;
        below 0: the outputs are less likely than expected.
    """

    kind: Literal["sampled_by_target"] = "sampled_by_target"
    variant: str
    outputs: int
    tokens: int
    deviation: float
    per_token: float


@dataclass(frozen=True, kw_only=True)
class GreedyLikelihood:
    """How likely one variant's greedy outputs are under the target, one output of each prompt.

    beyond: number of outputs that have a token whose log-likelihood is more than NEAR_TIE_NATS
        below that of the target's most likely token at the same position.
    farthest: the largest such difference at any position of any output, in nats.
    chance: probability that a correct server has this value of `beyond`, or a larger one.
    """

    kind: Literal["greedy_by_target"] = "greedy_by_target"
    variant: str
    outputs: int
    tokens: int
    beyond: int
    farthest: float
    chance: float


@dataclass(frozen=True, kw_only=True)
class DraftLikelihood:
    """A variant's outputs compared with the baseline's by their likelihood under a draft model.

    prompts: number of compared prompts of the class. outputs: the variant's outputs to them.
    difference: the variant's log-likelihood per token minus the baseline's, in nats, as the mean
        over the prompts. low, high: the interval of this mean; the intervals of all classes of
        the variant hold together with 99% confidence. None: too few prompts for an interval.
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


ModelsCheck = Likelihood | GreedyLikelihood | DraftLikelihood


@dataclass(frozen=True, kw_only=True)
class Likelihoods:
    """`likelihoods.json`: how likely each variant's outputs in one run are under the models."""

    schema: str = "draftworth.likelihoods/3"
    run_id: str
    likelihoods: tuple[ModelsCheck, ...]


def read_likelihoods(folder: Path, run_id: str) -> tuple[ModelsCheck, ...]:
    """Return the run's likelihoods, () if it has no file; raise UserInputError for a wrong file."""
    record = read_beside(Likelihoods, folder / LIKELIHOODS_FILE, run_id, what="likelihoods")
    return record.likelihoods if record else ()


PREDICTIONS_FILE = "predictions.json"


@dataclass(frozen=True, kw_only=True)
class Prediction(Checked):
    """Predicted and measured tokens per step of one variant in one prompt class.

    requests: number of requests with a prediction for their prompt.
    predicted, measured: mean tokens per step of the requests whose steps can be counted.
    shown: number of requests whose chunks show the tokens of each step.
    same_sequence: number of `shown` requests in which each chunk has as many tokens as one
        predicted step, or as several predicted steps in a row.
    """

    variant: str
    prompt_class: str
    requests: int
    predicted: Annotated[float, Between(1)]
    measured: Annotated[float, Between(1)]
    shown: int
    same_sequence: int

    @property
    def difference(self) -> float:
        """The prediction's relative error: predicted / measured - 1."""
        return self.predicted / self.measured - 1


@dataclass(frozen=True, kw_only=True)
class Predictions:
    """`predictions.json`: predicted and measured tokens per step of a run, by variant and class."""

    schema: str = "draftworth.predictions/1"
    run_id: str
    predictions: tuple[Prediction, ...]


def read_predictions(folder: Path, run_id: str) -> tuple[Prediction, ...]:
    """Return a run's predicted and measured tokens per step; () if it has no `predictions.json`.

    UserInputError is raised if the file is wrong.
    """
    record = read_beside(Predictions, folder / PREDICTIONS_FILE, run_id, what="predictions")
    return record.predictions if record else ()
