"""Writes the answer of a run or search as sentences for report, `verdict.json` and mail."""

import math
from collections.abc import Iterator, Sequence

from draftworth.analysis.attention import attention_of
from draftworth.analysis.facts import RunFacts, VariantFacts, weights_of
from draftworth.analysis.ladder import Contexts, Ladder
from draftworth.analysis.pairing import TRAFFIC_MIX, Traffic, weighted
from draftworth.analysis.statistics import changes, interval_of
from draftworth.analysis.verdict import INDIFFERENCE, Comparison, best_of_many
from draftworth.metrics.definitions import COST, TOKENS_PER_STEP
from draftworth.records.findings import Finding, Verdict
from draftworth.records.judgement import Judgement
from draftworth.records.results import AS_SHIPPED, BlockResult, RunResult
from draftworth.records.search_result import CostInterval, SearchResult
from draftworth.untrusted import one_line


def search_answer(found: SearchResult) -> str:
    """Say which candidate of a search is best, its cost of a token, and how sure the search is."""
    if not found.best:
        return "The search has measured no candidate: no draft and no window can be named."
    name = named(found, found.best)
    best = found.result(found.best)
    cost = best.cost
    if cost.high < 1:
        subject = f"{name[0].upper()}{name[1:]}:"
    else:
        pays = "pays" if cost.low > 1 else "is shown to pay"
        subject = f"No measured candidate {pays}: with the best, {name},"
    alone = f"; its own blocks alone say {apart(best.measured.value)}" if best.measured else ""
    known = f"by all that was measured{alone}; {_sureness(found)}"
    return f"{subject} a token costs {cost_words(cost)} {known}."


def course(found: SearchResult) -> Iterator[str]:
    """Yield sentences on the candidates that a search measured, why it ended, and what failed."""
    total = len({c.variant for c in found.search.candidates} | found.failed.keys())
    count = sum(result.measured is not None for result in found.results)
    was = "was" if count == 1 else "were"
    order = f", in this order: {', '.join(found.order)}" if found.order else ""
    yield f"{count} of {_candidates(total)} {was} measured at {found.load}{order}."
    ended = one_line(found.ended or "the run was over before the search was")
    yield f"No further one was: {ended}."
    for variant, reason in found.failed.items():
        yield f"{variant} is left out: {one_line(reason).rstrip('.')}."
    if unknown := _unknown(found):
        yield f"Neither measured nor predicted: {', '.join(unknown)}."


def next_step(found: SearchResult) -> str:
    """Say what to do after a search."""
    if not found.best:
        return "Next: put right what is said here and measure once more."
    if found.result(found.best).cost.low >= 1:
        return (
            "Next: try other drafts with `draftworth estimate`, which needs no device; "
            "those measured here do not pay."
        )
    return (
        f"Next: measure {named(found, found.best)} against the baseline in an experiment of its "
        "own, with both under `variants` and no `search`, with repetitions and a ladder of loads: "
        "the best of many looks a little better than it is, and this answer is for one load."
    )


def named(found: SearchResult, variant: str) -> str:
    """Return a candidate in words, such as `window 9 of drafts/small`."""
    candidate = found.search.candidate(variant)
    of_draft = f" of {one_line(candidate.draft)}" if candidate.draft else ""
    return f"window {candidate.window}{of_draft}"


def cost_words(cost: CostInterval) -> str:
    """Return a cost ratio in words: `41.2% less than without a draft (39.9% to 42.6%)`."""
    if (cost.low < 1) == (cost.high < 1):
        first, last = sorted(abs(end - 1) for end in (cost.low, cost.high))
        ends = f"{first:.1%} to {last:.1%}"
    else:
        ends = f"{apart(cost.low)} to {apart(cost.high)}"
    return f"{apart(cost.value)} than without a draft ({ends})"


def apart(ratio: float) -> str:
    """Return a ratio in words, such as `41.2% less` for 0.588."""
    return f"{abs(ratio - 1):.1%} {'less' if ratio < 1 else 'more'}"


