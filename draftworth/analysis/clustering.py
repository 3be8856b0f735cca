"""Computes the error of a sum of correlated measurements. Standard library only.

Measurements of a run are correlated if they share a prompt (greedy requests of a prompt repeat the
same work), a pair of blocks (measured within the same minutes) or a repetition (the same start of
the servers). Prompts and pairs of blocks are samples, and neither is nested in the other. So the
variance of a figure is clustered by both (Cameron, Gelbach and Miller 2011, "Robust Inference With
Multiway Clustering"), and is never below the variance clustered by only one of the two (Davezies,
D'Haultfoeuille and Guyonvarch 2021). Student's t has the degrees of freedom of the smaller sample.
The strata are the cases of a class, which were chosen; clusters are a random sample in each.

With `MANY_REPETITIONS` or more, repetitions are a sample too. A start of the servers affects all
cases, so repetitions are clustered across strata, and pairs of blocks are nested in repetitions.
The t of few repetitions would make the prompts' part of the error far too wide, so each part has
its own t, and the squares of the half-widths are added (Howe 1974, "Approximate Confidence Limits
on the Mean of X + Y"). With fewer repetitions, an interval holds for the measured ones only.

`benchmarks/calibration.py` and docs/calibration.md show how often these intervals contain the true
value in simulations; docs/decisions/0019-between-repetitions.md says why not other methods.
"""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

# Fewer prompts are too small a sample to say anything about other prompts.
MIN_PROMPTS = 6
# Fewer repetitions are too small a sample: Student's t makes the interval uselessly wide.
MANY_REPETITIONS = 4
# With so many degrees of freedom, Student's t is the normal distribution to four digits.
_MANY_DEGREES = 1_000


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A measured value, or a measurement's part in an estimate's error, with its clusters.

    repetition: a name, unique over runs. side: the run, if two runs are compared, because the
        repetitions of each run are a sample of their own.
    case: the prompt's case, because a stratum may have several cases.
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
    """A part of a variance, with the degrees of freedom of its estimate."""

    variance: float
    degrees_of_freedom: int

    def half_width(self, confidence: float) -> float:
        t = student_t(0.5 + confidence / 2, self.degrees_of_freedom)
        return t * math.sqrt(self.variance)


@dataclass(frozen=True, kw_only=True)
class Spread:
    """The error of a sum of samples.

    within: the variance by prompts and blocks, for the measured repetitions only.
    between: the variances by prompts and by repetitions; empty with too few repetitions.
    repetitions: number of whole repetitions; of two sides, the smaller number.
    of_prompts, of_repetitions: the variances that further rounds do not reduce.
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

    None with fewer than `MIN_PROMPTS` prompts or with only one block: the error is not known then.
    """
    by_prompt = _between(_sums((s.stratum, s.prompt, s.value) for s in samples))
    by_block = _between(_sums((s.stratum, s.block, s.value) for s in samples))
    prompts = len({(s.stratum, s.prompt) for s in samples})
    if by_prompt is None or by_block is None or prompts < MIN_PROMPTS:
        return None
    # `by_prompt` and `by_block` both contain the variance of single samples: subtract it once.
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
    """Return the variance by repetition; None if a side has too few whole repetitions."""
    whole = [len(names) for names in whole_repetitions(samples).values()]
    if min(whole) < MANY_REPETITIONS:
        return None
    found = _between(_sums((s.side, s.repetition, s.value) for s in samples))
    return found and VariancePart(found.variance, sum(count - 1 for count in whole))


def _parts_between(
    samples: Sequence[Sample], by_prompt: VariancePart, by_repetition: VariancePart
) -> tuple[VariancePart, ...]:
    """Return the prompts' part (less the variance by prompt and repetition) and `by_repetition`."""
    met = _between(_sums((s.stratum, f"{s.prompt}\n{s.repetition}", s.value) for s in samples))
    both = met.variance if met else 0.0
    own = VariancePart(max(0.0, by_prompt.variance - both), by_prompt.degrees_of_freedom)
    return own, by_repetition


def _lasting(samples: Sequence[Sample], by_repetition: VariancePart) -> VariancePart:
    """Return the repetitions' part that rounds do not reduce: less the variance of their blocks."""
    blocks = _sums((f"{s.stratum}\n{s.repetition}", s.block, s.value) for s in samples)
    several = {name: clusters for name, clusters in blocks.items() if len(clusters) > 1}
    within = _between(several)
    lasting = by_repetition.variance - (within.variance if within else 0.0)
    return VariancePart(max(0.0, lasting), by_repetition.degrees_of_freedom)


@lru_cache(maxsize=1024)
def student_t(probability: float, degrees_of_freedom: int) -> float:
    """Return the quantile of Student's t distribution at a probability of 0.5 to 1.

    Bisects the distribution function, which is a finite series for whole degrees of freedom
    (Abramowitz and Stegun 26.7.3 and 26.7.4).
    """
    if degrees_of_freedom >= _MANY_DEGREES:
        return statistics.NormalDist().inv_cdf(probability)
    # The bisection is over an angle: t = tan(angle) x sqrt(degrees of freedom).
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        angle = (low + high) / 2
        if 0.5 + _central(angle, degrees_of_freedom) / 2 < probability:
            low = angle
        else:
            high = angle
    return math.tan(low) * math.sqrt(degrees_of_freedom)


def _central(angle: float, degrees_of_freedom: int) -> float:
    """Return P(-t < T < t) for t = tan(angle) x sqrt(degrees of freedom)."""
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
    """Return the variance of the sum of all clusters, as a random sample in each stratum.

    A stratum with one cluster shows no variance, so it is merged with another stratum; then the
    difference between the two counts as variance. None if there is only one cluster in all.
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
