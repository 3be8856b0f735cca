"""The decision and the verdicts of a run in sentences, for report, `verdict.json` and mail."""

from collections.abc import Iterator

from draftworth.analysis.doubts import ShortWarmup
from draftworth.analysis.limits import RateBounds
from draftworth.analysis.pairing import TRAFFIC_MIX
from draftworth.analysis.rare import Extremes, unseen_of
from draftworth.analysis.shortfall import Shortfall
from draftworth.analysis.statistics import Estimate, interval_of
from draftworth.decision.by_class import ByClass
from draftworth.decision.facts import RunFacts, VariantFacts, weights_of
from draftworth.decision.ladder import Contexts, Ladder, Rung
from draftworth.decision.run_decision import Decision, Missing, NextStep
from draftworth.decision.verdict import Comparison
from draftworth.decision.winner import NoWinnerError, Winner, winner_of
from draftworth.metrics.definitions import COST
from draftworth.records.findings import Finding, Verdict
from draftworth.records.load_shapes import ConcurrencyLoad
from draftworth.records.results import AS_SHIPPED, RunResult
from draftworth.records.search_result import SearchResult
from draftworth.report import search_sentences, words
from draftworth.report.attention import attention_of
from draftworth.report.break_even_sentences import break_even_sentences
from draftworth.report.percent import changes, spoken_changes
from draftworth.report.reason_sentences import (
    looks_sentences,
    reason_words,
    warmup_words,
    words_of,
)
from draftworth.report.search_sentences import named, search_answer
from draftworth.untrusted import one_line

WITHOUT_SPECULATION = "without speculation"


def verdict_of(facts: RunFacts) -> Verdict:
    """Return the answer of a run as the record that `verdict.json` holds."""
    return Verdict(
        run_id=facts.run.result.run_id,
        experiment=facts.run.result.experiment,
        decision=decision_sentence(facts),
        headline=headline(facts),
        findings=tuple(findings(facts)),
        notes=(
            *by_class_sentences(facts.decision),
            *reach_sentences(facts),
            *break_even_sentences(facts.decision),
            *rate_sentences(facts),
            *looks_sentences(facts.run.result.looks),
            *attention_of(facts),
        ),
    )


def decision_sentence(facts: RunFacts) -> str:
    """Say what to serve, or why there is no decision: the first line of every answer."""
    decision, result = facts.decision, facts.run.result
    if Missing.COMPLETE_RUN in decision.missing:
        return f"No decision, the run is not complete: {one_line(result.reason).rstrip('.')}."
    if Missing.ANOTHER_SERVER in decision.missing:
        return "One server was measured: there is nothing to compare it with."
    if decision.comparison is None:
        return "No decision: no variant was measured beside the baseline."
    if not decision.is_made:
        return _no_decision(facts, decision.comparison)
    if decision.serves_by_class and decision.by_class:
        return _serve_by_class(decision.by_class)
    why = _why_by_rates(decision) if decision.rates else first_words(decision)
    if not decision.serves_variant:
        return f"Decision: serve {WITHOUT_SPECULATION}. {why}."
    name, search = decision.comparison.variant, facts.run.search
    window = f" ({named(search, name)})" if search else ""
    return f"Decision: serve {name}{window}. {why}."


def _no_decision(facts: RunFacts, comparison: Comparison) -> str:
    match facts.decision.missing[-1]:
        case Missing.LIMITS:
            return f"No decision{_at_load(facts)}: arrivals at a rate have no cost per token."
        case Missing.LONGER_WARMUP:
            return "No decision: the warm-up is too short to show which rates keep the limits."
        case Missing.HIGHER_RATES:
            return "No decision: all keep the limits at every measured rate."
        case Missing.LOWER_RATES:
            return "No decision: none keeps the limits at the lowest measured rate."
        case Missing.OTHER_RATES:
            return "No decision: the highest rates within the limits are not shown to differ."
        case _:
            reason = reason_words(comparison).partition("; ")[0]
            return f"No decision{_at_load(facts)}: {reason}."


def _at_load(facts: RunFacts) -> str:
    """Return the load that the decision is about in words; empty if the run has no other one."""
    loads = {group.group.load for group in facts.groups}
    comparison = facts.decision.comparison
    return f" at {comparison.traffic.load.words}" if comparison and len(loads) > 1 else ""


