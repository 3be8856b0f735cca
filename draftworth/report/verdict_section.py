"""The verdict in a report: every comparison, the repetitions and the control."""

from collections.abc import Iterator, Sequence

from draftworth.analysis.pairing import MANY_CASES, are_drawn
from draftworth.analysis.spread import MANY_REPETITIONS
from draftworth.analysis.statistics import Estimate
from draftworth.decision.facts import RunFacts, VariantFacts
from draftworth.decision.ladder import Ladder
from draftworth.decision.verdict import TTFT_MARGIN, UNCHANGED_PROMPTS, Comparison, differs
from draftworth.metrics import definitions
from draftworth.metrics.definitions import COST
from draftworth.records.results import AS_SHIPPED
from draftworth.report import words
from draftworth.report.document import Section, Table, table, variant_table
from draftworth.report.overview_plots import overview_plots
from draftworth.report.reason_sentences import looks_sentences
from draftworth.report.sentences import findings, rate_sentences, reach_sentences, why_no_verdict


def repetition_sections(facts: RunFacts) -> Iterator[Section]:
    """Yield a section with the cost of a token in each repetition; none if there is only one."""
    if not facts.repetitions:
        return
    rows = [row for c in facts.comparisons for row in _rows(facts, c)]
    headings = ("class", "load", "variant", "repetition", "slot", "baseline's slot")
    yield Section(
        title="Repetitions",
        paragraphs=(words.ABOUT["repetitions"].format(many=MANY_REPETITIONS),),
        tables=table((*headings, "cost of a token", words.INTERVAL), rows, names=4),
    )


def _rows(facts: RunFacts, c: Comparison) -> Iterator[tuple[str, ...]]:
    who = c.traffic.name, c.traffic.load.cell, c.name
    measured = c.traffic.name, c.traffic.load.label, c.name
    repetitions = [r for r in facts.repetitions if (r.traffic, r.load, r.variant) == measured]
    several_runs = len({repetition.run_id for repetition in repetitions}) > 1
    for r in repetitions:
        run, rest = f"{r.run_id}, " if several_runs else "", "" if r.is_whole else ", not whole"
        slots = (words.number(slot, digits=0) for slot in (r.slot, r.baseline_slot))
        yield (*who, f"{run}{r.repetition}{rest}", *slots, *words.change_cells(r.cost_ratio))
    if repetitions:
        whole = sum(r.is_whole for r in repetitions)
        name = f"all {whole}" if whole == len(repetitions) else f"all, {whole} whole"
        yield (*who, name, words.MISSING, words.MISSING, *words.change_cells(c.cost_ratio))


def control_tables(facts: RunFacts) -> tuple[Table, ...]:
    """Return the table of noise floors: the costs of two servers without speculation compared.

    It is empty without a control, which is the second of these servers.
    """
    rows = (
        (
            *(c.traffic.name, c.traffic.load.cell, c.name),
            *(*words.change_cells(c.floor), words.yes_or_no(c.clears_floor)),
        )
        for c in facts.comparisons
        if c.floor
    )
    headings = ("class", "load", "variant", "two servers without speculation", words.INTERVAL)
    title = "What two servers without speculation differ by"
    return table((*headings, "verdict clears it"), rows, names=3, title=title)


def compared(facts: RunFacts) -> list[tuple[VariantFacts, Comparison]]:
    """Return (variant, its comparison with the baseline) for each variant that was compared."""
    return [(v, v.comparison) for v in facts.speculative if v.comparison]


def verdict_section(facts: RunFacts) -> Section:
    """Return the section of the verdict: its sentences, its tables and the overview plots."""
    of_variants = compared(facts)
    against_shipped = [c for v in facts.speculative if (c := v.against_shipped)]
    sentences = [finding.sentence for finding in findings(facts)]
    if against_shipped:
        sentences.append(words.ABOUT["as_shipped"].format(name=AS_SHIPPED))
    if not of_variants:
        sentences = [why_no_verdict(facts.run.result)]
    else:
        sentences += [*reach_sentences(facts), *rate_sentences(facts), *_about_the_intervals(facts)]
    return Section(
        title="Verdict",
        paragraphs=tuple(sentences),
        tables=(
            *_comparisons((*facts.comparisons, *against_shipped)),
            *_contexts(facts),
            *_goodputs(facts),
            *control_tables(facts),
            *variant_table(
                ("TTFT, typical", "the same", "TTFT p95", "the same"),
                ((v, _ttft_cells(c)) for v, c in of_variants),
                title=f"Time to the first token (the same: within {TTFT_MARGIN:.0%}, by "
                f"{UNCHANGED_PROMPTS} prompts or more)",
            ),
        ),
        plots=tuple(overview_plots(facts)),
    )


