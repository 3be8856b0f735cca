"""Computes the error of a figure that is a sum of correlated measurements.

Both prompts and pairs of blocks are random samples, and neither is nested in the other. So the
variance of a figure is clustered by both (Cameron, Gelbach and Miller 2011, "Robust Inference With
Multiway Clustering"), and is never below the variance clustered by only one of the two (Davezies,
D'Haultfoeuille and Guyonvarch 2021).

The variance has two parts: one that lasts, because prompts differ, and one that more rounds reduce,
of blocks and single requests. The second is computed from each request's difference to the mean of
its prompt's requests, if the prompt was sent several times. Each part has its own t, and the
squares of their half-widths are added (Howe 1974, "Approximate Confidence Limits on the Mean of X +
Y"): with one t of the fewer degrees of freedom, the prompts' part would be as uncertain as that of
a few blocks (docs/decisions/0046-parts-of-the-error.md).

With `MANY_REPETITIONS` or more, repetitions are a random sample too. A start of the servers affects
all cases, so repetitions are clustered across strata, and pairs of blocks are nested in
repetitions. The interval is then the wider of two: one from the two parts above, and one from
prompts and repetitions. With fewer repetitions, an interval holds for the measured ones only.

`benchmarks/calibration.py` and docs/appendix/calibration.md show how often these intervals contain
the true value in simulations; docs/decisions/0019-between-repetitions.md says why other methods
were not chosen.
"""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from draftworth.analysis.clustering import (
    Clusters,
    Sample,
    VariancePart,
    clusters_of,
    merged,
    part_of,
    variance_of,
)

# With fewer prompts there is no interval: they are too few to say anything about other prompts.
MIN_PROMPTS = 6
# With fewer repetitions, their part of the error is left out: Student's t would make the interval
# uselessly wide.
MANY_REPETITIONS = 4


@dataclass(frozen=True, kw_only=True)
class Spread:
    """The error of a figure that is a sum of samples' values.

    of_prompts: the part of the variance that more rounds of the same prompts do not reduce.
    of_rounds: the part that more rounds do reduce: that of blocks and of single requests. Without
        `between`, an interval has these two parts, and holds for the measured repetitions only.
    between: two parts of the variance, clustered by prompts and by repetitions, each with its own
        degrees of freedom; empty with fewer than `MANY_REPETITIONS` whole repetitions.
    of_repetitions: the part of the variance between repetitions that more rounds do not reduce.
    prompts, blocks: the number of clusters of each kind.
    effective_samples: the number of samples of equal weights that would show rare events as well
        as these samples do: (sum of weights)^2 / sum of squared weights (Kish 1965).
    repetitions: number of repetitions that measured every case; if two runs are compared, that of
        the run with fewer.
    """

    of_prompts: VariancePart
    of_rounds: VariancePart
    between: tuple[VariancePart, ...]
    of_repetitions: VariancePart
    prompts: int
    blocks: int
    effective_samples: float
    repetitions: int

    @property
    def within(self) -> tuple[VariancePart, VariancePart]:
        """The parts of the error within the measured repetitions."""
        return self.of_prompts, self.of_rounds

    def half_width(self, confidence: float) -> float:
        return max(half_width_of(parts, confidence) for parts in (self.within, self.between))


def half_width_of(parts: Sequence[VariancePart], confidence: float) -> float:
    """Return the half-width of the interval of a figure whose error has these parts."""
    return math.hypot(*(part.half_width(confidence) for part in parts))


