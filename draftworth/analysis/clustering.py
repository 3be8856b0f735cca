"""Computes the error of a sum of correlated measurements. Standard library only.

Measurements of a run are correlated if they share a prompt (greedy requests of a prompt repeat the
same work), a pair of blocks (measured within the same minutes) or a repetition (the same start of
the servers). Correlated measurements form a cluster. A clustered variance is computed from the
sums of the clusters, as if each cluster were one measurement. Both prompts and pairs of blocks are
random samples, and neither is nested in the other. So the variance of a figure is clustered by both
(Cameron, Gelbach and Miller 2011, "Robust Inference With Multiway Clustering"), and is never below
the variance clustered by only one of the two (Davezies, D'Haultfoeuille and Guyonvarch 2021).
Student's t has the lower of the two degrees of freedom. A stratum is one case (a prompt set: cases
are chosen, not drawn at random), or a class with many cases. The clusters in a stratum are a random
sample of it.

Degrees of freedom depend on the weights: a figure that depends mostly on three prompts is only as
certain as with three prompts, however many others were measured. They are computed by
Satterthwaite's formula. The formula does not get the measured variance of each cluster, which is
too uncertain with a few clusters, but the variances that clusters of these weights would have if
all were equally uncertain (Bell and McCaffrey 2002, "Bias Reduction in Standard Errors for Linear
Regression with Multi-Stage Samples"; docs/decisions/0015-the-verdict.md).

With `MANY_REPETITIONS` or more, repetitions are a random sample too. A start of the servers affects
all cases, so repetitions are clustered across strata, and pairs of blocks are nested in
repetitions. The t of few repetitions would make the prompts' part of the error far too wide, so
each part has its own t, and the squares of the half-widths are added (Howe 1974, "Approximate
Confidence Limits on the Mean of X + Y"). With fewer repetitions, an interval holds for the measured
ones only.

`benchmarks/calibration.py` and docs/calibration.md show how often these intervals contain the true
value in simulations; docs/decisions/0019-between-repetitions.md says why other methods were not
chosen.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

# With fewer prompts there is no interval: they are too few to say anything about other prompts.
MIN_PROMPTS = 6
# With fewer repetitions, their part of the error is left out: Student's t would make the interval
# uselessly wide.
MANY_REPETITIONS = 4
# With so many degrees of freedom, Student's t is the normal distribution to four digits.
_MANY_DEGREES = 1_000


class Sample(NamedTuple):
    """One measurement, with the names of the clusters that it belongs to.

    value: the measured value, or what the measurement adds to the error of an estimate.
    stratum: the population that `prompt` and `block` are random samples of: a case (prompt set), or
        a class with many cases.
    prompt: the name of the prompt or, in a class with many cases, of the case.
    block: the name of the block or pair of blocks. repetition: its name, unique over runs.
    side: the run, if two runs are compared, because the repetitions of each run are a sample of
        their own; otherwise empty.
    case: the prompt's case, because a stratum may have several cases.
    weight: how much of the estimate depends on this measurement, in any unit.

    It is a NamedTuple to be fast: a verdict makes one for each request and figure.
    """

    stratum: str
    prompt: str
    block: str
    value: float
    repetition: str = ""
    side: str = ""
    case: str = ""
    weight: float = 1.0


@dataclass(frozen=True)
class VariancePart:
    """A part of the variance of a figure, with the degrees of freedom for its Student's t."""

    variance: float
    degrees_of_freedom: float

    def half_width(self, confidence: float) -> float:
        t = student_t(0.5 + confidence / 2, self.degrees_of_freedom)
        return t * math.sqrt(self.variance)