def _serve_by_class(by_class: ByClass) -> str:
    classes, other_classes = by_class.classes, by_class.other_classes
    count = len(classes) + len(other_classes)
    served = classes[0] if len(classes) == 1 else f"{len(classes)} of {count} classes"
    rest = other_classes[0] if len(other_classes) == 1 else "the others"
    variant = by_class.comparison.variant
    return f"Decision: serve {served} with {variant}, {rest} {WITHOUT_SPECULATION}."


def _why_by_rates(decision: Decision) -> str:
    per_dollar = any(c.price_ratio != 1 for c in decision.rates)
    return f"It takes more requests{' per dollar' if per_dollar else ''} within the limits"


def first_words(decision: Decision) -> str:
    """Return the headline's first words, such as `Speculation pays`; empty without a comparison.

    A variant may be cheaper although it accepts no drafts; then the words say that it is not by
    speculation.
    """
    comparison = decision.comparison
    if comparison is None:
        return ""
    if comparison.judgement.serves_variant and not decision.is_speculation:
        return "Cheaper, and not by speculation"
    return words.ANSWERS[comparison.judgement]


def next_step(facts: RunFacts) -> str:
    """Say what the user can do next; empty if the decision asks for nothing more."""
    step = facts.decision.next_step
    return step_words(step, facts.run.search) if step else ""


def step_words(step: NextStep, search: SearchResult | None) -> str:
    """Say in the imperative what the user can do next, without a full stop."""
    if step is NextStep.CONFIRM_BEST and search:
        return search_sentences.how_to_confirm(search)
    return _STEPS[step]


_STEPS = {
    NextStep.MEASURE_AGAIN: "measure again",
    NextStep.MEASURE_A_VARIANT: (
        "measure a speculative variant beside a baseline, or compare a run of the same prompts "
        "that has one with this run (draftworth report OTHER --against RUN)"
    ),
    NextStep.MEASURE_MORE: (
        "measure more (workload.max_requests, repetitions), or leave out the variant that is "
        "undecided"
    ),
    NextStep.MEASURE_COLD: (
        "start the servers without a prefix cache (vLLM: --no-enable-prefix-caching, llama.cpp: "
        "--no-cache-prompt, SGLang: --disable-radix-cache) and measure again, or with --cache "
        "salted where they are vLLM, or with --cache warm if your traffic repeats prompts as much"
    ),
    NextStep.MEASURE_SALTED: (
        "measure again with --cache salted, or with --cache warm if your traffic repeats prompts "
        "as much"
    ),
    NextStep.MEASURE_WARM_SERVERS: (
        "let the servers run and measure them again; in an experiment, with more requests of "
        "warm-up (workload.warmup_requests)"
    ),
    NextStep.COUNT_TOKENS: (
        "let both servers, and what stands before them, send the number of tokens in each answer "
        "(`usage`, asked for by stream_options.include_usage), and measure again"
    ),
    NextStep.MAKE_WORK_EQUAL: (
        "let both sides serve the same model and count the same tokens, without a cache of "
        "responses, and measure again"
    ),
    NextStep.LET_REQUESTS_SUCCEED: (
        "remove what makes requests fail (requests.csv of a written report has the reasons), or "
        "give them more time (workload.request_timeout_seconds, --timeout-seconds), and measure "
        "again"
    ),
    NextStep.FREE_THE_CLIENT: "give the client a core of its own, and measure again",
    NextStep.SET_LIMITS: (
        "say which latencies the service has to keep (draftworth report RUN --limit "
        "ttft_p95_ms=MS), or measure at a load that is kept full (workload.concurrency)"
    ),
    NextStep.WARM_UP_LONGER: (
        "measure with more requests of warm-up (workload.warmup_requests) and more measured ones "
        "beside them (workload.requests_per_round), or at lower rates"
    ),
    NextStep.MEASURE_HIGHER_RATES: (
        "measure higher rates (workload.requests_per_second), up to one at which a server breaks "
        "the limits, or a load that is kept full (workload.concurrency)"
    ),
    NextStep.MEASURE_LOWER_RATES: "measure lower rates (workload.requests_per_second)",
    NextStep.MEASURE_RATES_BETWEEN: (
        "measure more requests, at rates (workload.requests_per_second) between the highest that "
        "keeps the limits and the lowest that breaks them"
    ),
    NextStep.SEARCH_AGAIN: "correct what prevented the search, and measure again",
    NextStep.TRY_OTHER_DRAFTS: (
        "try other drafts with `draftworth estimate`, which needs no device; those measured here "
        "do not pay"
    ),
}


