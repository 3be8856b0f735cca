"""Computes the answer of a run, a record, from the run's facts."""

from collections.abc import Iterator

from draftworth.decision.all_traffic import AllTraffic
from draftworth.decision.facts import RunFacts, VariantFacts
from draftworth.decision.handover import BreakEvenAt, Handover
from draftworth.decision.judged_anew import chosen_values
from draftworth.decision.run_decision import Decision
from draftworth.metrics import definitions
from draftworth.report.all_traffic_section import all_traffic_sentence
from draftworth.report.answer import (
    AllTrafficFinding,
    Answer,
    ByClassCosts,
    EqualPrice,
    EqualShare,
    ServerFigures,
    StepTokens,
)
from draftworth.report.attention import attention_of
from draftworth.report.break_even_sentences import price_sentence, share_words
from draftworth.report.cures import cure
from draftworth.report.engine_loss_sentences import loss_figures
from draftworth.report.reason_sentences import looks_sentences
from draftworth.report.search_sentences import course
from draftworth.report.sentences import (
    by_class_sentences,
    decision_sentence,
    findings,
    headline,
    missing_sentences,
    next_step,
    reach_sentences,
)


def answer_of(facts: RunFacts) -> Answer:
    """Return the answer of a run as a record."""
    result, decision = facts.run.result, facts.decision
    compared = [v.comparison for v in facts.speculative if v.comparison]
    return Answer(
        run_id=result.run_id,
        experiment=result.experiment,
        models=facts.run.models,
        status=result.status,
        reason=result.reason,
        serve=decision.serve,
        serve_by_class=_serve_by_class(decision),
        decision=decision_sentence(facts),
        missing=tuple(missing_sentences(facts)),
        next_step=next_step(facts),
        cure=cure(facts),
        by_class=_by_class(decision),
        pays_while=tuple(_equal_shares(decision)),
        pays_up_to_price=_equal_price(decision),
        headline=headline(facts),
        findings=tuple(findings(facts)),
        figures=tuple(map(_figures, facts.variants)),
        requests=sum(v.summary.requests for v in facts.variants),
        failed=sum(v.summary.failed for v in facts.variants),
        excluded=sum(v.summary.excluded for v in facts.variants),
        repetitions=result.repetitions,
        interruptions=len(result.interruptions),
        compared_outputs=sum(c.compared_outputs for c in compared),
        identical_outputs=sum(c.identical_outputs for c in compared),
        cached_shares=facts.cached_shares,
        tokens_per_step=tuple(_tokens_per_step(decision, facts.handover)),
        engine_losses=tuple(loss_figures(facts.engine_losses)),
        notes=tuple(_notes(facts)),
        attention=attention_of(facts),
        claims=facts.claims,
        all_traffic=tuple(map(_all_traffic, facts.all_traffic)),
        judged_with=chosen_values(facts),
    )


def _all_traffic(verdict: AllTraffic) -> AllTrafficFinding:
    ratio = verdict.ratio
    return AllTrafficFinding(
        load=verdict.comparison.traffic.load.label,
        variant=verdict.comparison.name,
        judgement=verdict.judgement,
        logged_prompts=ratio.logged.prompts,
        measured_prompts=ratio.measured,
        cost_ratio=ratio.cost_ratio.value,
        cost_ratio_low=ratio.cost_ratio.low,
        cost_ratio_high=ratio.cost_ratio.high,
        without_forecast_low=ratio.without_forecast.low,
        without_forecast_high=ratio.without_forecast.high,
        sentence=all_traffic_sentence(verdict),
    )


def _serve_by_class(decision: Decision) -> dict[str, str]:
    split = decision.by_class
    if split is None or not decision.serves_by_class:
        return {}
    variant, baseline = split.comparison.variant, split.comparison.baseline
    return dict.fromkeys(split.classes, variant) | dict.fromkeys(split.other_classes, baseline)


def _by_class(decision: Decision) -> ByClassCosts | None:
    split = decision.by_class
    if split is None:
        return None
    cost, beside = split.cost_ratio, split.ratio_to_alone
    return ByClassCosts(
        variant=split.comparison.variant,
        load=split.comparison.traffic.load.label,
        classes=split.classes,
        other_classes=split.other_classes,
        cost_ratio=cost.value,
        cost_ratio_low=cost.low,
        cost_ratio_high=cost.high,
        alone=split.alone,
        ratio_to_alone=beside.value,
        ratio_to_alone_low=beside.low,
        ratio_to_alone_high=beside.high,
        servers=split.servers,
        sentence=" ".join(by_class_sentences(decision)),
    )


def _equal_shares(decision: Decision) -> Iterator[EqualShare]:
    for curve in decision.pays_while:
        equal = curve.equal
        yield EqualShare(
            prompt_class=curve.prompt_class,
            share=equal.value if equal else None,
            share_low=equal.low if equal else None,
            share_high=equal.high if equal else None,
            pays_above=curve.falls,
            sentence=f"{share_words(curve)}.",
        )


def _equal_price(decision: Decision) -> EqualPrice | None:
    cost = decision.pays_up_to_price
    if cost is None:
        return None
    return EqualPrice(
        price_ratio=cost.equal.value,
        price_ratio_low=cost.equal.low,
        price_ratio_high=cost.equal.high,
        judged_price_ratio=cost.judged_price_ratio,
        sentence=price_sentence(cost),
    )


def _figures(variant: VariantFacts) -> ServerFigures:
    def in_unit(metric: definitions.Metric) -> float | None:
        value = variant.value(metric)
        return None if value is None else value * metric.unit.scale

    return ServerFigures(
        prompt_class=variant.summary.group.prompt_class,
        load=variant.summary.group.load.label,
        variant=variant.name,
        requests=variant.summary.requests,
        inter_token_latency_ms=in_unit(definitions.INTER_TOKEN_LATENCY),
        ttft_ms=in_unit(definitions.TTFT),
        end_to_end_latency_ms=in_unit(definitions.END_TO_END_LATENCY),
        output_throughput_token_per_s=in_unit(definitions.OUTPUT_THROUGHPUT),
    )


def _tokens_per_step(decision: Decision, handover: Handover) -> Iterator[StepTokens]:
    decided_at = decision.comparison.traffic.load if decision.comparison else None
    for at in sorted(handover.break_evens, key=lambda at: at.load != decided_at):
        yield _step_tokens(at)


def _notes(facts: RunFacts) -> Iterator[str]:
    if facts.run.search:
        yield from course(facts.run.search)
    yield from reach_sentences(facts)
    yield from looks_sentences(facts.run.result.looks)


def _step_tokens(at: BreakEvenAt) -> StepTokens:
    ends = at.needed.interval if at.needed else None
    return StepTokens(
        load=at.load.label,
        needed=at.needed.value if at.needed else None,
        needed_low=ends[0] if ends else None,
        needed_high=ends[1] if ends else None,
        measured=at.measured,
        servers_differ=at.servers_differ,
    )
