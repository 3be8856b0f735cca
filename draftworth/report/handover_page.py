"""The handover: one page for the people who take a run's decision into production."""

import re
import shlex
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from draftworth.analysis.summary import Lengths
from draftworth.decision.facts import RunFacts
from draftworth.decision.handover import BreakEvenAt, Handover
from draftworth.decision.judged_anew import as_paid, chosen_values
from draftworth.decision.run_decision import Decision
from draftworth.decision.verdict import Comparison
from draftworth.metrics.definitions import TOKENS_PER_STEP
from draftworth.records.load_shapes import Load
from draftworth.records.results import Limits, RunResult
from draftworth.records.servers import ServingFacts
from draftworth.report import words
from draftworth.report.break_even_sentences import break_even_sentences
from draftworth.report.document import Section, Table, table
from draftworth.report.sentences import (
    by_class_sentences,
    headline,
    missing_sentences,
    next_step,
)

TITLE = "Handover"
_WORD = re.compile(r"[A-Z]+")
# The placeholders in commands, and what the reader replaces them with.
_PLACES = {
    "RUN": "this run's folder or s3:// address",
    "OTHER": "the later run's",
    "FILE": "its experiment file",
    "URL": "a server's address",
    "NAME": "the model's name there",
    "PROMPTS": "the prompt files that were measured",
    "X": "that server's price",
}


def handover_section(facts: RunFacts) -> Section:
    """Return the section with the decision, its traffic, what to watch and how to measure again."""
    handover = facts.handover
    return Section(
        title=TITLE,
        paragraphs=tuple(_sentences(facts, handover)),
        tables=(
            *table(("what was measured", ""), _measured(facts), names=2, title="What was measured"),
            *_classes(handover),
            *_break_evens(handover),
            *_steps(facts),
        ),
    )


def _sentences(facts: RunFacts, handover: Handover) -> Iterator[str]:
    decision = facts.decision
    if not decision.is_made:
        missing = "; ".join(missing_sentences(facts))
        yield (
            f"There is nothing to hand over yet. What is missing: {missing}. Next: "
            f"{next_step(facts)}."
        )
    if decision.comparison:
        yield headline(facts)
        if not decision.serves_by_class:
            yield from by_class_sentences(decision)
        yield from break_even_sentences(decision)
        yield from _alternatives(decision)
        yield from _limits_of_decision(facts, handover, decision.comparison)
    if decision.is_made and decision.next_step:
        yield f"Next: {next_step(facts)}."
    if decision.serves_variant and decision.is_speculation:
        yield words.ABOUT["watch_counters" if handover.has_counters else "watch_chunks"]
        yield words.ABOUT["watch"]
    elif decision.is_made and not decision.serves_variant:
        yield words.ABOUT["would_pay"]


def _alternatives(decision: Decision) -> Iterator[str]:
    """Yield a sentence that lists the comparisons that the decision chose from, if several."""
    if len(decision.choices) > 1:
        each = (f"{c.name} in {c.traffic.label} ({c.judgement})" for c in decision.choices)
        yield f"In order of preference: {', '.join(each)}."


def _limits_of_decision(facts: RunFacts, handover: Handover, decision: Comparison) -> Iterator[str]:
    classes = facts.decision.classes
    if len(classes) > 1:
        each = (f"{c.traffic.name} {c.judgement} ({words.change(c.cost_ratio)})" for c in classes)
        yield f"Of its classes at {decision.traffic.load.words}: {', '.join(each)}."
    loads = ", ".join(at.load.words for at in handover.break_evens)
    yield f"Measured at {loads}: of other loads nothing is known."
    if handover.most_tokens is not None:
        serving = facts.run.result.serving
        limit = f", of {serving.max_model_len:,} that the server takes" if serving else ""
        yield (
            f"The longest request had {handover.most_tokens:,} tokens, prompt and output{limit}. "
            "Longer contexts were not measured, and drafts may be accepted less there."
        )