_RATES = "rates at which one side keeps the limits and the other does not"
_MISSING = {
    Missing.VERDICT: "a verdict",
    Missing.COLD_PROMPTS: "prompts that are new to both servers, or a cache that is wanted",
    Missing.WARM_SERVERS: "servers that have warmed up",
    Missing.COUNTED_TOKENS: "prompts of each class whose tokens both servers count",
    Missing.EQUAL_WORK: "servers that do the same work",
    Missing.ANSWERS: "requests that succeed alike on all servers",
    Missing.FREE_CLIENT: "a client that does not wait for a core",
    Missing.LIMITS: "a cost: arrivals at a rate have none per token, and no latency is limited",
    Missing.HIGHER_RATES: _RATES,
    Missing.LOWER_RATES: _RATES,
    Missing.OTHER_RATES: _RATES,
}


def missing_sentences(facts: RunFacts) -> Iterator[str]:
    """Yield in words what is missing for a decision, without full stops."""
    decision, result = facts.decision, facts.run.result
    for missing in decision.missing:
        match missing:
            case Missing.COMPLETE_RUN:
                yield f"a run that is complete: this one failed ({result.reason})"
            case Missing.ANOTHER_SERVER | Missing.VARIANT:
                name = "a candidate of the search" if facts.run.search else "a speculative variant"
                yield f"{name}, measured beside the baseline"
            case Missing.LONGER_WARMUP:
                yield from (warmup_words(short) for short in _short_warmups(decision))
            case _:
                yield _MISSING[missing]
    for more in decision.more:
        lacks = shortfall_words(more.shortfall, result.target_interval_width)
        yield f"{more.comparison.traffic.label}: {lacks}"


def headline(facts: RunFacts) -> str:
    """Return the answer in one sentence, about the traffic mix or, without a mix, a prompt class.

    For a search, return its result and the verdict on its best candidate.
    """
    search, verdict = facts.run.search, _verdict_sentence(facts)
    return f"{search_answer(search)} {verdict}" if search else verdict


def _verdict_sentence(facts: RunFacts) -> str:
    decision, best = facts.decision, facts.decision.comparison
    if best is None:
        return why_no_verdict(facts.run.result)
    if decision.rates:
        doubt = f"{best.traffic.label}: {words_of(best.doubt)}." if best.doubt else ""
        rates = [*rate_sentences(facts), *equal_rate_sentences(decision)]
        return " ".join([doubt, *rates] if doubt else rates)
    count = len(decision.choices)
    wider = ", with an interval for all of them" if decision.is_widened else ""
    among = f" (the best of {count} comparisons{wider})" if count > 1 else ""
    place = f"{best.traffic.label}, {best.name}"
    answer = f"{first_words(decision)}: {place}: {reason_words(best)}{among}."
    floor = "" if best.clears_floor is not False else floor_sentence(best)
    split = by_class_sentences(decision) if decision.serves_by_class else ()
    return " ".join([*split, f"{answer}{floor}{rare_sentences(best)}", *_reach_of(facts, best)])


def _reach_of(facts: RunFacts, best: Comparison) -> Iterator[str]:
    for measured in facts.contexts or _several_rungs(facts):
        if measured.traffic == best.traffic.name and best.variant in measured.speculative:
            reach = reach_words(measured, best.variant)
            yield f"{reach[0].upper()}{reach[1:]}."


