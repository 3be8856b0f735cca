"""Widens confidence intervals of the best of several cost ratios, and of repeated looks."""

import math
from dataclasses import replace

from draftworth.analysis import statistics
from draftworth.analysis.limits import LimitCheck
from draftworth.analysis.repeated_looks import confidence_at_each_look
from draftworth.decision.verdict import Comparison, hides_in_floor, judge
from draftworth.records.judgement import Judgement


def confidence_of_each(
    count: int, *, looks: int = 1, of_all: float = statistics.CONFIDENCE
) -> float:
    """Return the confidence that each of `count` intervals needs for all of them to hold.

    looks: the most looks at these intervals that may end the run (`RunResult.looks`).
    of_all: the share (0 to 1) of runs in which all of them are to hold.
    """
    return confidence_at_each_look(looks, 1 - (1 - of_all) / count)


def best_of_many(best: Comparison, count: int, *, looks: int = 1) -> Comparison:
    """Judge a comparison anew, with a wider interval, because it was chosen as the best of `count`.

    The best of many looks better than it is. If each of `count` intervals has a confidence of
    1 - 5% / count, all of them hold in at least 95% of runs (Bonferroni). A comparison that is not
    judged cheaper is returned unchanged, because a wider interval would not make it cheaper.
    looks: as in `confidence_of_each`.
    """
    ratio = best.cost_ratio
    if count < 2 or ratio is None or best.judgement != Judgement.CHEAPER:
        return best
    wide = statistics.ratio_estimate(
        math.log(ratio.value),
        best.error,
        samples=ratio.samples,
        confidence=confidence_of_each(count, looks=looks),
    )
    judgement, reason = judge(wide, LimitCheck(kept=True))
    by_floor = hides_in_floor(judgement, wide, best.floor)
    return replace(
        best,
        cost_ratio=wide,
        judgement=Judgement.INCONCLUSIVE if by_floor else judgement,
        reason=reason,
        by_floor=by_floor,
    )
