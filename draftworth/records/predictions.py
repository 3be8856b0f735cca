"""What a pass over the baseline's outputs predicted, beside what a run's servers did.

`predictions.json` in the run's folder, written when the run is over by who has the draft models at
hand; the report shows it. Standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from draftworth.records.beside import read_beside

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