def spread(samples: Sequence[Sample]) -> Spread | None:
    """Return the error of the sum of the samples' values.

    None with fewer than `MIN_PROMPTS` prompts or with only one block: the error is not known then.
    """
    by_prompts = merged(clusters_of((s.stratum, s.prompt, s) for s in samples))
    prompts = len({(s.stratum, s.prompt) for s in samples})
    blocks = len({(s.stratum, s.block) for s in samples})
    if not by_prompts or blocks < 2 or prompts < MIN_PROMPTS:
        return None
    by_prompt, residuals = part_of(by_prompts), _residuals(samples)
    of_prompts = _without_requests(by_prompt, residuals)
    whole = [len(names) for names in whole_repetitions(samples).values()]
    by_repetition = _by_repetition(samples, whole)
    return Spread(
        of_prompts=of_prompts,
        of_rounds=_of_rounds(residuals, by_prompt, of_prompts),
        between=_parts_between(samples, by_prompt, by_repetition) if by_repetition else (),
        of_repetitions=_lasting(samples, by_repetition)
        if by_repetition
        else VariancePart(0.0, by_prompt.degrees_of_freedom),
        prompts=prompts,
        blocks=blocks,
        effective_samples=math.fsum(s.weight for s in samples) ** 2 / _squared_weights(samples),
        repetitions=min(whole),
    )


class _Residual(NamedTuple):
    """A sample without what its prompt's samples have in common.

    sample: its value is the difference to the mean of its prompt's samples. A prompt that was sent
        once has no such mean, and its sample keeps its value.
    group: the name of the samples whose mean this is: the prompt's samples or, if it was sent once,
        all such samples of the stratum, because `variance_of` subtracts their mean.
    """

    sample: Sample
    group: str


def _residuals(samples: Sequence[Sample]) -> list[_Residual]:
    by_prompt: dict[tuple[str, str], list[Sample]] = {}
    for sample in samples:
        by_prompt.setdefault((sample.stratum, sample.prompt), []).append(sample)
    residuals = []
    for (stratum, prompt), of_prompt in by_prompt.items():
        if len(of_prompt) == 1:
            residuals.append(_Residual(of_prompt[0], stratum))
            continue
        mean = math.fsum(s.value for s in of_prompt) / len(of_prompt)
        name = f"{stratum}\n{prompt}"
        residuals += [_Residual(s._replace(value=s.value - mean), name) for s in of_prompt]
    return residuals


def _variance_of_requests(residuals: Iterable[_Residual]) -> float:
    """Return the variance that the sum has if requests of one group are independent."""
    return variance_of(
        merged(clusters_of((r.group, str(number), r.sample) for number, r in enumerate(residuals)))
    )


def _of_rounds(
    residuals: Sequence[_Residual], by_prompt: VariancePart, of_prompts: VariancePart
) -> VariancePart:
    """Return the variance that more rounds reduce: that of blocks and of single requests.

    of_prompts: the part of `by_prompt` that stays. The variances clustered by blocks and by prompts
    both contain that of single requests, so it is subtracted once from their sum. No more of it is
    subtracted than `by_prompt` has: the two parts together are never below one of these variances.
    """
    by_block = part_of(merged(connected_blocks(residuals)))
    both = min(_variance_of_requests(residuals), by_prompt.variance)
    whole = by_prompt.variance + max(0.0, by_block.variance - both)
    degrees = min(by_prompt.degrees_of_freedom, by_block.degrees_of_freedom)
    return VariancePart(whole - of_prompts.variance, degrees)


def connected_blocks(residuals: Iterable[tuple[Sample, str]]) -> Clusters:
    """Return the blocks as clusters. A stratum is the blocks that share groups with each other.

    residuals: each is (sample, the name of the group whose mean was subtracted from it).

    The differences to the mean of a group add up to 0, so in each stratum there is one degree of
    freedom less than there are blocks.
    """
    of_block: dict[tuple[str, str], str] = {}
    of_group: dict[str, str] = {}
    samples = []
    for sample, group in residuals:
        samples.append(sample)
        new = of_block.setdefault((sample.stratum, sample.block), group)
        old = of_group.setdefault(group, new)
        if old != new:  # this group connects two strata
            of_group |= {name: new for name, stratum in of_group.items() if stratum == old}
            of_block |= {name: new for name, stratum in of_block.items() if stratum == old}
    return clusters_of((of_block[s.stratum, s.block], s.block, s) for s in samples)