@dataclass(frozen=True, kw_only=True)
class Spread:
    """The error of a figure that is a sum of samples' values.

    within: the variance clustered by prompts and blocks, which holds for the measured repetitions
        only.
    between: two parts of the variance, clustered by prompts and by repetitions, each with its own
        degrees of freedom; empty with fewer than `MANY_REPETITIONS` whole repetitions.
    of_prompts, of_repetitions: the parts of the variance that more rounds in the same repetitions
        do not reduce, because prompts or repetitions differ.
    prompts, blocks: the number of clusters of each kind.
    repetitions: number of repetitions that measured every case; if two runs are compared, that of
        the run with fewer.
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
    of_prompts = _merged(_clusters((s.stratum, s.prompt, s) for s in samples))
    of_blocks = _merged(_clusters((s.stratum, s.block, s) for s in samples))
    prompts = len({(s.stratum, s.prompt) for s in samples})
    if not of_prompts or not of_blocks or prompts < MIN_PROMPTS:
        return None
    by_prompt, by_block = _part(of_prompts), _part(of_blocks)
    # `by_prompt` and `by_block` both contain the variance of single samples: subtract it once.
    both = _variance(_merged(_single_samples(samples)))
    most = max(by_prompt.variance, by_block.variance, by_prompt.variance + by_block.variance - both)
    degrees = min(by_prompt.degrees_of_freedom, by_block.degrees_of_freedom)
    whole = [len(names) for names in whole_repetitions(samples).values()]
    by_repetition = _by_repetition(samples, whole)
    return Spread(
        within=VariancePart(most, degrees),
        between=_parts_between(samples, by_prompt, by_repetition) if by_repetition else (),
        of_prompts=VariancePart(max(0.0, by_prompt.variance - both), degrees),
        of_repetitions=_lasting(samples, by_repetition)
        if by_repetition
        else VariancePart(0.0, degrees),
        prompts=prompts,
        blocks=len({(s.stratum, s.block) for s in samples}),
        repetitions=min(whole),
    )


def whole_repetitions(samples: Iterable[Sample]) -> dict[str, set[str]]:
    """Return the names of the repetitions that measured every case, by `Sample.side`.

    A side is a run, if two runs are compared, and only needs its own cases. The last repetition of
    a run that ended early often lacks some.
    """
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
    strata = _merged(_clusters((s.side, s.repetition, s) for s in samples))
    return VariancePart(_variance(strata), sum(count - 1 for count in whole))


def _parts_between(
    samples: Sequence[Sample], by_prompt: VariancePart, by_repetition: VariancePart
) -> tuple[VariancePart, ...]:
    """Return `by_prompt` without the variance that `by_repetition` also has, and `by_repetition`.

    Both contain the variance between groups of samples that share a prompt and a repetition.
    """
    met = _merged(_clusters((s.stratum, f"{s.prompt}\n{s.repetition}", s) for s in samples))
    both = _variance(met)
    prompts_part = VariancePart(max(0.0, by_prompt.variance - both), by_prompt.degrees_of_freedom)
    return prompts_part, by_repetition


def _lasting(samples: Sequence[Sample], by_repetition: VariancePart) -> VariancePart:
    """Return `by_repetition` without the variance between a repetition's blocks.

    More rounds reduce the variance between blocks; what is left lasts until there are more
    repetitions.
    """
    blocks = _clusters((f"{s.stratum}\n{s.repetition}", s.block, s) for s in samples)
    several = {name: clusters for name, clusters in blocks.items() if len(clusters) > 1}
    lasting = by_repetition.variance - _variance(_merged(several))
    return VariancePart(max(0.0, lasting), by_repetition.degrees_of_freedom)


def student_t(probability: float, degrees_of_freedom: float) -> float:
    """Return the quantile of Student's t distribution at a probability of 0.5 to 1.

    degrees_of_freedom: at least 1. Between whole numbers the quantile is interpolated over 1 /
    degrees, which makes the quantile a little too large.
    """
    below = math.floor(degrees_of_freedom)
    low, high = _student_t(probability, below), _student_t(probability, below + 1)
    return high + (low - high) * (below / degrees_of_freedom * (below + 1) - below)


@lru_cache(maxsize=1024)
def _student_t(probability: float, degrees_of_freedom: int) -> float:
    """Return the quantile of Student's t distribution for whole degrees of freedom.

    It is found by bisection with the distribution function, which is a finite series for whole
    degrees of freedom (Abramowitz and Stegun 26.7.3 and 26.7.4).
    """
    if degrees_of_freedom >= _MANY_DEGREES:
        return statistics.NormalDist().inv_cdf(probability)
    # The series in `_central` is a function of an angle, so the angle is bisected and not t, where
    # t = tan(angle) x sqrt(degrees of freedom).
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        angle = (low + high) / 2
        if 0.5 + _central(angle, degrees_of_freedom) / 2 < probability:
            low = angle
        else:
            high = angle
    return math.tan(low) * math.sqrt(degrees_of_freedom)


def _central(angle: float, degrees_of_freedom: int) -> float:
    """Return P(-t < T < t), where t = tan(angle) x sqrt(degrees of freedom) and T is Student's."""
    odd = degrees_of_freedom % 2
    term = math.cos(angle) if odd else 1.0
    total = term if degrees_of_freedom > 1 else 0.0
    for k in range(2 + odd, degrees_of_freedom, 2):
        term *= (k - 1) / k * math.cos(angle) ** 2
        total += term
    total *= math.sin(angle)
    return 2 / math.pi * (angle + total) if odd else total


