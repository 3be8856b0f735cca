"""The answer of a run: a few lines for a terminal, and the same figures as a record for programs.

docs/json.md describes the record.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from draftworth.decision.all_traffic import AllTraffic
from draftworth.decision.facts import RunFacts, VariantFacts
from draftworth.decision.handover import BreakEvenAt, Handover
from draftworth.decision.judged_anew import ChosenValue, chosen_values
from draftworth.decision.run_decision import Decision
from draftworth.errors import counted
from draftworth.metrics import definitions
from draftworth.records.findings import ClaimFinding, Finding
from draftworth.records.judgement import Judgement
from draftworth.records.results import AS_SHIPPED
from draftworth.report import judged_with, words
from draftworth.report.all_traffic_section import all_traffic_sentence
from draftworth.report.attention import attention_of
from draftworth.report.break_even_sentences import price_sentence, share_percent, share_words
from draftworth.report.cures import cure
from draftworth.report.drawing import short
from draftworth.report.engine_loss_sentences import EngineLossFigures, loss_figures
from draftworth.report.percent import outwards
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

MOST_LINES, COLUMNS = 10, 80


@dataclass(frozen=True, kw_only=True)
class StepTokens:
    """Tokens per verification step at one load, of the variant that the decision is about.

    needed, needed_low, needed_high: tokens per step to break even in decoding, and the ends of its
        95% interval; None: not known.
    measured: tokens per step that were measured in the whole traffic; None: not counted.
    servers_differ: whether a step costs less than a baseline step, so that the servers differ in
        more than speculation.
    """

    load: str
    needed: float | None
    needed_low: float | None
    needed_high: float | None
    measured: float | None
    servers_differ: bool


@dataclass(frozen=True, kw_only=True)
class ServerFigures:
    """The medians of one variant's requests in one class at one load; None: not measured.

    output_throughput_token_per_s: the throughput of the whole server, which is no median.
    """

    prompt_class: str
    load: str
    variant: str
    requests: int
    inter_token_latency_ms: float | None
    ttft_ms: float | None
    end_to_end_latency_ms: float | None
    output_throughput_token_per_s: float | None


@dataclass(frozen=True, kw_only=True)
class ByClassCosts:
    """What the traffic mix costs if `variant` serves `classes` and the baseline the other classes.

    cost_ratio: the cost of a token of the mix if it is served so / if the baseline serves all, with
        the ends of its interval.
    alone: of variant and baseline, the one that serves the whole mix at the lower cost.
    ratio_to_alone: the cost of a token of the mix if it is served so / if `alone` serves all, with
        the ends of its interval.
    servers: serving by class needs two pools of servers, and each pool a whole number of them. If
        `alone` needs at least this many servers for the mix, both pools together need no more.
        None: it is not shown that serving by class saves anything.
    sentence: the figures in words.
    """

    variant: str
    load: str
    classes: tuple[str, ...]
    other_classes: tuple[str, ...]
    cost_ratio: float
    cost_ratio_low: float | None
    cost_ratio_high: float | None
    alone: str
    ratio_to_alone: float
    ratio_to_alone_low: float | None
    ratio_to_alone_high: float | None
    servers: int | None
    sentence: str


@dataclass(frozen=True, kw_only=True)
class EqualShare:
    """The share of a class in the output tokens at which variant and baseline cost the same.

    share, share_low, share_high: the share (0 to 1) and the ends of its interval; None: costs are
        equal at no share, or there is no interval.
    pays_above: whether a token costs less with the variant above that share; else it does below.
    sentence: all of this in words.
    """

    prompt_class: str
    share: float | None
    share_low: float | None
    share_high: float | None
    pays_above: bool
    sentence: str


@dataclass(frozen=True, kw_only=True)
class EqualPrice:
    """Up to which price of the variant's server a token costs less than with the baseline.

    price_ratio, price_ratio_low, price_ratio_high: the price of the variant's server / of the
        baseline's at which a token costs the same, and the ends of its interval; None: no interval.
    judged_price_ratio: the price ratio with which the run was judged.
    sentence: all of this in words.
    """

    price_ratio: float
    price_ratio_low: float | None
    price_ratio_high: float | None
    judged_price_ratio: float
    sentence: str


@dataclass(frozen=True, kw_only=True)
class AllTrafficFinding:
    """What all prompts of a log cost with a variant, of which the run measured a few.

    logged_prompts, measured_prompts: how many prompts the log has, and how many were measured.
    cost_ratio: the variant's cost of an output token / the baseline's, with the ends of its 95%
        interval. without_forecast_low, without_forecast_high: the ends that it would have without
        the forecast. None: no interval.
    sentence: all of this in words.
    """

    load: str
    variant: str
    judgement: Judgement
    logged_prompts: int
    measured_prompts: int
    cost_ratio: float
    cost_ratio_low: float | None
    cost_ratio_high: float | None
    without_forecast_low: float | None
    without_forecast_high: float | None
    sentence: str


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The answer of a run; `report --json` prints it.

    reason: why the run failed; empty if it did not.
    serve: the variant or the baseline, if one of them is to serve all traffic; None: there is no
        decision, or no other variant was measured.
    serve_by_class: the variant or baseline that is to serve each prompt class, if the decision is
        to serve by class; else empty.
    decision: what to serve, in a sentence. headline: the verdict in a sentence, with its interval.
    missing: what is missing for a decision; empty if there is one.
    next_step: what to do to get a decision, or to confirm that of a search; else empty.
    cure: the same in a few words, if it removes a doubt that more requests would not; else empty.
    by_class: what serving by class would cost; None: it is not shown that the variant is cheaper in
        one class and more expensive in another.
    pays_while: at which shares of a class in the traffic a token costs less with the variant, for
        each class of which the report has a plot.
    pays_up_to_price: up to which price of the variant's server a token costs less with it; None:
        the verdict is not about the cost of a token.
    findings: the verdicts in each class and load, and in the traffic mix. figures: the medians of
        each server.
    identical_outputs: in how many of the `compared_outputs` pairs baseline and variant gave the
        same output; outputs are compared only if they are greedy.
    cached_shares: by variant, the share (0 to 1) of prompt tokens that came from its server's
        cache; variants are left out for which it is 0 or not known.
    tokens_per_step: one entry for each load; the entry of the decision's load is the first.
    engine_losses: what engines lose of the tokens per step that texts and drafts allow, the largest
        loss first; empty if neither `estimate` nor `compare` computed what they allow.
    notes: which candidates a search measured; up to which of several loads a variant is cheaper;
        why intervals are wider, if a verdict could end the run.
    attention: what to know before trusting the figures. claims: whether the run reproduces each
        published figure of a claims file; empty without a claims file.
    all_traffic: with `--traffic`, what all prompts of a log cost, for each variant and load.
    judged_with: weights, prices and limits that the run is judged with instead of its own.
    """

    schema: str = "draftworth.answer/1"
    run_id: str
    experiment: str
    status: str
    reason: str
    serve: str | None
    serve_by_class: Mapping[str, str] = field(default_factory=dict)
    decision: str
    missing: tuple[str, ...] = ()
    next_step: str = ""
    cure: str = ""
    by_class: ByClassCosts | None = None
    pays_while: tuple[EqualShare, ...] = ()
    pays_up_to_price: EqualPrice | None = None
    headline: str
    findings: tuple[Finding, ...]
    figures: tuple[ServerFigures, ...]
    requests: int
    failed: int
    excluded: int
    repetitions: int
    interruptions: int
    compared_outputs: int
    identical_outputs: int
    cached_shares: Mapping[str, float] = field(default_factory=dict)
    tokens_per_step: tuple[StepTokens, ...]
    engine_losses: tuple[EngineLossFigures, ...] = ()
    notes: tuple[str, ...]
    attention: tuple[str, ...]
    claims: tuple[ClaimFinding, ...] = ()
    all_traffic: tuple[AllTrafficFinding, ...] = ()
    judged_with: tuple[ChosenValue, ...] = ()


