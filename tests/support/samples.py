"""Samples of an estimate's error, by hand."""

from draftworth.analysis.clustering import Sample
from draftworth.analysis.statistics import Estimate


def samples(rows: list[list[float]], *, stratum: str = "case") -> list[Sample]:
    """A prompt a row, a block a column."""
    return [
        Sample(stratum=stratum, prompt=f"{stratum}/p{i}", block=f"{stratum}/{j}", value=value)
        for i, row in enumerate(rows)
        for j, value in enumerate(row)
    ]


def known(
    low: float | None,
    high: float | None,
    *,
    prompts_width: float | None = None,
    repetitions_width: float = 0.0,
) -> Estimate:
    """A ratio of 1 of eight prompts in four repetitions."""
    return Estimate(
        value=1.0,
        low=low,
        high=high,
        prompts=8,
        blocks=4,
        samples=32,
        repetitions=4,
        prompts_width=prompts_width,
        repetitions_width=repetitions_width,
    )
