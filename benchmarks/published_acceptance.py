"""Predicts published tokens per step of some windows from other windows, and shows the errors.

    python -m benchmarks.published_acceptance

`published_acceptance.json` has curves: the mean tokens per step by window, for draft heads of five
model families. From each choice of one, two or three windows of a curve, the search's own
`from_means` predicts the curve's other windows. For this it needs `usual_decay`, the factor by
which acceptance falls from one drafted token of a step to the next. This factor is fitted to the
other families, so no family predicts itself. docs/appendix/calibration.md explains the columns.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path
from statistics import fmean

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from draftworth.records.search_result import Candidate
from draftworth.searching.predicted_tokens_per_step import from_means

# The decay factors of acceptance from which `fitted_decay` chooses.
FALLS = tuple(hundredths / 100 for hundredths in range(88, 101))
_NORMAL_95 = 1.96
_CLASS = "coding"


# The published mean tokens per step, by window.
Curve = Mapping[int, float]


@dataclass(frozen=True, kw_only=True)
class PredictionError:
    """The error of a prediction for one window.

    error: log(predicted / published tokens per step). deviation: the standard deviation that the
        prediction claims for this error.
    is_beyond: whether the window is longer than every window from which it was predicted.
    """

    error: float
    deviation: float
    is_beyond: bool


@cache
def curves() -> Mapping[str, Sequence[Curve]]:
    """Read the published curves (tokens per step by window), by model family, such as `kimi`."""
    file = Path(__file__).with_name("published_acceptance.json")
    by_family: dict[str, list[Curve]] = {}
    for published in json.loads(file.read_text(encoding="utf-8"))["curves"]:
        curve = {int(k): v for k, v in published["tokens_per_step_by_window"].items()}
        by_family.setdefault(published["model"].partition("-")[0], []).append(curve)
    return by_family


def errors(curve: Curve, *, measured: int, usual_decay: float) -> Iterator[PredictionError]:
    """Predict the windows of a curve from other windows of it, and yield the errors.

    measured: from how many other windows each is predicted; all choices of them are tried.
    usual_decay: the factor by which acceptance falls from one drafted token of a step to the next,
        if only one other window is known.
    """
    for windows in combinations(curve, measured):
        means = {_candidate(w): {_CLASS: curve[w]} for w in windows}
        for window in curve.keys() - set(windows):
            prediction = from_means(_candidate(window), means, usual_decay=usual_decay)
            if prediction:
                yield PredictionError(
                    error=math.log(prediction.tokens[_CLASS] / curve[window]),
                    deviation=prediction.deviation,
                    is_beyond=window > max(windows),
                )


def fitted_decay(left_out: str = "") -> float:
    """Return the `usual_decay` that fits the curves of all model families but `left_out` best.

    It is the factor by which acceptance falls from one drafted token of a step to the next. With
    the best one, predictions from one measured window have the least mean absolute error.
    """
    other_curves = [
        curve for family, of_family in curves().items() if family != left_out for curve in of_family
    ]

    def mean_error(decay: float) -> float:
        every = (e for curve in other_curves for e in errors(curve, measured=1, usual_decay=decay))
        return fmean(abs(e.error) for e in every)

    return min(FALLS, key=mean_error)


def covered(errors_: Sequence[PredictionError]) -> float:
    """Return the share of errors within the 95% interval that the prediction's deviation claims."""
    return fmean(abs(e.error) <= _NORMAL_95 * e.deviation for e in errors_)


def main() -> None:
    """Print the table of errors; each family's `usual_decay` is fitted to the other families."""
    headings = "measured", "family", "windows", "predictions", "mean error", "bias", "worst"
    table = Table(*headings, "covers", box=SIMPLE)
    decays = {family: fitted_decay(family) for family in curves()}
    for measured in (1, 2, 3):
        by_family = {
            family: [
                e
                for c in of_family
                for e in errors(c, measured=measured, usual_decay=decays[family])
            ]
            for family, of_family in curves().items()
        }
        by_family["all"] = [e for of_family in by_family.values() for e in of_family]
        for family, of_family in by_family.items():
            for where, is_beyond in (("up to the longest", False), ("beyond", True)):
                some = [e for e in of_family if e.is_beyond == is_beyond]
                table.add_row(str(measured), family, where, *_cells(some))
    Console(width=120).print(table)
    print(f"usual decay factor, fitted to all families: {fitted_decay():.2f}")


def _cells(some: Sequence[PredictionError]) -> tuple[str, ...]:
    values = [e.error for e in some]
    return (
        str(len(some)),
        f"{fmean(map(abs, values)):.1%}",
        f"{fmean(values):+.1%}",
        f"{max(values, key=abs):+.1%}",
        f"{covered(some):.3f}",
    )


def _candidate(window: int) -> Candidate:
    return Candidate(variant=f"k{window}", draft="head", window=window, checked=window)


if __name__ == "__main__":
    main()
