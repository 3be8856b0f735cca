"""The error of a sum of measurements that are correlated. Standard library.

Measurements of a run are alike if they share a prompt (greedy requests of a prompt repeat the same
work), a pair of blocks (the same minute of the machine) or a repetition (the same start of the
servers). Prompts and pairs of blocks are samples, and neither lies within the other, so the
variance of a figure is clustered by both (Cameron, Gelbach and Miller 2011, "Robust Inference With
Multiway Clustering"), is never taken as smaller than by one alone (Davezies, D'Haultfoeuille and
Guyonvarch 2021), and has Student's t of the degrees of freedom of the smaller sample. Clusters are
drawn within strata (the cases of a class), because cases were chosen, not drawn.

From `MANY_REPETITIONS` on, repetitions are a sample too. A start affects all cases at once, so
repetitions are clustered across the strata, and pairs of blocks lie within them. The t of few
repetitions would make the prompts' part of the error far too wide, so each part has its own t, and
the squares of the half-widths are added (Howe 1974, "Approximate Confidence Limits on the Mean of X
+ Y"). With fewer repetitions a figure speaks of these repetitions alone.

How often these intervals cover a planted truth: `benchmarks/calibration.py`, docs/calibration.md.
Why not others: docs/decisions/0019-between-repetitions.md.
"""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

# Fewer prompts say nothing about others.
MIN_PROMPTS = 6
# Fewer repetitions say nothing about others: their t makes an interval too wide to be of use.
MANY_REPETITIONS = 4
# From here on Student's distribution is the normal one to four digits.
_MANY_DEGREES = 1_000


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A value with its clusters: a figure, or its part in the error of an estimate.

    repetition: the start of the servers, unique over runs. side: the run, where two are compared,
        because the repetitions of each are a sample of their own.
    case: for a stratum of several cases.
    """

    stratum: str
    prompt: str
    block: str
    value: float
    repetition: str = ""
    side: str = ""
    case: str = ""


@dataclass(frozen=True)
class VariancePart:
    """A part of a variance, and how well it is known."""

    variance: float
    degrees_of_freedom: int

    def half_width(self, confidence: float) -> float:
        t = student_t(0.5 + confidence / 2, self.degrees_of_freedom)
        return t * math.sqrt(self.variance)


@dataclass(frozen=True, kw_only=True)
class Spread:
    """The error of a sum of samples.

    within: by prompts and blocks, for these repetitions. between: the parts of prompts and of
        repetitions, where those are a sample; else empty.
    repetitions: whole ones, of the side that has fewer.
    of_prompts, of_repetitions: the parts that more rounds do not make smaller.
    """

    within: VariancePart
    between: tuple[VariancePart, ...]
    of_prompts: VariancePart
    of_repetitions: VariancePart
    prompts: int
    blocks: int
    repetitions: int

    def half_width(self, confidence: float) -> float:
        return max(
            self.within.half_width(confidence),
            math.hypot(*(part.half_width(confidence) for part in self.between)),
        )


def spread(samples: Sequence[Sample]) -> Spread | None:
    """Return the error of the sum of the samples' values.

    None where it cannot be known: with fewer than `MIN_PROMPTS` prompts, or one block alone.
    """
    by_prompt = _between(_sums((s.stratum, s.prompt, s.value) for s in samples))
    by_block = _between(_sums((s.stratum, s.block, s.value) for s in samples))
    prompts = len({(s.stratum, s.prompt) for s in samples})
    if by_prompt is None or by_block is None or prompts < MIN_PROMPTS:
        return None
    # A prompt that was seen once cannot be told from its block.
    single = _between(_sums((s.stratum, str(i), s.value) for i, s in enumerate(samples)))
    both = single.variance if single else 0.0
    most = max(by_prompt.variance, by_block.variance, by_prompt.variance + by_block.variance - both)
    degrees = min(by_prompt.degrees_of_freedom, by_block.degrees_of_freedom)
    by_repetition = _by_repetition(samples)
    return Spread(
        within=VariancePart(most, degrees),
        between=_parts_between(samples, by_prompt, by_repetition) if by_repetition else (),
        of_prompts=VariancePart(max(0.0, by_prompt.variance - both), degrees),
        of_repetitions=_lasting(samples, by_repetition)
        if by_repetition
        else VariancePart(0.0, degrees),
        prompts=prompts,
        blocks=len({(s.stratum, s.block) for s in samples}),
        repetitions=min(map(len, whole_repetitions(samples).values())),
    )


def whole_repetitions(samples: Iterable[Sample]) -> dict[str, set[str]]:
    """Return, for each side, the repetitions with a sample of every case that the side has.

    The last repetition of a run that ended early is not whole.
    """
    cases: dict[str, dict[str, set[tuple[str, str]]]] = {}
    for sample in samples:
        of_side = cases.setdefault(sample.side, {})
        of_side.setdefault(sample.repetition, set()).add((sample.stratum, sample.case))
    wanted = {side: set().union(*found.values()) for side, found in cases.items()}
    return {
        side: {name for name, own in found.items() if own == wanted[side]}
        for side, found in cases.items()
    }


def _by_repetition(samples: Sequence[Sample]) -> VariancePart | None:
    """Return None where a side has too few whole repetitions to be a sample."""
    whole = [len(names) for names in whole_repetitions(samples).values()]
    if min(whole) < MANY_REPETITIONS:
        return None
    found = _between(_sums((s.side, s.repetition, s.value) for s in samples))
    return found and VariancePart(found.variance, sum(count - 1 for count in whole))


def _parts_between(
    samples: Sequence[Sample], by_prompt: VariancePart, by_repetition: VariancePart
) -> tuple[VariancePart, ...]:
    """Return the prompts' part without its share within repetitions, and the repetitions'."""
    met = _between(_sums((s.stratum, f"{s.prompt}\n{s.repetition}", s.value) for s in samples))
    both = met.variance if met else 0.0
    own = VariancePart(max(0.0, by_prompt.variance - both), by_prompt.degrees_of_freedom)
    return own, by_repetition


def _lasting(samples: Sequence[Sample], by_repetition: VariancePart) -> VariancePart:
    """Return the repetitions' part without the differences of blocks within a repetition."""
    blocks = _sums((f"{s.stratum}\n{s.repetition}", s.block, s.value) for s in samples)
    several = {name: clusters for name, clusters in blocks.items() if len(clusters) > 1}
    within = _between(several)
    lasting = by_repetition.variance - (within.variance if within else 0.0)
    return VariancePart(max(0.0, lasting), by_repetition.degrees_of_freedom)