def _about_the_intervals(facts: RunFacts) -> Iterator[str]:
    cases: dict[str, set[str]] = {}
    for block in facts.run.blocks:
        cases.setdefault(block.prompt_class, set()).add(block.case)
    few = [
        f"{name} ({len(class_cases)})"
        for name, class_cases in cases.items()
        if not are_drawn(class_cases)
    ]
    yield from looks_sentences(facts.run.result.looks)
    yield words.ABOUT["cost"]
    if few:
        yield words.ABOUT["these_cases"].format(classes=", ".join(few), many=MANY_CASES)


def _comparisons(comparisons: Sequence[Comparison]) -> tuple[Table, ...]:
    speedups = (f"{m.label} speedup" for m in definitions.with_speedup())
    return table(
        (
            *("class", "load", "variant", "verdict", f"cost of a token ({words.INTERVAL})"),
            *(*speedups, "prompts", "pairs"),
        ),
        map(_comparison_row, comparisons),
        names=4,
        title="Cost and speed beside the baseline",
    )


def _contexts(facts: RunFacts) -> Iterator[Table]:
    for context in facts.contexts:
        counts = sorted({r.concurrency for ladder in context.ladders for r in ladder.rungs})
        rows = (
            (
                *(context.traffic, variant, str(count)),
                *(_context_cell(ladder, variant, count) for ladder in context.ladders),
            )
            for variant in context.speculative
            for count in counts
        )
        lengths = (f"{ladder.input_tokens:,} input tokens" for ladder in context.ladders)
        headings = ("class", "variant", "at a time", *lengths)
        yield from table(headings, rows, names=3, title="Cost of a token by load and prompt length")


def _context_cell(ladder: Ladder, variant: str, concurrency: int) -> str:
    rungs = {rung.concurrency: rung.comparisons for rung in ladder.rungs}
    comparison = rungs.get(concurrency, {}).get(variant)
    if comparison is None:
        return words.MISSING
    return f"{_change_cell(comparison.cost_ratio)}, {comparison.judgement}"


def _goodputs(facts: RunFacts) -> tuple[Table, ...]:
    rows = (
        (
            *(g.traffic.name, g.traffic.load.cell, g.variant),
            *(words.number(g.requests_per_s, digits=2), words.number(g.tokens_per_s)),
            *(f"{g.kept} of {g.requests}", words.figure(COST, g.usd)),
        )
        for g in facts.goodputs
    )
    headings = ("class", "load", "variant", "goodput requests/s", "goodput tokens/s")
    kept = (*headings, "within the limits", "USD/M tokens")
    return table(kept, rows, names=3, title="Requests within the latency limits")


def _comparison_row(c: Comparison) -> tuple[str, ...]:
    speedups = (
        words.with_ends(words.ratio(speedup.value if speedup else None), words.interval(speedup))
        for speedup in map(c.speedups.get, definitions.with_speedup())
    )
    return (
        *(c.traffic.name, c.traffic.load.cell, c.name, c.judgement),
        *(_change_cell(c.cost_ratio), *speedups, str(c.prompts), str(c.pairs)),
    )


def _change_cell(ratio: Estimate | None) -> str:
    return words.with_ends(*words.change_cells(ratio))


def _ttft_cells(c: Comparison) -> tuple[str, ...]:
    return (
        _change_cell(c.ttft_ratio),
        _same_cell(c.ttft_unchanged, c.ttft_ratio),
        _change_cell(c.ttft_p95_ratio),
        _same_cell(c.ttft_p95_unchanged, c.ttft_p95_ratio),
    )


def _same_cell(is_unchanged: bool | None, ratio: Estimate | None) -> str:  # noqa: FBT001
    """Return whether a TTFT is the same: `yes`, `no`, or that this run does not show it."""
    return words.yes_or_no(is_unchanged, no="no" if differs(ratio) else "open")