def by_class_sentences(decision: Decision) -> Iterator[str]:
    """Yield sentences on the cost if the variant serves only the classes in which it pays.

    There are none unless the variant is cheaper in one class and more expensive in another.
    """
    split = decision.by_class
    if split is None:
        return
    mix, ratio = split.comparison, split.cost_ratio
    served, rest = " and ".join(split.classes), " and ".join(split.other_classes)
    alone = mix.variant if split.alone == mix.variant else "the baseline"
    yield (
        f"By class: with {mix.variant} for {served} and the baseline for {rest}, the mix at "
        f"{mix.traffic.load.words} {words.cost_phrase(ratio.value, ratio.low, ratio.high)} than "
        f"with the baseline alone; {_saving_words(split)} than with {alone} alone."
    )
    if split.is_shown_to_save and split.servers:
        yield (
            "Two pools need two sets of devices: where "
            f"{alone} alone takes {split.servers} servers or more, the two together take no more."
        )


def _saving_words(split: ByClass) -> str:
    ends = interval_of(split.ratio_to_alone)
    if split.is_shown_to_be_cheaper and ends:
        return f"it costs {spoken_changes(ends)}"
    return f"not shown to cost less{f' ({spoken_changes(ends)})' if ends else ''}"


def winner_to_export(facts: RunFacts) -> Winner:
    """Return the winner of a run; raise NoWinnerError if the run has no decision.

    The error's message says why there is none, and what to do.
    """
    winner, result = winner_of(facts), facts.run.result
    if winner is None:
        failed = result.status != "complete"
        why = f"it failed: {one_line(result.reason)}" if failed else headline(facts)
        raise NoWinnerError(
            f"run {one_line(result.run_id)} has no winner: {why.rstrip('.')}; next: "
            f"{next_step(facts)}"
        )
    return winner


def findings(facts: RunFacts) -> Iterator[Finding]:
    """Yield a finding for each comparison of a variant with a baseline.

    First those in the traffic mix, then those in each class, then those with the shipped baseline.

    The shipped baseline (`AS_SHIPPED`) is the baseline with the engine's own defaults.
    """
    weights = weights_of(facts.run)
    parts = ", ".join(f"{weight:.0%} {name}" for name, weight in weights.items())
    for mix in facts.mixes:
        who = f"{TRAFFIC_MIX} ({parts}) at {mix.traffic.load.words}, {mix.name}"
        yield _finding(mix, who, f"{cost_sentence(mix)}{floor_sentence(mix)}")
    for variant in facts.speculative:
        if c := variant.comparison:
            more = f"{cost_sentence(c)}{floor_sentence(c)}{missing_requests(facts, variant)}"
            yield _finding(c, variant.label, more)
    for variant in facts.speculative:
        if c := variant.against_shipped:
            yield _finding(c, f"{variant.label}, against {AS_SHIPPED}")


def _finding(c: Comparison, who: str, more: str = "") -> Finding:
    ratio = c.cost_ratio
    return Finding(
        traffic=c.traffic.name,
        load=c.traffic.load.label,
        variant=c.variant,
        baseline=c.baseline,
        judgement=c.judgement,
        cost_ratio=ratio.value if ratio else None,
        cost_ratio_low=ratio.low if ratio else None,
        cost_ratio_high=ratio.high if ratio else None,
        noise_floor_low=c.floor.low if c.floor else None,
        noise_floor_high=c.floor.high if c.floor else None,
        clears_noise_floor=c.clears_floor,
        holds_for_repetitions=ratio.holds_for_repetitions if ratio else None,
        sentence=f"{who}: {c.judgement}; {reason_words(c)}.{more}{rare_sentences(c)}",
    )


def why_no_verdict(result: RunResult) -> str:
    """Say why a run without a comparison has none."""
    if result.status == "failed":
        return f"The run failed, so it has no verdict: {one_line(result.reason).rstrip('.')}."
    return "The run has no speculative variant beside its baseline: no verdict."


def cost_sentence(c: Comparison) -> str:
    """Say what a million output tokens cost with variant and baseline; empty without a price."""
    if not (c.baseline_usd and c.variant_usd):
        return ""
    plain, drafted = (f"{usd:.{COST.digits}f}" for usd in (c.baseline_usd, c.variant_usd))
    return f" A million output tokens cost {drafted} USD instead of {plain}."


