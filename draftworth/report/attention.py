"""Writes what a reader must know before trusting a run's figures, one sentence each."""

from collections.abc import Iterator, Sequence

from draftworth.analysis.answering_model import other_names
from draftworth.analysis.checks import ACCEPTANCE_TOLERANCE, SERVER_TOLERANCE, AcceptanceCheck
from draftworth.analysis.control import noise_floor
from draftworth.analysis.engine_loss import EngineVerdict
from draftworth.analysis.likelihood_check import judged_variants
from draftworth.analysis.output_differences import BesideControl
from draftworth.analysis.pairing import Traffic
from draftworth.analysis.prefix_cache import large_cached_share
from draftworth.analysis.statistics import Estimate
from draftworth.analysis.summary import groups_of, wrong_input_tokens
from draftworth.decision.best_of_many import confidence_of_each
from draftworth.decision.facts import RunFacts, VariantFacts
from draftworth.decision.verdict import Comparison
from draftworth.records.results import RUN_FILE, RunResult
from draftworth.report.engine_loss_sentences import loss_sentence
from draftworth.report.reason_sentences import answers_words, no_floor_words
from draftworth.untrusted import one_line


def attention_of(facts: RunFacts) -> tuple[str, ...]:
    """Return the warnings about the run, then those about each variant in each class and load."""
    read = judged_variants(facts.run.likelihoods)
    result = facts.run.result
    of_variants = (
        line
        for variant in facts.variants
        for line in (
            *_attention(variant, read=variant.name in read),
            *(_cached(variant) if result.prompts_are_new else ()),
        )
    )
    of_run = (
        *_other_models(facts),
        *_answers(facts),
        *_engine_losses(facts),
        *_shortened(result),
        *_no_floor(facts),
        *_no_price(result),
    )
    return (*_unlisted(facts.run.unlisted), *of_run, *of_variants)


def _unlisted(names: Sequence[str]) -> Iterator[str]:
    if names:
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        several = f"{len(names)} result files beside the run's are"
        files = several if len(names) > 1 else "One result file beside the run's is"
        yield (
            f"{files} not in its {RUN_FILE} and not used: "
            f"{', '.join(one_line(name, characters=80) for name in names[:3])}{more}."
        )


def _attention(variant: VariantFacts, *, read: bool) -> Iterator[str]:
    """Yield the warnings about a variant.

    read: whether the target model has computed the likelihoods of the variant's outputs, which show
        if these can be its own. Then no warning says that they differ from the baseline's outputs.
    """
    server, acceptance = variant.server, variant.acceptance
    if server and not server.agrees:
        yield (
            f"{variant.label}: our mean ITL is {server.ours_s * 1e3:.2f} ms and the server's own "
            f"{server.server_s * 1e3:.2f} ms, {server.difference:+.0%} (tolerance "
            f"{SERVER_TOLERANCE:.0%}): something between them takes or hides time."
        )
    if acceptance.agrees is False:
        yield (
            f"{variant.label}: the server counts {acceptance.counted:.1%} accepted, tokens per "
            f"step explain {acceptance.estimated:.1%} (tolerance {ACCEPTANCE_TOLERANCE:.0%}): "
            "chunks may have been merged on the way, or other requests were served meanwhile."
        )
    if acceptance.requests_agree is False:
        yield (
            f"{variant.label}: the server's counters say {acceptance.counted:.1%} accepted, what it"
            f" tells with each answer {acceptance.by_requests:.1%} (tolerance "
            f"{ACCEPTANCE_TOLERANCE:.0%}): other requests were served meanwhile."
        )
    at_the_end = any(r.usage_source == "last_chunk" for r in variant.records)
    if acceptance.most != 1 and at_the_end and not acceptance.split:
        yield (
            f"{variant.label}: the server counts tokens only at the end of an answer, so the first "
            "chunk is assumed to hold one token. If it holds more, the ITL reads too low: by 2.7% "
            "if it holds 5 of 150 tokens."
        )
    yield from (f"{variant.label}: {sentence}." for sentence in _of_steps(acceptance))
    load = variant.summary.group.load
    if (tokens := wrong_input_tokens(variant.records, load)) is not None:
        yield (
            f"{variant.label}: prompts have {tokens:.0f} tokens by the server's usage, and were "
            f"made {load.input_tokens} tokens long by its tokenizer: it adds or drops something."
        )
    if variant.comparison and not read:
        yield from _different_outputs(variant.label, variant.comparison)
    if variant.summary.failed:
        yield (
            f"{variant.label}: {variant.summary.failed} of {variant.summary.requests} requests "
            "failed; the result files have their reasons, as has requests.csv of a written report."
        )