def _measured(facts: RunFacts) -> Iterator[tuple[str, str]]:
    result = facts.run.result
    if result.serving:
        yield from _serving(result.serving, facts.decision)
    else:
        yield "servers", "endpoints of your own: the run does not know what serves them"
    yield "temperature", f"{result.temperature:g}" + ("" if result.temperature else " (greedy)")
    if result.limits.are_on_latencies:
        yield "latency limits, p95", _limits(result.limits)
    started = datetime.fromtimestamp(result.started_at_unix_s, UTC)
    several = f", {result.repetitions} repetitions" if result.repetitions > 1 else ""
    yield "run", f"{result.run_id}, {started:%Y-%m-%d}{several}"
    if (paid := as_paid(facts)).price:
        yield "price", words.price_words(paid)


def _serving(serving: ServingFacts, decision: Decision) -> Iterator[tuple[str, str]]:
    yield "target model", serving.target_model
    name = decision.comparison.variant if decision.comparison else ""
    if how := serving.decoding.get(name):
        yield "draft model", how.draft or words.MISSING
        yield "method and window", f"{how.method}, {how.window}"
    yield "model revisions", "as in the experiment file; the run does not keep them"
    yield "release", f"{serving.release} (vLLM {serving.vllm_version})"
    yield "image", serving.image or "none: the engine ran on the machine itself"
    if serving.instance_type:
        count = serving.slot_devices
        devices = f"{count} device{'' if count == 1 else 's'} a server"
        cores = f"tensor parallel {serving.tensor_parallel_size}, LNC {serving.lnc}"
        yield "instance", f"{serving.instance_type}, {devices}, {cores}"
    limits = f"max_num_seqs {serving.max_num_seqs}, max_model_len {serving.max_model_len:,}"
    yield "server's limits", limits


def _limits(limits: Limits) -> str:
    named = (("TTFT", limits.ttft_p95_s), ("ITL", limits.itl_p95_s), ("E2E", limits.e2e_p95_s))
    return ", ".join(f"{name} {limit * 1e3:g} ms" for name, limit in named if limit is not None)


def _classes(handover: Handover) -> tuple[Table, ...]:
    rows = (
        (
            *(c.name, f"{c.weight:.0%}", str(c.cases), str(c.prompts)),
            *(_lengths(c.input_tokens), _lengths(c.output_tokens)),
        )
        for c in handover.classes
    )
    headings = ("for traffic of", "part of its tokens", "cases", "prompts")
    lengths = ("prompt tokens: median (fewest to most)", "output tokens")
    return table((*headings, *lengths), rows, names=1, title="For which traffic")


def _lengths(lengths: Lengths | None) -> str:
    if lengths is None:
        return words.MISSING
    return f"{lengths.median:,.0f} ({lengths.fewest:,} to {lengths.most:,})"


def _break_evens(handover: Handover) -> tuple[Table, ...]:
    several = [c.name for c in handover.classes] if len(handover.classes) > 1 else []
    rows = (
        (
            *(at.load.cell, at.judgement or words.MISSING),
            *(
                words.figure(TOKENS_PER_STEP, at.needed.value if at.needed else None),
                words.interval(at.needed),
            ),
            *(words.figure(TOKENS_PER_STEP, at.measured), _margin(at)),
            *(words.figure(TOKENS_PER_STEP, at.by_class[name]) for name in several),
        )
        for at in handover.break_evens
    )
    needed = ("load", "verdict", "tokens per step to break even", words.INTERVAL)
    headings = (*needed, "measured", "may fall by", *(f"measured, {name}" for name in several))
    return table(headings, rows, names=2, title="How far tokens per step may fall")


def _margin(at: BreakEvenAt) -> str:
    if at.servers_differ and at.measured is not None:
        return "the servers differ in more than speculation"
    if at.margin is None:
        return words.MISSING
    return f"{at.margin:.0%}" if at.margin > 0 else "is below"


