"""Why a comparison is judged as it is, in words."""

import math
from collections.abc import Iterator
from fractions import Fraction

from draftworth.analysis import doubts
from draftworth.analysis.likelihood_check import AnswersCheck, DiffersSooner
from draftworth.analysis.limits import LIMIT_REQUESTS, MAX_EXCLUDED_SHARE
from draftworth.analysis.prefix_cache import MAX_CACHED_SHARE, MIN_TTFT_RATIO
from draftworth.analysis.repeated_looks import confidence_at_each_look
from draftworth.analysis.spread import MIN_PROMPTS
from draftworth.analysis.statistics import CONFIDENCE, interval_of
from draftworth.decision import reasons
from draftworth.decision.reasons import CostPlace
from draftworth.decision.verdict import INDIFFERENCE, Comparison
from draftworth.errors import counted
from draftworth.records import likelihoods
from draftworth.report.percent import HALF_OR_TWICE, changes, says_nothing, spoken_changes

ENOUGH = f"{MIN_PROMPTS} prompts in two rounds"


def reason_words(comparison: Comparison) -> str:
    """Say why a comparison is judged as it is, and whether only the noise floor leaves it open.

    The noise floor is how much the cost of a token differs between two servers without speculation.
    """
    words = words_of(comparison.reason)
    noise = interval_of(comparison.floor)
    if not comparison.by_floor or noise is None:
        return words
    return (
        f"{words}, but on a second server without speculation it costs {changes(noise)}: so much "
        "may be no effect of speculation"
    )


def words_of(reason: reasons.Reason) -> str:
    """Return the reason for a judgement as a clause without a full stop."""
    match reason:
        case reasons.CostDecides():
            return _cost_words(reason)
        case reasons.LimitDecides(latency=latency):
            return latency_words(latency)
        case reasons.NoTokens():
            return "no prompt of each class has its tokens counted on both sides"
        case reasons.TooFewPrompts():
            return f"too few prompts or rounds: it takes {ENOUGH}; more where they differ much"
        case reasons.NoCostAtRate():
            return (
                "arrivals at a rate have no cost per token; with workload.limits the answer is the "
                "highest rate that keeps them"
            )
        case reasons.KeepsLimits():
            return "every latency limit is kept at this rate"
        case doubts.ShortWarmup():
            return warmup_words(reason)
        case (
            doubts.CountsDiffer()
            | doubts.BeyondSpeculation()
            | doubts.PromptsCached()
            | doubts.RepeatsFaster()
            | doubts.NotSteadyYet()
        ):
            return _not_believed_words(reason)
        case doubts.NotTheTargets(checks=checks):
            return "; ".join(answers_words(check) for check in checks)
        case _:
            return not_comparable_words(reason)


def _cost_words(reason: reasons.CostDecides) -> str:
    where = _which_repetitions(reason.repetitions)
    match reason.place:
        case CostPlace.HIGHER:
            return f"a token costs at least {_sure(reason.low)} more{where}"
        case CostPlace.LOWER:
            return f"a token costs at least {_sure(reason.high)} less{where}"
        case CostPlace.EQUAL:
            return f"a token costs the same to {INDIFFERENCE:.0%} either way{where}"
        case CostPlace.BESIDE_ONE | CostPlace.AROUND_ONE:
            if says_nothing(reason.low, reason.high):
                return f"nothing is known yet: a token may cost {HALF_OR_TWICE}"
            is_beside = reason.place is CostPlace.BESIDE_ONE
            equal = f", and up to {INDIFFERENCE:.0%} counts as no difference" if is_beside else ""
            ends = spoken_changes((reason.low, reason.high))
            return f"the interval is too wide to decide: {ends}{where}{equal}"