def floor_sentence(c: Comparison) -> str:
    """Return a sentence on the noise floor; empty if none was measured.

    It is empty too if the reason for the judgement is the noise floor: `reason_words` says that.
    """
    noise = interval_of(c.floor)
    if c.by_floor or noise is None:
        return ""
    floor = f"Two servers without speculation: {changes(noise)}"
    beside = {
        True: ", which the verdict clears",
        False: ", which the verdict does not clear: so much may be no effect of speculation",
        None: "",
    }
    return f" {floor}{beside[c.clears_floor]}."


def rare_sentences(c: Comparison) -> str:
    """Say how many requests took extremely long, and what a run of this size may have missed.

    It may miss rare slow requests and rare kinds of blocks, prompts and starts of the servers.
    The text is empty if there is nothing to say; else it begins with a space.
    """
    extreme = _extreme_sentence(c.extremes, c.without_extremes) if c.extremes else ""
    return f"{extreme}{_unseen_sentence(c)}"


def _extreme_sentence(extremes: Extremes, without: Estimate | None) -> str:
    ends = interval_of(without)
    cost = spoken_changes(ends) if ends else "not known"
    return (
        f" {extremes.count} of {extremes.requests} requests of {extremes.variant} took at least "
        f"{extremes.times:.1f} times as long as is usual for their prompts, and none of the other "
        f"side: without them the cost difference is {cost}."
    )


def _unseen_sentence(c: Comparison) -> str:
    ratio = c.cost_ratio
    if ratio is None or not c.judgement.is_on_cost:
        return ""
    unseen = unseen_of(ratio)
    kinds = {"blocks": unseen.blocks, "prompts": unseen.prompts, "starts": unseen.repetitions}
    warm_up = "" if c.shows_warm_ups else " So few rounds do not show whether a server warms up."
    rarer = [f"3 of {count} {kind}" for kind, count in kinds.items() if count and count > 3]
    return (
        " A run of this size may have missed what happens in fewer than "
        f"{' or '.join([f'1 of {unseen.requests} requests', *rarer])}.{warm_up}"
    )


def missing_requests(facts: RunFacts, variant: VariantFacts) -> str:
    """Say how much more to measure until a variant's interval is as narrow as the experiment asks.

    The text is empty if the interval is narrow enough, or if there is none; else it begins with a
    space.
    """
    if not variant.shortfall:
        return ""
    lacks = shortfall_words(variant.shortfall, facts.run.result.target_interval_width)
    return f" {lacks[0].upper()}{lacks[1:]}."


def shortfall_words(shortfall: Shortfall, target_width: float) -> str:
    """Say how many requests, prompts or repetitions are missing for an interval of a target width.

    target_width: width of the interval / the figure, such as 0.1.
    """
    reached = f"would make the interval {target_width:.0%} wide"
    if not (shortfall.prompts or shortfall.repetitions):
        return f"about {_so_many(shortfall.requests, 'request')} {reached}"
    counts = {"prompt": shortfall.prompts, "repetition": shortfall.repetitions}
    more = " and ".join(_so_many(count, name) for name, count in counts.items() if count)
    return f"about {more} {reached}: those measured differ too much among themselves"


def _so_many(count: int, name: str) -> str:
    return f"1 more {name}" if count == 1 else f"{count} more {name}s"


def reach_sentences(facts: RunFacts) -> Iterator[str]:
    """Yield a sentence for each traffic and variant: up to which load the variant is cheaper."""
    ladders: list[Contexts | Ladder] = [*facts.contexts, *_several_rungs(facts)]
    for measured in ladders:
        for variant in measured.speculative:
            yield f"{ladder_words(measured)}, {variant}: {reach_words(measured, variant)}."


def _several_rungs(facts: RunFacts) -> list[Ladder]:
    return [ladder for ladder in facts.ladders if len(ladder.rungs) > 1]


def ladder_words(measured: Ladder | Contexts) -> str:
    """Return the name of the traffic of `measured`, with its prompt length if it has only one.

    measured: the comparisons in one traffic at several concurrencies; if it is `Contexts`, also at
        several prompt lengths.
    """
    if isinstance(measured, Contexts) or measured.input_tokens is None:
        return measured.traffic
    return f"{measured.traffic} of {measured.input_tokens:,} input tokens"


