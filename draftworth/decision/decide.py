"""Decides what to serve after a run. This is the only place that knows the rules:

- The decision is about the traffic mix or, without a mix, about the prompt classes. In a search it
  is about the best candidate. The baseline with the engine's default settings is no choice.
- At loads that have a cost per token, the cost decides (`verdict.py`). Of all variants and loads,
  the comparison decides whose judgement has the lowest rank (`Judgement.rank`); of those with equal
  rank, the one whose cost ratio's interval has the lowest upper end. As the best of many, it is
  judged anew with a wider interval. If it is then inconclusive, and so may be cheaper, there is no
  decision: a default would look like a measured result.
- If requests arrive at rates only, the highest rates within the latency limits decide (`rates.py`),
  of several variants with wider intervals. Nothing is decided if the servers do not do the same
  work: another model answers, outputs are not the target's, prompts came from a prefix cache, or
  one side fails more requests at a rate at which both keep the limits. Nor is a limit shown to be
  kept after a warm-up that is too short for a rate.
- If the variant is shown to be cheaper in one class and more expensive in another, the variant may
  serve some classes and the baseline the others (`by_class.py`). That is the decision if it is
  shown to save. It is computed for the variant and load of the deciding comparison only.
- A run that failed decides nothing.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from draftworth.analysis.costs import tokens_per_step_in
from draftworth.analysis.doubts import (
    BeyondSpeculation,
    CountsDiffer,
    FailedUnequally,
    ManyExcluded,
    ManyFailed,
    NotSteadyYet,
    NotTheTargets,
    PromptsCached,
    RepeatsFaster,
    SeveralModels,
)
from draftworth.analysis.limits import RateBounds
from draftworth.analysis.ratios import share_ratio
from draftworth.analysis.sensitivity import CostByPrice, cost_by_price, costs_by_share
from draftworth.analysis.shortfall import shortfall
from draftworth.decision.best_of_many import best_of_many, confidence_of_each
from draftworth.decision.by_class import by_class_of
from draftworth.decision.next_step import next_step
from draftworth.decision.rates import RateComparison, rate_comparisons, served_by_rates
from draftworth.decision.reasons import NoTokens, Reason
from draftworth.decision.run_decision import Decision, Missing, MoreNeeded
from draftworth.decision.verdict import INDIFFERENCE, Comparison
from draftworth.records.judgement import Judgement
from draftworth.records.load_shapes import Load
from draftworth.records.results import AS_SHIPPED
from draftworth.records.run_folder import Run

# With at most this many tokens per step, a variant counts as accepting no drafts, because so few
# could save only what counts as no difference in cost. A busy server without speculation can seem
# to yield as many, because it sends the tokens of some steps together in one chunk.
_NO_SPECULATION = 1 + INDIFFERENCE


def decide(
    run: Run,
    *,
    mixes: Sequence[Comparison],
    of_classes: Sequence[Comparison],
    highest_rates: Sequence[RateBounds] = (),
) -> Decision:
    """Decide what to serve after a run. run: without its control (a second baseline server).

    mixes: the comparisons in the traffic mix; empty with one class. of_classes: the comparisons in
    each class. highest_rates: between which request rates the baseline and each variant cease to
    keep the latency limits; empty without latency limits, or if no requests arrive at rates.
    """
    decision = _what_to_serve(run, mixes, of_classes, highest_rates)
    return replace(decision, next_step=next_step(decision, run))


def _what_to_serve(
    run: Run,
    mixes: Sequence[Comparison],
    of_classes: Sequence[Comparison],
    highest_rates: Sequence[RateBounds],
) -> Decision:
    baseline = run.result.baseline
    choices = sorted(_choices(run, mixes or of_classes), key=_preference)
    missing = [] if run.result.status == "complete" else [Missing.COMPLETE_RUN]
    if not choices:
        alone = len(run.result.variants) == 1 and not run.search
        missing.append(Missing.ANOTHER_SERVER if alone else Missing.VARIANT)
        return Decision(baseline=baseline, serve=None, missing=tuple(missing))
    if not any(c.traffic.load.has_cost_per_token for c in choices):
        return _by_rates(run, choices, of_classes, highest_rates, missing)
    with_cost = [c for c in choices if c.traffic.load.has_cost_per_token]
    return _by_cost(run, with_cost, of_classes, missing)


def _choices(run: Run, comparisons: Sequence[Comparison]) -> Iterator[Comparison]:
    """Yield the comparisons that may decide; in a search, only those of its best candidate.

    Comparisons with the baseline at the engine's default settings are left out.
    """
    for comparison in comparisons:
        is_candidate = run.search is None or comparison.variant == run.search.best
        if is_candidate and AS_SHIPPED not in (comparison.variant, comparison.baseline):
            yield comparison


def _preference(comparison: Comparison) -> tuple[int, float]:
    high = comparison.cost_ratio.high if comparison.cost_ratio else None
    return comparison.judgement.rank, math.inf if high is None else high


def _by_cost(
    run: Run,
    choices: Sequence[Comparison],
    of_classes: Sequence[Comparison],
    missing: Sequence[Missing],
) -> Decision:
    first = choices[0]
    best = best_of_many(first, len(choices), looks=run.result.looks)
    is_widened = best is not first
    classes = _classes_of(first, of_classes)
    is_mix = len(first.traffic.weights) > 1
    # Doubts about the mix hold for its classes too, which may have too few requests to show them.
    is_doubted = first.doubt is not None
    may_split = is_mix and not is_doubted
    by_class = by_class_of(run, first, classes, count=len(choices)) if may_split else None
    splits = by_class is not None and by_class.is_shown_to_save
    if not (best.judgement.is_decided or splits):
        missing = [*missing, _missing_for(best.reason)]
    serve = None
    if best.judgement.is_decided and run.result.status == "complete":
        serve = best.variant if best.judgement.serves_variant else best.baseline
    return Decision(
        baseline=run.result.baseline,
        serve=serve,
        by_class=by_class,
        comparison=best,
        is_widened=is_widened,
        choices=tuple(choices),
        is_speculation=_accepts_drafts(run, best),
        classes=tuple(classes),
        by_share=()
        if is_doubted
        else costs_by_share(
            run,
            best.traffic,
            variant=best.variant,
            baseline=best.baseline,
            confidence=confidence_of_each(
                len(choices) if is_widened else 1, looks=run.result.looks
            ),
        ),
        by_price=None if is_doubted else _by_price(run, best),
        missing=tuple(missing),
        more=tuple(_more(run, classes)) if Missing.VERDICT in missing else (),
    )


def _missing_for(reason: Reason) -> Missing:
    """Return what an undecided comparison needs: more requests are no cure for most doubts."""
    match reason:
        case PromptsCached() | RepeatsFaster():
            return Missing.COLD_PROMPTS
        case NotSteadyYet():
            return Missing.WARM_SERVERS
        case NoTokens():
            return Missing.COUNTED_TOKENS
        case CountsDiffer() | BeyondSpeculation() | NotTheTargets() | SeveralModels():
            return Missing.EQUAL_WORK
        case ManyFailed() | FailedUnequally():
            return Missing.ANSWERS
        case ManyExcluded():
            return Missing.FREE_CLIENT
        case _:
            return Missing.VERDICT


def _by_price(run: Run, comparison: Comparison) -> CostByPrice | None:
    if comparison.cost_ratio is None:
        return None
    variant = comparison.variant
    price_ratio = share_ratio(run.result.price, variant, comparison.baseline)
    return cost_by_price(
        comparison.traffic, comparison.cost_ratio, variant=variant, price_ratio=price_ratio
    )


def _by_rates(
    run: Run,
    choices: Sequence[Comparison],
    of_classes: Sequence[Comparison],
    highest_rates: Sequence[RateBounds],
    missing: Sequence[Missing],
) -> Decision:
    compared = rate_comparisons(run.result, highest_rates, choices)
    wrong = _not_alike(choices, compared)
    served = None if wrong else served_by_rates(compared)
    if served is None:
        missing = [*missing, _missing_for(wrong.reason) if wrong else _lacks(run, compared)]
    by = wrong or next((c for c in choices if c.variant == served), choices[0])
    return Decision(
        baseline=run.result.baseline,
        serve=None if missing else served,
        comparison=by,
        is_widened=len({c.variant.variant for c in compared}) > 1,
        choices=tuple(choices),
        rates=compared,
        classes=tuple(_classes_of(by, of_classes)),
        missing=tuple(missing),
    )


def _not_alike(
    choices: Sequence[Comparison], compared: Sequence[RateComparison]
) -> Comparison | None:
    """Return a comparison that shows that the servers do not do the same work; None: there is none.

    More requests are no gain if another model answers them, if outputs are not the target's, if
    a prefix cache has their prompts, or if more of them fail. Then the rates of this variant decide
    nothing, and the baseline is not shown to take more either. The doubt is the comparison's
    reason, also at a rate at which the variant breaks the limits: the baseline may keep them by a
    cache.
    """
    for comparison in choices:
        if doubt := comparison.doubt:
            return replace(comparison, judgement=Judgement.INCONCLUSIVE, reason=doubt)
    return next((unequal for c in compared if (unequal := c.failed_unequally)), None)


def _lacks(run: Run, compared: Sequence[RateComparison]) -> Missing:
    if not compared:
        return Missing.LIMITS
    sides = [side for c in compared for side in (c.variant, c.baseline)]
    if any(side.warmup for side in sides):
        return Missing.LONGER_WARMUP
    if all(side.kept == _highest(run, side.input_tokens) for side in sides):
        return Missing.HIGHER_RATES
    if all(side.broken and side.kept is None for side in sides):
        return Missing.LOWER_RATES
    return Missing.OTHER_RATES


def _highest(run: Run, input_tokens: int | None) -> Load:
    """Return the load with the highest measured request rate, of those with prompts of one length.

    input_tokens: that length; None: the loads whose prompts keep their own lengths.
    """
    loads = (b.load for b in run.blocks if b.load.input_tokens == input_tokens)
    return max((x for x in loads if not x.has_cost_per_token), key=lambda load: load.order)


def _classes_of(mix: Comparison, of_classes: Sequence[Comparison]) -> list[Comparison]:
    return [
        c
        for c in of_classes
        if c.variant == mix.variant
        and c.baseline == mix.baseline
        and c.traffic.load == mix.traffic.load
        and c.traffic.name in mix.traffic.weights
    ]


def _accepts_drafts(run: Run, comparison: Comparison) -> bool:
    """Return whether a variant's mean step yields over 1.05 tokens; True if steps are unknown."""
    per_step = tokens_per_step_in(run.blocks, comparison.traffic, comparison.variant)
    return per_step is None or per_step > _NO_SPECULATION


def _more(run: Run, classes: Sequence[Comparison]) -> Iterator[MoreNeeded]:
    for comparison in classes:
        lacks = shortfall(comparison.cost_ratio, target_width=run.result.target_interval_width)
        if lacks:
            yield MoreNeeded(comparison=comparison, shortfall=lacks)
