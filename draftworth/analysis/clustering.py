"""Computes the variance of a sum of correlated measurements. Standard library only.

Measurements of a run are correlated if they share a prompt (greedy requests of a prompt repeat the
same work), a pair of blocks (measured within the same minutes) or a repetition (the same start of
the servers). Correlated measurements form a cluster. A clustered variance is computed from the
sums of the clusters, as if each cluster were one measurement. A stratum is one case (a prompt set:
cases are chosen, not drawn at random), or a class with many cases. The clusters in a stratum are a
random sample of it. `spread` combines the variances of prompts, blocks and repetitions.

Degrees of freedom depend on the weights: a figure that depends mostly on three prompts is only as
certain as with three prompts, however many others were measured. They are computed by
Satterthwaite's formula. The formula does not get the measured variance of each cluster, which is
too uncertain with a few clusters, but the variances that clusters of these weights would have if
all were equally uncertain (Bell and McCaffrey 2002, "Bias Reduction in Standard Errors for Linear
Regression with Multi-Stage Samples"; docs/decisions/0015-the-verdict.md).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from draftworth.analysis.student_t import student_t


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


@dataclass(slots=True)
class Cluster:
    """The sums of the values and weights of a cluster's samples."""

    value: float = 0.0
    weight: float = 0.0


Clusters = dict[str, dict[str, Cluster]]


def clusters_of(samples: Iterable[tuple[str, str, Sample]]) -> Clusters:
    """Return, by stratum and cluster, the sums of the values and weights of the samples.

    samples: each is (name of its stratum, name of its cluster, sample).
    """
    by_stratum: Clusters = {}
    for stratum, name, sample in samples:
        clusters = by_stratum.setdefault(stratum, {})
        if (cluster := clusters.get(name)) is None:
            cluster = clusters[name] = Cluster()
        cluster.value += sample.value
        cluster.weight += sample.weight
    return by_stratum


def merged(clusters: Clusters) -> list[list[Cluster]]:
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


def variance_of(strata: Sequence[Sequence[Cluster]]) -> float:
    """Return the variance of the sum of all clusters, a random sample in each of the strata."""
    return sum(
        len(stratum) / (len(stratum) - 1) * _squares([c.value for c in stratum])
        for stratum in strata
    )


def part_of(strata: Sequence[Sequence[Cluster]]) -> VariancePart:
    """Return the variance of the sum of all clusters, with its degrees of freedom."""
    return VariancePart(variance_of(strata), _degrees_of_freedom(strata))


def _degrees_of_freedom(strata: Sequence[Sequence[Cluster]]) -> float:
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
