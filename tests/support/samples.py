"""Makes samples from tables and estimates from intervals, for tests of statistics."""

from draftworth.analysis.clustering import Sample
from draftworth.analysis.statistics import Estimate


def samples(rows: list[list[float]], *, stratum: str = "case") -> list[Sample]:
    """Return the samples of a table: one row for each prompt, one column for each block."""
    return [
        Sample(stratum=stratum, prompt=f"{stratum}/p{i}", block=f"{stratum}/{j}", value=value)
        for i, row in enumerate(rows)
        for j, value in enumerate(row)
    ]


def estimate_between(
    low: float | None,
    high: float | None,
    *,
    prompts_width: float | None = None,
    repetitions_width: float = 0.0,
) -> Estimate:
    """Return an estimate of a ratio with the value 1 and an interval; None: it has no such end.

    The estimate is from eight prompts in four repetitions.
    """
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