def _cached(variant: VariantFacts) -> Iterator[str]:
    if share := large_cached_share(variant.blocks):
        yield (
            f"{variant.label}: {share:.1%} of the prompt tokens came from a cache of the server, "
            "because a prompt or its beginning was sent before: TTFT, and with it E2E and the cost "
            "of a token, are lower than with prompts that are new to it."
        )


def _other_models(facts: RunFacts) -> Iterator[str]:
    if names := other_names((*facts.run.blocks, *facts.control)):
        answering, requested = (" and ".join(side) for side in names)
        yield (
            f"Answers name the model {answering}, and {requested} was asked for. That may be "
            "another name of it: vLLM answers with its first name, llama.cpp with its alias or "
            "file, a gateway with a dated name. Make sure that it is the model you mean."
        )


def _shortened(result: RunResult) -> Iterator[str]:
    if result.shortened:
        several = f"{result.repetitions} repetitions and ended before the last was whole"
        one = "one repetition and ended before it was whole"
        yield (
            f"The run was to have {several if result.repetitions > 1 else one}: "
            f"{result.shortened}. What it says is of what it has."
        )


def _no_price(result: RunResult) -> Iterator[str]:
    # All servers of an experiment have equally many devices, so only servers of the user's own may
    # differ in price.
    if result.of_own_servers and result.price is None and len(result.variants) > 1:
        yield "No prices were given, so all servers count as equally expensive per hour."


def _no_floor(facts: RunFacts) -> Iterator[str]:
    result = facts.run.result
    for group in groups_of(facts.control):
        if group.load.has_cost_per_token:
            floor = noise_floor(
                facts.control,
                Traffic.of(group),
                baseline=result.baseline,
                limits=result.limits,
                confidence=confidence_of_each(1, looks=result.looks),
            )
            if not isinstance(floor, Estimate):
                why = no_floor_words(floor)
                yield f"The control gives no noise floor for {group.label}: {why}."


def _answers(facts: RunFacts) -> Iterator[str]:
    yield from (f"{words}." for check in facts.answers if (words := answers_words(check)))
    if facts.run.result.temperature and facts.speculative and not facts.answers:
        yield (
            f"Outputs were sampled at temperature {facts.run.result.temperature:g}: whether "
            "speculation changes them is not checked. A server that samples wrongly with a draft "
            "has speeds too: let a model read both sides' texts (draftworth estimate EXPERIMENT "
            "--answers RUN), or let a program judge them (--score)."
        )


def _engine_losses(facts: RunFacts) -> Iterator[str]:
    for loss in facts.engine_losses:
        if loss.verdict in (EngineVerdict.LOST, EngineVerdict.MORE):
            yield loss_sentence(loss)


def _different_outputs(label: str, comparison: Comparison) -> Iterator[str]:
    share, likeness = comparison.identical_share, comparison.likeness
    if (
        share is None
        or share == 1
        or (likeness and likeness.beside_control is BesideControl.AS_ALIKE)
    ):
        return
    same = f"{label}: {share:.1%} of the outputs are the baseline's"
    if likeness is None:
        yield (
            f"{same}. Two equal servers may differ too, by rounding, and nothing here says how "
            f"often: whether they are the target's is not known. {_LET_READ}"
        )
        return
    control = likeness.control_identical / likeness.control_compared
    equal = f"{same}, and {control:.1%} of those of a second server without speculation"
    more = "they differ more than two servers without speculation do, as right ones may by rounding"
    unclear = "whether they differ more than two servers without speculation do cannot be told"
    differs_more = likeness.beside_control is BesideControl.DIFFERS_MORE
    yield f"{equal}: {more if differs_more else unclear}. {_LET_READ}"


_LET_READ = (
    "Look at where they do, or let a model read them: draftworth estimate EXPERIMENT --answers RUN."
)


def _of_steps(acceptance: AcceptanceCheck) -> Iterator[str]:
    if acceptance.most == 1 and acceptance.counted:
        yield "its own counters say that it accepts drafts, and it was said not to speculate"
    if why := _chunks_are_no_steps(acceptance):
        yield why


def _chunks_are_no_steps(acceptance: AcceptanceCheck) -> str:
    chunks = f"{acceptance.tokens_per_chunk or 0.0:.2f} tokens per chunk"
    steps = f"the server counts {acceptance.tokens_per_step or 0.0:.2f} per step"
    if acceptance.split:
        return f"{chunks}, and {steps}: chunks are no steps, so step latencies are left out"
    if not acceptance.merged:
        return ""
    merged = "chunks were merged on the way, and step latencies are too large"
    if acceptance.tokens_per_step is None or acceptance.most == 1:
        return f"{chunks} where a step yields at most {acceptance.most}: {merged}"
    return f"{chunks}, and {steps}: {merged}"