@dataclass(slots=True)
class _Cluster:
    """The sums of the values and weights of a cluster's samples."""

    value: float = 0.0
    weight: float = 0.0


Clusters = dict[str, dict[str, _Cluster]]


def _clusters(samples: Iterable[tuple[str, str, Sample]]) -> Clusters:
    """Return, by stratum and cluster, the sums of the values and weights of the samples.

    samples: each is (name of its stratum, name of its cluster, sample).
    """
    by_stratum: Clusters = {}
    for stratum, name, sample in samples:
        clusters = by_stratum.setdefault(stratum, {})
        if (cluster := clusters.get(name)) is None:
            cluster = clusters[name] = _Cluster()
        cluster.value += sample.value
        cluster.weight += sample.weight
    return by_stratum


def _single_samples(samples: Iterable[Sample]) -> Clusters:
    """Return, by stratum, clusters of one sample each, named by the sample's index."""
    by_stratum: Clusters = defaultdict(dict)
    for place, sample in enumerate(samples):
        by_stratum[sample.stratum][str(place)] = _Cluster(sample.value, sample.weight)
    return by_stratum


def _merged(clusters: Clusters) -> list[list[_Cluster]]:
    """Return a list of clusters for each stratum, at least two in each list.

    A stratum with one cluster shows no variance. So all such strata are merged into one; if there
    is only one of them, it joins the stratum with the fewest clusters. The difference between
    merged strata then adds to the variance. Empty if there is only one cluster in all.
    """
    strata = [[*of_stratum.values()] for of_stratum in clusters.values()]
    lone = [
        cluster
        for clusters_of_one in strata
        if len(clusters_of_one) == 1
        for cluster in clusters_of_one
    ]
    several = sorted(
        (clusters_of_one for clusters_of_one in strata if len(clusters_of_one) > 1), key=len
    )
    if len(lone) == 1 and several:
        several[0] = [*several[0], *lone]
    elif len(lone) > 1:
        several.append(lone)
    return several


def _variance(strata: Sequence[Sequence[_Cluster]]) -> float:
    """Return the variance of the sum of all clusters, a random sample in each of the strata."""
    return sum(
        len(stratum) / (len(stratum) - 1) * _squares([c.value for c in stratum])
        for stratum in strata
    )


def _part(strata: Sequence[Sequence[_Cluster]]) -> VariancePart:
    return VariancePart(_variance(strata), _degrees_of_freedom(strata))


def _degrees_of_freedom(strata: Sequence[Sequence[_Cluster]]) -> float:
    """Return the degrees of freedom of a variance, computed from the clusters' weights.

    With one stratum whose clusters have equal weights, the result is the number of clusters - 1.
    """
    expected = [_expected(cluster.weight for cluster in stratum) for stratum in strata]
    total = math.fsum(mean for mean, _ in expected)
    # A stratum has two clusters or more, so only rounding could make the result less than 1.
    return max(1.0, total**2 / math.fsum(square for _, square in expected)) if total else 1.0


def _expected(weights: Iterable[float]) -> tuple[float, float]:
    """Return v and v^2 / (degrees of freedom of v), where v is a stratum's expected variance.

    Let W be the sum of the weights, and let cluster i have the weight w_i = W s_i and the value
    w_i r_i, where all r_i are equally uncertain. The residuals are r_i - sum(s r), so the sum of
    (s_i residual_i)^2 is the sum of all A_ij r_i r_j (a quadratic form), with the matrix
    A = D - d s' - s d' + (s's) s s', where d is the vector of all s_i^2 and D its diagonal matrix.
    It has trace(A)^2 / trace(A A) degrees of freedom, and both traces are sums of powers of s.
    """
    weight_list = [*weights]
    whole = math.fsum(weight_list)
    if not whole:
        return 0.0, 0.0
    p2, p3, p4, p5 = (math.fsum((w / whole) ** n for w in weight_list) for n in (2, 3, 4, 5))
    trace = p2 - 2 * p3 + p2**2
    of_square = p4 + 2 * p3**2 + 4 * p2 * p4 + p2**4 - 4 * p5 - 4 * p2**2 * p3
    variance = whole**2 * p2
    # If one cluster has all the weight, the trace is 0. The degrees of freedom are then taken as 1,
    # the fewest that are possible.
    return variance, variance**2 * (of_square / trace**2 if trace else 1.0)


def _squares(values: Sequence[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values)
