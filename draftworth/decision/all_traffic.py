"""Judges what all prompts of a log cost, of which a run measured a few that were chosen for it."""

from collections.abc import Iterator
from dataclasses import dataclass

from draftworth.analysis.limits import limit_check
from draftworth.analysis.pairing import paired
from draftworth.analysis.ratios import share_ratio
from draftworth.analysis.traffic_ratio import TooFewMeasured, TrafficRatio, traffic_ratio
from draftworth.decision.facts import RunFacts
from draftworth.decision.reasons import CostDecides
from draftworth.decision.verdict import Comparison, hides_in_floor, judge
from draftworth.records.judgement import Judgement
from draftworth.records.logged_traffic import LoggedTraffic


@dataclass(frozen=True, kw_only=True)
class AllTraffic:
    """The verdict for all prompts of a log.

    comparison: the verdict for the measured prompts, from which it differs only by the cost.
    """

    comparison: Comparison
    ratio: TrafficRatio
    judgement: Judgement


def all_traffic(facts: RunFacts, logged: LoggedTraffic) -> Iterator[AllTraffic | TooFewMeasured]:
    """Yield the verdict for all prompts of a log, for each variant and load that was compared."""
    run = facts.run
    for variant in facts.speculative:
        comparison = variant.comparison
        if comparison is None or comparison.traffic.name != logged.prompt_class:
            continue
        if not comparison.traffic.load.has_cost_per_token:
            continue
        sides = {"variant": comparison.variant, "baseline": comparison.baseline}
        ratio = traffic_ratio(
            paired(run.blocks, comparison.traffic, **sides),
            logged,
            factor=share_ratio(run.result.price, **sides),
        )
        if isinstance(ratio, TrafficRatio):
            judgement = _judged(facts, comparison, ratio)
            yield AllTraffic(comparison=comparison, ratio=ratio, judgement=judgement)
        elif ratio:
            yield ratio


def _judged(facts: RunFacts, comparison: Comparison, ratio: TrafficRatio) -> Judgement:
    """Return the verdict, if the cost decides it; otherwise that for the measured prompts.

    Doubts about the figures, broken limits and the noise floor hold for all prompts alike.
    """
    if not isinstance(comparison.reason, CostDecides):
        return comparison.judgement
    check = limit_check(
        facts.run.blocks, comparison.traffic, facts.run.result.limits, comparison.variant
    )
    judgement, _ = judge(ratio.cost_ratio, check)
    if hides_in_floor(judgement, ratio.cost_ratio, comparison.floor):
        return Judgement.INCONCLUSIVE
    return judgement