def looks_sentences(looks: int) -> Iterator[str]:
    """Yield why all intervals of a run are wider; nothing if no verdict could end it.

    looks: the most looks at a verdict that could end the run (`RunResult.looks`).
    """
    if looks > 1:
        yield (
            f"Intervals are wider: the run looked at its verdicts after each round; each of up to "
            f"{looks} looks has intervals of {confidence_at_each_look(looks):.1%}, so that all of "
            f"them hold together in {CONFIDENCE:.0%} of such runs."
        )


def _sure(end: float) -> str:
    """Return how far a ratio is from 1, in whole per cent.

    It is rounded down, so that a sentence can say `at least`.
    """
    return f"{abs(math.trunc(100 * (Fraction(end) - 1)))}%"


def _which_repetitions(repetitions: int | None) -> str:
    """Return words that limit an interval to a run's repetitions, as ` in these 2 repetitions`.

    repetitions: how many the run has; None: the interval holds for future repetitions too, so the
    text is empty.
    """
    if repetitions is None:
        return ""
    return " in this run" if repetitions < 2 else f" in these {repetitions} repetitions"


def latency_words(latency: doubts.LatencyAtLimit) -> str:
    """Say how a 95th percentile compares with its limit, and what to measure if that is open."""
    what = f"{latency.latency} p95 of {latency.variant} in {latency.group.label}"
    limit = f"limit {latency.limit_s * 1e3:g} ms"
    if latency.p95 is None:
        return f"{what} was not measured ({limit})"
    if latency.p95.interval is None:
        return (
            f"{what}: {latency.p95.samples} requests do not show whether it keeps its {limit}; "
            f"some {LIMIT_REQUESTS} or more would"
        )
    low, high = latency.p95.interval
    ends = f"{low * 1e3:.1f} to {high * 1e3:.1f} ms, {limit}"
    more = "" if latency.is_kept is False else ": measure more requests"
    return f"{what} is {ends}{more}"


def warmup_words(short: doubts.ShortWarmup) -> str:
    """Say that a warm-up is too short to show that limits are kept, and how long it has to be."""
    return (
        f"blocks of {short.variant} in {short.group.label} begin on an idle server with "
        f"{counted(short.sent, 'request')} of warm-up, and this rate takes "
        f"{short.needed:,} or more: whether the limits are kept is open"
    )


def not_comparable_words(doubt: doubts.NotComparable) -> str:
    """Say why the requests of variants cannot be compared."""
    group = doubt.group.label
    match doubt:
        case doubts.SeveralModels(models=models):
            answers = ", ".join(f"{v} answers as {' and '.join(n)}" for v, n in models.items())
            return (
                f"in {group}, {answers}: that may be different models; next: serve one model under "
                "one name (vLLM: --served-model-name, llama.cpp: --alias)"
            )
        case doubts.ManyExcluded(variant=variant, share=share):
            return (
                f"{share:.0%} of the samples of {variant} in {group} are excluded: the client "
                f"waited for a core, or was stopped (at most {MAX_EXCLUDED_SHARE:.0%}): give the "
                "client a core of its own"
            )
        case doubts.ManyFailed():
            late = f", {doubt.timed_out} of them by time-out" if doubt.timed_out else ""
            return (
                f"{doubt.failed} of {doubt.requests} requests of {doubt.variant} in {group} "
                f"failed{late} (at most {doubt.allowed_share:.1%}): those that are left may be the "
                "easy ones"
            )
        case doubts.FailedUnequally(counts=counts):
            sides = " and ".join(f"{f} of {n} of {variant}" for variant, (f, n) in counts.items())
            return f"requests in {group} failed unequally: {sides}"