def _steps(facts: RunFacts) -> tuple[Table, ...]:
    rows = [(purpose, words.Code(command)) for purpose, command in _commands(facts)]
    named = {word for _, command in rows for word in _WORD.findall(command)}
    places = ", ".join(f"{place}: {what}" for place, what in _PLACES.items() if place in named)
    return table(("to", f"command ({places})"), rows, names=2, title="How to measure again")


def _commands(facts: RunFacts) -> Iterator[tuple[str, str]]:
    serving = facts.run.result.serving
    yield "see the whole report", "draftworth report RUN --out DIR"
    on_aws = serving is not None and serving.instance_type is not None
    # `draftworth manifests` exports the winner by the run's own weights, prices and limits: not the
    # winner if the run is judged with others (`chosen_values`).
    has_winner = facts.decision.is_made and not chosen_values(facts)
    if has_winner and serving is not None:
        image = "" if on_aws else " --image REPOSITORY:TAG"
        yield "serve it", f"draftworth manifests FILE --winner RUN --out DIR{image}"
    once_more = "measure it once more"
    if on_aws:
        once_more += ", with a higher rerun in FILE"
        again = "make deploy EXPERIMENT=FILE"
    elif facts.run.blocks and facts.run.result.of_own_servers:
        loads = [*dict.fromkeys(block.load for block in facts.run.blocks)]
        again = _probe(facts, loads, _own_servers(facts.run.result))
    else:
        again = 'make rehearse ARGS="--experiment FILE"'
    yield once_more, again
    yield "read both as one run", "draftworth report RUN OTHER"
    yield "see whether it changed", "draftworth report OTHER --against RUN"
    if decided := facts.decision.comparison:
        load = decided.traffic.load
        alike = "the same" if load.input_tokens is None else "nearly the same: prompts as they are"
        yield f"ask a live server {alike}", _probe(facts, [load])


def _own_servers(result: RunResult) -> str:
    sides = {}
    for name in result.variants:
        most = result.max_tokens_per_step.get(name) or 1
        window = f",window={most - 1}" if most > 1 else ""
        both = result.lookup_lengths.get(name)
        ngram = f",ngram={both[0]}-{both[1]}" if both else ""
        sides[name] = f"URL{window}{ngram}{',usd_per_hour=X' if result.price else ''}"
    if len(sides) < 2:
        return _MEASURE
    baseline = sides.pop(result.baseline)
    options = (f"--variant {shlex.quote(name)}={side}" for name, side in sides.items())
    return f"compare --baseline {baseline} {' '.join(options)}"


_MEASURE = "measure --base-url URL"


def _probe(facts: RunFacts, loads: Sequence[Load], command: str = _MEASURE) -> str:
    blocks = facts.run.blocks
    measured = [len(b.requests) for b in blocks if b.load in loads]
    requests = max([*measured, *(load.in_flight or 1 for load in loads)])
    options = " ".join(load.option for load in sorted(loads, key=lambda load: load.order))
    done = [r for b in blocks for r in b.requests if not r.failed]
    most = max((n for r in done if (n := r.number_output_tokens) is not None), default=None)
    tokens = "" if most is None else f" --output-tokens {most}"
    # If every output ended at its length limit, `--fixed-length` gives outputs of these lengths
    # again, whether or not the run had asked for them.
    fixed = " --fixed-length" if {r.finish_reason for r in done} == {"length"} else ""
    sampled = facts.run.result.temperature
    temperature = f" --temperature {sampled:g}" if sampled else ""
    rounds = " --rounds 2" if command == _MEASURE else ""
    wanted = facts.run.result.prompt_cache
    cache = "" if wanted == "cold" else f" --cache {wanted}"
    return (
        f"draftworth {command} --model NAME --prompts PROMPTS {options} "
        f"--requests-per-case {requests}{tokens}{fixed}{temperature}{cache}{rounds} --out runs"
    )