def reach_words(measured: Ladder | Contexts, variant: str) -> str:
    """Say up to how many requests at a time, and up to which prompt length, a variant is cheaper.

    measured: the comparisons in one traffic at several concurrencies; if it is `Contexts`, also at
        several prompt lengths.
    """
    if isinstance(measured, Contexts):
        return _context_reach(measured, variant)
    last = measured.cheaper_up_to(variant)
    above = measured.rungs[measured.rungs.index(last) + 1 :] if last else measured.rungs
    if last is None:
        start = "not shown to be cheaper at the lightest load"
    else:
        ends = f"{in_flight_words(last.concurrency)} ({_ends(last, variant)})"
        start = f"cheaper up to {ends}" if above else f"cheaper at every load, up to {ends}"
    return "; ".join([start, *(_judged(rung, variant) for rung in above)])


def _context_reach(measured: Contexts, variant: str) -> str:
    corners = list(measured.corners(variant))
    if not corners:
        return "not shown to be cheaper at the lowest load with the shortest context"
    (most, tokens), *further = corners
    more = "".join(f", up to {n} and {length:,}" for n, length in further)
    return f"cheaper up to {in_flight_words(most)} and {tokens:,} tokens of context{more}"


def in_flight_words(requests: int) -> str:
    """Return `one request at a time` or, for 4 requests in flight, `4 requests at a time`."""
    return ConcurrencyLoad(concurrency=requests).words


def _judged(rung: Rung, variant: str) -> str:
    comparison = rung.comparisons.get(variant)
    judgement = comparison.judgement if comparison else "not measured"
    return f"{judgement} at {rung.concurrency} ({_ends(rung, variant)})"


def _ends(rung: Rung, variant: str) -> str:
    comparison = rung.comparisons.get(variant)
    ends = interval_of(comparison.cost_ratio) if comparison else None
    return spoken_changes(ends) if ends else "no interval"


def rate_sentences(facts: RunFacts) -> Iterator[str]:
    """Yield for each variant the highest measured request rate within the latency limits."""
    for bounds in facts.highest_rates:
        rate = bounds.kept.words if bounds.kept else "none of them"
        side = bounds.variant if bounds.kept else _side_words(bounds)
        yield f"Highest measured rate within the limits, {side}: {rate}{_open_words(bounds)}."
    if facts.decision.rates and facts.decision.is_widened:
        yield (
            "The best of several variants looks better than it is: each of these rates is judged "
            "with an interval for all of them."
        )


def _open_words(bounds: RateBounds) -> str:
    """Return `; open at ...` for the rate at which only a short warm-up is in doubt, else ``."""
    short = bounds.warmup
    if short is None:
        return ""
    return (
        f"; open at {short.group.load.words}, which takes {short.needed:,} or more requests of "
        f"warm-up and had {short.sent:,}"
    )


def _short_warmups(decision: Decision) -> list[ShortWarmup]:
    """Return the warm-ups that are too short, each once: several variants have one baseline."""
    sides = (side for rates in decision.rates for side in (rates.baseline, rates.variant))
    return [*dict.fromkeys(side.warmup for side in sides if side.warmup)]


def _side_words(bounds: RateBounds) -> str:
    length = bounds.input_tokens
    return bounds.variant if length is None else f"{bounds.variant} with {length:,} input tokens"


def equal_rate_sentences(decision: Decision) -> Iterator[str]:
    """Yield how the latencies of variants differ at request rates within the limits.

    There is a sentence for each variant and each rate at which both variant and baseline keep the
    latency limits.
    """
    for rates in decision.rates:
        for comparison in rates.at_equal_rates:
            latencies = [
                f"{metric.label} {_times_as_long(speedup)}"
                for metric, speedup in comparison.speedups.items()
                if metric.unit.name == "ms" and speedup
            ]
            if latencies:
                where = f"{comparison.traffic.label}, {comparison.name}"
                yield f"{where}: {', '.join(latencies)} as the baseline's."


def _times_as_long(speedup: Estimate) -> str:
    ratio = speedup.inverse
    return f"{words.with_ends(f'{ratio.value:.2f}', words.interval(ratio))} times as long"