def _not_believed_words(doubt: doubts.NotBelieved) -> str:
    match doubt:
        case doubts.CountsDiffer():
            return (
                "the servers count tokens differently; in "
                f"{counted(doubt.outputs, 'output')} with the same text the baseline counts "
                f"{doubt.baseline_tokens:,} tokens and the variant {doubt.variant_tokens:,}, so a "
                "cost per token says nothing"
            )
        case doubts.BeyondSpeculation():
            return (
                f"no speculation can gain so much; the variant is {doubt.times:.0f} times as fast, "
                f"where a step yields at most {doubt.tokens} tokens: a cache of responses may have "
                "answered, or a faster server"
            )
        case doubts.PromptsCached():
            return (
                f"prompts were not new to {doubt.variant}; {doubt.share:.1%} of their tokens came "
                f"from its prefix cache (at most {MAX_CACHED_SHARE:.0%}), so a token costs less "
                "than with new ones"
            )
        case doubts.RepeatsFaster():
            prompts = counted(doubt.prompts, "prompt")
            return (
                f"prompts sent again to {doubt.variant} are answered sooner; TTFT "
                f"beside ITL is {doubt.times:.2f} times as long the first time ({prompts}, at most "
                f"{MIN_TTFT_RATIO:g}): it has a prefix cache, or was slow with first prompts"
            )
        case doubts.NotSteadyYet():
            lower = "lower" if doubt.first_times < 1 else "higher"
            return (
                "a server still warmed up; in the first round the cost ratio is "
                f"{abs(doubt.first_times - 1):.0%} {lower} than in later rounds: measure again on "
                "servers that have run for a while"
            )


def no_floor_words(doubt: doubts.NotComparable | doubts.NoFloorInterval) -> str:
    """Say why a control (a second server without speculation) gives no noise floor."""
    if isinstance(doubt, doubts.NoFloorInterval):
        return f"its pairs in {doubt.group} give no interval"
    return not_comparable_words(doubt)


def answers_words(check: AnswersCheck) -> str:
    """Say why outputs are not the target model's, or why that is not known; empty if they are."""
    if check.is_the_targets or check.evidence is None:
        return ""
    unknown = "whether its answers are the target's is not known"
    problem = unknown if check.is_the_targets is None else "its answers are not the target's"
    return f"{check.variant}: {problem}: {_evidence_words(check, check.evidence)}"


def _evidence_words(check: AnswersCheck, evidence: likelihoods.ModelsCheck | DiffersSooner) -> str:
    match evidence:
        case likelihoods.Likelihood():
            less = "less" if evidence.deviation < 0 else "more"
            return (
                f"their tokens are {abs(evidence.per_token):.2f} nats {less} likely than what the "
                f"target draws ({abs(evidence.deviation):.1f} standard errors, "
                f"{counted(evidence.outputs, 'output')})"
            )
        case likelihoods.GreedyLikelihood():
            return (
                f"{evidence.beyond} of {evidence.outputs} have a token that the target would not "
                f"have said, and rounding does not explain (up to {evidence.farthest:.1f} nats "
                f"below its most likely one; a near tie: {likelihoods.NEAR_TIE_NATS:g})"
            )
        case likelihoods.DraftLikelihood():
            return _draft_words(evidence, is_told=check.is_the_targets is not None)
        case DiffersSooner():
            control = "those of a second server without speculation"
            floor = control if evidence.of_control else "the baseline's own repeats"
            return (
                f"at {evidence.load.words} {evidence.differing} of {evidence.outputs} differ from "
                f"the baseline's, at one token in {evidence.tokens / evidence.differing:.0f}, "
                f"sooner than {floor} and than rounding explains (one in "
                f"{1 / evidence.rounding_share:.0f})"
            )


def _draft_words(evidence: likelihoods.DraftLikelihood, *, is_told: bool) -> str:
    low, high = evidence.low, evidence.high
    prompts = f"{counted(evidence.prompts, 'prompt')} of {evidence.prompt_class}"
    if low is None or high is None:
        return f"{prompts} are too few to tell"
    words = (
        f"under {evidence.draft} their tokens are {low:+.2f} to {high:+.2f} nats beside the "
        f"baseline's ({prompts}; equal: within {likelihoods.DRAFT_MARGIN_NATS:g})"
    )
    return words if is_told else f"{words}: too few prompts to tell"