def answer_of(facts: RunFacts) -> Answer:
    """Return the answer of a run as a record."""
    result, decision = facts.run.result, facts.decision
    compared = [v.comparison for v in facts.speculative if v.comparison]
    return Answer(
        run_id=result.run_id,
        experiment=result.experiment,
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


def answer_lines(answer: Answer, *, next_commands: Iterable[str], files: str) -> list[str]:
    """Return the answer as at most `MOST_LINES` lines for a terminal, the decision first.

    next_commands: what the reader can run next, at most two. files: where the run's files or its
        report are.
    """
    last = [
        *_splits(answer),
        *(note.split(";")[0].split(", in this order")[0] for note in answer.notes[:1]),
        *_requests(answer),
        *_cached(answer),
        *_tokens(answer),
        *_engine(answer),
        *_warnings(answer),
        *([f"Cure:  {answer.cure}"] if answer.cure else ()),
        *(f"Next:  {command}" for command in next_commands),
        f"Files: {files}",
    ]
    rows = list(_finding_rows(answer) if answer.findings else _figure_rows(answer))
    first = [answer.decision]
    if answer.judged_with:
        first.append(judged_with.line(answer.judged_with, columns=COLUMNS))
    room = MOST_LINES - len(first) - len(last)
    if len(rows) > room:
        rest = counted(len(rows) - room + 1, "more figure")
        rows[room - 1 :] = [f"  and {rest}: --verbose"]
    return [*first, *rows, *last]


def _splits(answer: Answer) -> Iterator[str]:
    """Yield a line on what serving by class saves or, without that, on the break-even share.

    That is the share of one class in the traffic at which variant and baseline cost the same.
    """
    if split := answer.by_class:
        low, high = split.ratio_to_alone_low, split.ratio_to_alone_high
        if split.servers is None or low is None or high is None:
            yield "By class: not shown to cost less than one server for all"
        else:
            near, far = outwards((low, high))
            yield f"By class: costs {near} to {far}% less per token than {split.alone} for all"
    elif equal := [each for each in answer.pays_while if each.share is not None]:
        first = equal[0]
        least = "least" if first.pays_above else "most"
        share = share_percent(first.share or 0.0, first.share_low, first.share_high)
        yield f"Pays while at {least} {share} of output tokens are {short(first.prompt_class)}"


def _finding_rows(answer: Answer) -> Iterator[str]:
    main_findings = [f for f in answer.findings if AS_SHIPPED not in (f.variant, f.baseline)]
    several = len({f.variant for f in main_findings}) > 1
    names = [(f.traffic, f.load, f.variant if several else "") for f in main_findings]
    widths = [max(map(len, column)) for column in zip(*names, strict=True)]
    for finding, name in zip(main_findings, names, strict=True):
        cells = (cell.ljust(width) for cell, width in zip(name, widths, strict=True))
        yield f"  {' '.join(cells).rstrip()}  {_finding_words(finding)}"


def _finding_words(finding: Finding) -> str:
    if finding.cost_ratio is None:
        return finding.judgement
    cost = words.cost_phrase(finding.cost_ratio, finding.cost_ratio_low, finding.cost_ratio_high)
    proof = words.proof(
        finding.judgement,
        clears_floor=finding.clears_noise_floor,
        repetitions=finding.holds_for_repetitions,
    )
    return f"{cost}, {proof}"


def _figure_rows(answer: Answer) -> Iterator[str]:
    for f in answer.figures:
        latencies = (
            f"{label} {words.number(value, digits=_digits(value))} ms"
            for label, value in (
                ("ITL", f.inter_token_latency_ms),
                ("TTFT", f.ttft_ms),
                ("E2E", f.end_to_end_latency_ms),
            )
            if value is not None
        )
        rate = f.output_throughput_token_per_s
        tokens = [] if rate is None else [f"{words.number(rate, digits=_digits(rate))} tokens/s"]
        yield f"  {f.prompt_class} {f.load}  {', '.join([*latencies, *tokens])}"


def _digits(value: float) -> int:
    return 0 if value >= 100 else 1 if value >= 10 else 2


def _requests(answer: Answer) -> Iterator[str]:
    parts = [counted(answer.requests, "request"), f"{answer.failed:,} failed"]
    if answer.excluded:
        parts.append(f"{answer.excluded:,} excluded")
    if answer.repetitions > 1:
        parts.append(counted(answer.repetitions, "repetition"))
    if answer.interruptions:
        parts.append(counted(answer.interruptions, "interruption"))
    if answer.compared_outputs:
        same = f"{answer.identical_outputs:,} of {answer.compared_outputs:,}"
        parts.append(f"outputs the same in {same}")
    yield ", ".join(parts)


def _cached(answer: Answer) -> Iterator[str]:
    if shares := answer.cached_shares:
        line = f"Prompt tokens from a cache: {words.cached_words(shares)}"
        most = f"Prompt tokens from a cache: up to {max(shares.values()):.1%}, of "
        yield line if len(line) <= COLUMNS else f"{most}{counted(len(shares), 'server')}"


def _tokens(answer: Answer) -> Iterator[str]:
    for at in answer.tokens_per_step[:1]:
        if at.measured is not None:
            yield f"Tokens per step at {at.load}: {at.measured:.2f} measured{_needed(at)}"


def _engine(answer: Answer) -> Iterator[str]:
    for loss in answer.engine_losses[:1]:
        line = f"{short(loss.variant)} at {loss.load}: {loss.summary}"
        yield line if len(line) <= COLUMNS else f"Engine: {loss.summary}"


def _needed(at: StepTokens) -> str:
    if at.servers_differ:
        return "; servers differ in more than speculation"
    if at.needed is None:
        return ""
    if at.needed < 1:
        return "; a step is not shown to cost more than without"
    return f", {at.needed:.2f} needed to break even in decoding"


def _warnings(answer: Answer) -> Iterator[str]:
    if answer.attention:
        first, *rest = answer.attention
        more = f" (and {len(rest)} more: --verbose)" if rest else ""
        line = f"Warning: {first.partition('. ')[0].rstrip('.')}{more}"
        short = f"{counted(len(answer.attention), 'warning')} before you trust this: --verbose"
        yield line if len(line) <= COLUMNS else short