def _without_requests(by_prompt: VariancePart, residuals: Sequence[_Residual]) -> VariancePart:
    """Return `by_prompt` without the variance that more requests of the same prompts reduce.

    That is the variance between the requests of a prompt. Only the prompts that were sent several
    times show it. Those sent once are assumed to have as much, relative to their squared weights;
    if all were sent once, all of the variance may come from single requests.
    """
    repeated = [r for r in residuals if r.group != r.sample.stratum]
    of_repeated = _squared_weights(r.sample for r in repeated)
    if not of_repeated:
        return VariancePart(0.0, by_prompt.degrees_of_freedom)
    of_all = _squared_weights(r.sample for r in residuals)
    of_requests = _variance_of_requests(repeated) * of_all / of_repeated
    lasting = max(0.0, by_prompt.variance - of_requests)
    return VariancePart(lasting, by_prompt.degrees_of_freedom)


def _squared_weights(samples: Iterable[Sample]) -> float:
    return math.fsum(sample.weight**2 for sample in samples)


def whole_repetitions(samples: Collection[Sample]) -> dict[str, set[str]]:
    """Return the names of the repetitions that measured every case, by `Sample.side`.

    A side is a run, if two runs are compared, and only needs its own cases. The last repetition of
    a run that ended early often lacks some.
    """
    names = {(sample.side, sample.repetition) for sample in samples}
    if len(names) == len({side for side, _ in names}):  # the only repetition of each side is whole
        return {side: {repetition} for side, repetition in names}
    cases: dict[str, dict[str, set[tuple[str, str]]]] = {}
    for sample in samples:
        of_side = cases.setdefault(sample.side, {})
        of_side.setdefault(sample.repetition, set()).add((sample.stratum, sample.case))
    wanted = {side: set().union(*by_repetition.values()) for side, by_repetition in cases.items()}
    return {
        side: {
            name for name, measured_cases in by_repetition.items() if measured_cases == wanted[side]
        }
        for side, by_repetition in cases.items()
    }


def _by_repetition(samples: Sequence[Sample], whole: Sequence[int]) -> VariancePart | None:
    """Return the variance clustered by repetition; None if there are too few repetitions.

    whole: the number of repetitions that measured every case; if two runs are compared, one number
        for each run.
    """
    if min(whole) < MANY_REPETITIONS:
        return None
    strata = merged(clusters_of((s.side, s.repetition, s) for s in samples))
    return VariancePart(variance_of(strata), sum(count - 1 for count in whole))


def _parts_between(
    samples: Sequence[Sample], by_prompt: VariancePart, by_repetition: VariancePart
) -> tuple[VariancePart, ...]:
    """Return `by_prompt` without the variance that `by_repetition` also has, and `by_repetition`.

    Both contain the variance between groups of samples that share a prompt and a repetition.
    """
    met = merged(clusters_of((s.stratum, f"{s.prompt}\n{s.repetition}", s) for s in samples))
    both = variance_of(met)
    prompts_part = VariancePart(max(0.0, by_prompt.variance - both), by_prompt.degrees_of_freedom)
    return prompts_part, by_repetition


def _lasting(samples: Sequence[Sample], by_repetition: VariancePart) -> VariancePart:
    """Return `by_repetition` without the variance between a repetition's blocks.

    More rounds reduce the variance between blocks; what is left lasts until there are more
    repetitions.
    """
    blocks = clusters_of((f"{s.stratum}\n{s.repetition}", s.block, s) for s in samples)
    several = {name: clusters for name, clusters in blocks.items() if len(clusters) > 1}
    lasting = by_repetition.variance - variance_of(merged(several))
    return VariancePart(max(0.0, lasting), by_repetition.degrees_of_freedom)
