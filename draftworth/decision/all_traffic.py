"""Judges what all prompts of a log cost, of which a run measured a few that were chosen for it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from draftworth.analysis.limits import limit_check
from draftworth.analysis.pairing import paired
from draftworth.analysis.ratios import share_ratio
from draftworth.analysis.traffic_ratio import TooFewMeasured, TrafficRatio, traffic_ratio
from draftworth.decision.best_of_many import confidence_of_each
from draftworth.decision.reasons import CostDecides
from draftworth.decision.verdict import Comparison, hides_in_floor, judge
from draftworth.records.judgement import Judgement
from draftworth.records.logged_traffic import LoggedTraffic
from draftworth.records.run_folder import Run


@dataclass(frozen=True, kw_only=True)
class AllTraffic:
    """The verdict for all prompts of a log.

    comparison: the verdict for the measured prompts, from which it differs only by the cost.
    """

    comparison: Comparison
    ratio: TrafficRatio
    judgement: Judgement


def all_traffic(
    run: Run, comparisons: Iterable[Comparison], logged: LoggedTraffic
) -> Iterator[AllTraffic | TooFewMeasured]:
    """Yield the verdict for all prompts of a log, for each variant and load that was compared.

    comparisons: those of the run's classes; only those in the class of the chosen prompts count.
        Several are judged at once, so each has a wider interval, as the best of them has in the
        decision (`best_of_many`): a reader who takes the best one shall not be too sure of it.
    """
    judged = [c for c in comparisons if _is_of(logged, c)]
    for comparison in judged:
        traffic = comparison.traffic
        sides = {"variant": comparison.variant, "baseline": comparison.baseline}
        ratio = traffic_ratio(
            paired(run.blocks, traffic, **sides),
            logged,
            factor=share_ratio(run.result.price, **sides),
            confidence=confidence_of_each(len(judged), looks=run.result.looks),
        )
        if isinstance(ratio, TrafficRatio):
            judgement = _judged(run, comparison, ratio)
            yield AllTraffic(comparison=comparison, ratio=ratio, judgement=judgement)
        elif ratio:
            yield ratio


def _is_of(logged: LoggedTraffic, comparison: Comparison) -> bool:
    traffic = comparison.traffic
    return traffic.name == logged.prompt_class and traffic.load.has_cost_per_token


def _judged(run: Run, comparison: Comparison, ratio: TrafficRatio) -> Judgement:
    """Return the verdict, if the cost decides it; otherwise that for the measured prompts.

    Doubts about the figures, broken limits and the noise floor hold for all prompts alike.
    """
    if not isinstance(comparison.reason, CostDecides):
        return comparison.judgement
    check = limit_check(
        run.blocks,
        comparison.traffic,
        run.result.limits,
        comparison.variant,
        confidence=confidence_of_each(1, looks=run.result.looks),
    )
    judgement, _ = judge(ratio.cost_ratio, check)
    if hides_in_floor(judgement, ratio.cost_ratio, comparison.floor):
        return Judgement.INCONCLUSIVE
    return judgement