def _sureness(found: SearchResult) -> str:
    by = f"by more than {100 * found.search.within:g}%"
    said = []
    if any(result.measured is None for result in found.results):
        claim = (
            "other candidate is cheaper"
            if found.expected_to_pay
            else "candidate is cheaper than no draft"
        )
        # Never 100%: a candidate that was not measured may still be cheaper.
        percent = min(99, math.floor(100 * found.sureness))
        sure = f"at least {percent}% sure that no {claim} {by} for the prompts measured"
        said.append(sure if percent > 0 else f"another candidate may be cheaper {by}")
    if unknown := _unknown(found):
        said.append(f"{_candidates(len(unknown))} could be neither measured nor predicted")
    return " and ".join(said) or "every candidate that could be is measured"


def _unknown(found: SearchResult) -> Sequence[str]:
    known = {result.variant for result in found.results} | found.failed.keys()
    return [c.variant for c in found.search.candidates if c.variant not in known]


def _candidates(count: int) -> str:
    return "1 candidate" if count == 1 else f"{count} candidates"


def why_no_verdict(result: RunResult) -> str:
    """Say why a run without a comparison has none."""
    if result.status == "failed":
        return f"The run failed, so it has no verdict: {one_line(result.reason).rstrip('.')}."
    return "The run has no speculative variant beside its baseline: no verdict."


# The headline's first words, by judgement.
ANSWERS: dict[Judgement, str] = {
    Judgement.CHEAPER: "Speculation pays",
    Judgement.WITHIN_LIMITS: "Speculation keeps the limits",
    Judgement.INCONCLUSIVE: "No answer yet",
    Judgement.NO_DIFFERENCE: "Speculation makes no difference",
    Judgement.MORE_EXPENSIVE: "Speculation does not pay",
    Judgement.OUTSIDE_LIMITS: "Speculation does not keep the limits",
}


# At most so many tokens per step save no more than counts as no difference in cost. A busy server
# that does not speculate merges a few chunks, and seems to yield as many.
_NO_SPECULATION = 1 + INDIFFERENCE


def first_words(facts: RunFacts, comparison: Comparison) -> str:
    """Return the headline's first words; what is cheaper may be so without speculation."""
    if comparison.judgement == Judgement.CHEAPER and not drafts_are_accepted(facts, comparison):
        return "Cheaper, and not by speculation"
    return ANSWERS[comparison.judgement]


def drafts_are_accepted(facts: RunFacts, comparison: Comparison) -> bool:
    """Return whether a variant's steps yield more than one token, or are not known."""
    per_step = tokens_per_step(facts.run.blocks, comparison.traffic, comparison.variant)
    return per_step is None or per_step > _NO_SPECULATION


def tokens_per_step(blocks: Sequence[BlockResult], traffic: Traffic, variant: str) -> float | None:
    """Return a variant's tokens per step in a traffic; None if those of a class are not known."""
    steps_per_token = weighted(blocks, traffic, variant, TOKENS_PER_STEP, power=-1)
    return 1 / steps_per_token if steps_per_token else None


def verdict_of(facts: RunFacts) -> Verdict:
    """Return the answer of a run as the record that `verdict.json` holds."""
    return Verdict(
        run_id=facts.run.result.run_id,
        experiment=facts.run.result.experiment,
        headline=headline(facts),
        findings=tuple(findings(facts)),
        notes=(*reach_sentences(facts), *rate_sentences(facts), *attention_of(facts)),
    )


def headline(facts: RunFacts) -> str:
    """Return the answer in one sentence, about the traffic mix or, without a mix, a prompt class.

    For a search, return its result and the verdict on its best candidate.
    """
    found = facts.run.search
    verdict = _verdict_sentence(facts, choices_of(facts))
    return f"{search_answer(found)} {verdict}" if found else verdict


def choices_of(facts: RunFacts) -> list[Comparison]:
    """Return the comparisons that the headline may be about; in a search, the best candidate's."""
    found = facts.run.search
    return [
        c
        for c in facts.mixes or facts.comparisons
        if AS_SHIPPED not in (c.variant, c.baseline) and (found is None or c.variant == found.best)
    ]