@lru_cache(maxsize=1024)
def student_t(probability: float, degrees_of_freedom: int) -> float:
    """Return the quantile of Student's t distribution at a probability of 0.5 to 1.

    By bisection of its distribution function, whose series for whole degrees of freedom is finite
    (Abramowitz and Stegun 26.7.3 and 26.7.4).
    """
    if degrees_of_freedom >= _MANY_DEGREES:
        return statistics.NormalDist().inv_cdf(probability)
    # As an angle: the tangent of it x the root of the degrees of freedom is t.
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        angle = (low + high) / 2
        if 0.5 + _central(angle, degrees_of_freedom) / 2 < probability:
            low = angle
        else:
            high = angle
    return math.tan(low) * math.sqrt(degrees_of_freedom)


def _central(angle: float, degrees_of_freedom: int) -> float:
    """Return the probability of a t between minus and plus the t of this angle."""
    odd = degrees_of_freedom % 2
    term = math.cos(angle) if odd else 1.0
    total = term if degrees_of_freedom > 1 else 0.0
    for k in range(2 + odd, degrees_of_freedom, 2):
        term *= (k - 1) / k * math.cos(angle) ** 2
        total += term
    total *= math.sin(angle)
    return 2 / math.pi * (angle + total) if odd else total


Sums = dict[str, dict[str, float]]


def _sums(samples: Iterable[tuple[str, str, float]]) -> Sums:
    found: Sums = {}
    for stratum, cluster, value in samples:
        clusters = found.setdefault(stratum, {})
        clusters[cluster] = clusters.get(cluster, 0.0) + value
    return found


def _between(sums: Sums) -> VariancePart | None:
    """Return the variance of the total when clusters are drawn within each stratum.

    A stratum of one cluster shows no variance, so it is put together with another stratum; their
    difference then counts as variance too. None where there is one cluster in all.
    """
    strata = [[*clusters.values()] for clusters in sums.values()]
    lone = [value for values in strata if len(values) == 1 for value in values]
    several = sorted((values for values in strata if len(values) > 1), key=len)
    if len(lone) == 1 and several:
        several[0] = [*several[0], *lone]
    elif lone:
        several.append(lone)
    degrees = sum(len(values) - 1 for values in several)
    if degrees < 1:
        return None
    variance = sum(len(v) / (len(v) - 1) * _squares(v) for v in several)
    return VariancePart(variance, degrees)


def _squares(values: Sequence[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values)