def _verdict_sentence(facts: RunFacts, asked: Sequence[Comparison]) -> str:
    if not asked:
        return why_no_verdict(facts.run.result)
    rates = list(rate_sentences(facts))
    if rates and not any(c.traffic.load.has_cost_per_token for c in asked):
        return " ".join(rates)
    best = best_of(asked)
    wider = "" if any(best is c for c in asked) else ", with an interval for all of them"
    among = f" (the best of {len(asked)} comparisons{wider})" if len(asked) > 1 else ""
    words = first_words(facts, best)
    answer = f"{words}: {best.traffic.label}, {best.name}: {best.reason}{among}."
    floor = "" if best.clears_floor is not False else floor_sentence(best)
    return " ".join([f"{answer}{floor}{best.rare}", *_reach_of(facts, best)])


def _reach_of(facts: RunFacts, best: Comparison) -> Iterator[str]:
    for found in facts.contexts or _several_rungs(facts):
        if found.traffic == best.traffic.name and best.variant in found.speculative:
            reach = found.reach(best.variant)
            yield f"{reach[0].upper()}{reach[1:]}."


def best_of(asked: Sequence[Comparison]) -> Comparison:
    """Return the comparison of `asked` (at least one) whose judgement has the lowest rank.
    `best_of_many` judges it anew, with a wider interval, because it was chosen as the best."""

    def preference(c: Comparison) -> tuple[int, float]:
        # Of comparisons with the same judgement, prefer the lowest upper end of the cost ratio.
        high = c.cost_ratio.high if c.cost_ratio else None
        return c.judgement.rank, math.inf if high is None else high

    return best_of_many(min(asked, key=preference), len(asked))


def findings(facts: RunFacts) -> Iterator[Finding]:
    """Yield a finding for each comparison: in the mix, in each class, against `AS_SHIPPED`."""
    weights = weights_of(facts.run)
    parts = ", ".join(f"{weight:.0%} {name}" for name, weight in weights.items())
    for mix in facts.mixes:
        who = f"{TRAFFIC_MIX} ({parts}) at {mix.traffic.load.label}, {mix.name}"
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
        sentence=f"{who}: {c.judgement}; {c.reason}.{more}{c.rare}",
    )


def cost_sentence(c: Comparison) -> str:
    """Say what a million output tokens cost with variant and baseline; empty without a price."""
    if not (c.baseline_usd and c.variant_usd):
        return ""
    plain, drafted = (f"{usd:.{COST.digits}f}" for usd in (c.baseline_usd, c.variant_usd))
    return f" A million output tokens cost {drafted} USD instead of {plain}."


def floor_sentence(c: Comparison) -> str:
    """Return a sentence on the noise floor; empty if there is none, or `c.reason` mentions it."""
    noise = interval_of(c.floor)
    if c.reason_has_floor or noise is None:
        return ""
    floor = f"Two servers without speculation: {changes(noise)}"
    beside = {
        True: ", which the verdict clears",
        False: ", which the verdict does not clear: so much may be no effect of speculation",
        None: "",
    }
    return f" {floor}{beside[c.clears_floor]}."


def missing_requests(facts: RunFacts, variant: VariantFacts) -> str:
    """Say how many more requests, prompts or repetitions a variant needs for an interval as narrow
    as the experiment asks for; empty if it is narrow enough, or if there is no interval."""
    if not variant.shortfall:
        return ""
    words = variant.shortfall.words(facts.run.result.target_interval_width)
    return f" {words[0].upper()}{words[1:]}."


def reach_sentences(facts: RunFacts) -> Iterator[str]:
    """Yield a sentence for each ladder and variant: up to which load the variant is cheaper."""
    measured: list[Contexts | Ladder] = [*facts.contexts, *_several_rungs(facts)]
    for found in measured:
        for variant in found.speculative:
            yield f"{found.label}, {variant}: {found.reach(variant)}."


def _several_rungs(facts: RunFacts) -> list[Ladder]:
    return [ladder for ladder in facts.ladders if len(ladder.rungs) > 1]


def rate_sentences(facts: RunFacts) -> Iterator[str]:
    """Yield for each variant the highest measured request rate at which it keeps the limits."""
    for variant, load in facts.highest_rates.items():
        found = load.words if load else "none of them"
        yield f"Highest measured rate within the limits, {variant}: {found}."
