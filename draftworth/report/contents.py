"""What a report says: its header, the verdict, another run beside it, and where time and cost went.

Tables of figures and cross-checks are in `figures`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from draftworth.analysis import metrics
from draftworth.analysis.answer import NO_COMPARISON, findings, rate_sentences, reach_sentences
from draftworth.analysis.attention import attention_of
from draftworth.analysis.costs import run_parts, total
from draftworth.analysis.facts import RunFacts, VariantFacts
from draftworth.analysis.goodput import Goodput
from draftworth.analysis.ladder import Ladder
from draftworth.analysis.metrics import COST
from draftworth.analysis.metrics import INTER_TOKEN_LATENCY as ITL
from draftworth.analysis.pairing import MANY_CASES
from draftworth.analysis.run_comparison import Across, Change
from draftworth.analysis.scores import ScoreComparison
from draftworth.analysis.statistics import CONFIDENCE
from draftworth.analysis.summary import Group
from draftworth.analysis.verdict import TTFT_CONFIDENCE, Comparison
from draftworth.records.results import AS_SHIPPED, RUN_FILE, Interruption, RunResult, ServerStart
from draftworth.report.document import Card, Document, Section, Table, table, variant_table
from draftworth.report.figures import cross_checks, figures, outputs, quantiles, score_sections
from draftworth.report.plots import group_plots, overview_plots
from draftworth.report.repetitions import control_tables, repetition_sections
from draftworth.report.words import (
    ABOUT,
    INTERVAL,
    MISSING,
    TONES,
    change,
    change_interval,
    figure,
    number,
    ratio_and_interval,
    share,
    yes_or_no,
)
from draftworth.untrusted import one_line

PART_NAMES = {
    "measuring": "measuring (with warm-ups)",
    "waiting": "waiting for servers (image pull, load, compile)",
    "lost": "lost to interruptions",
    "idle": "idle between blocks",
}


def document_of(
    facts: RunFacts,
    changes: Sequence[Change] = (),
    other_run: str = "",
    *,
    scores: Sequence[ScoreComparison] = (),
    elsewhere: Sequence[Across] = (),
) -> Document:
    """The report of a run, with another run beside it when there are changes."""
    result = facts.run.result
    sections = [_verdict(facts), *repetition_sections(facts)]
    if changes:
        sections.append(_against(changes, result.run_id, other_run))
    if elsewhere:
        sections.append(_elsewhere(elsewhere, result.run_id, other_run))
    sections += [figures(facts), quantiles(facts), *_groups(facts), cross_checks(facts)]
    sections += [*outputs(facts), *score_sections(scores), _spending(result)]
    return Document(
        title=f"{result.experiment}: does speculation pay?",
        facts=tuple(_header(facts)),
        attention=(*_unlisted(facts.run.unlisted), *attention_of(facts)),
        cards=tuple(_cards(facts)),
        sections=tuple(sections),
    )


def _unlisted(names: Sequence[str]) -> Iterator[str]:
    if names:
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        yield (
            f"{len(names)} result files beside the run's are not in its {RUN_FILE} and not used: "
            f"{', '.join(one_line(name, characters=80) for name in names[:3])}{more}."
        )


def _header(facts: RunFacts) -> Iterator[tuple[str, str]]:
    result = facts.run.result
    start = datetime.fromtimestamp(result.started_at_unix_s, UTC)
    seconds = result.ended_at_unix_s - result.started_at_unix_s
    minutes = (total(run_parts(result)).seconds if facts.run.is_pool else seconds) / 60
    requests, failed, excluded = (
        sum(getattr(v.summary, name) for v in facts.variants)
        for name in ("requests", "failed", "excluded")
    )
    models = dict.fromkeys(b.model for b in facts.run.blocks)
    yield "run", result.run_id
    yield "status", f"{result.status} ({result.reason})" if result.reason else result.status
    yield "model", ", ".join(models) or MISSING
    first = "first run started " if facts.run.is_pool else ""
    yield "measured", f"{first}{start:%Y-%m-%d %H:%M} UTC, {minutes:.1f} min"
    yield "requests", f"{requests}, {failed} failed, {excluded} excluded (client was descheduled)"
    yield "interruptions", _interruption_count(result)
    if result.temperature:
        yield "sampling", f"temperature {result.temperature:g}"
    yield "load generator", result.load_generator or MISSING
    yield "client scheduling", result.scheduling
    if price := result.price:
        hourly = f"{price.usd_per_node_hour:.2f} USD a node hour"
        yield "price", f"{hourly} ({price.source}, {price.as_of})"


def _cards(facts: RunFacts) -> Iterator[Card]:
    for c in (*facts.mixes, *(c for _, c in _compared(facts))):
        if c.variant == AS_SHIPPED:
            continue
        ends = change_interval(c.cost_ratio)
        yield Card(
            label=f"{c.traffic.label}, {c.name}",
            judgement=c.judgement,
            tone=TONES.get(c.judgement, "open"),
            value=change(c.cost_ratio),
            interval="no interval" if ends == MISSING else f"{CONFIDENCE:.0%}: {ends}",
        )


def _compared(facts: RunFacts) -> list[tuple[VariantFacts, Comparison]]:
    return [(v, v.comparison) for v in facts.speculative if v.comparison]


def _against_shipped(facts: RunFacts) -> list[tuple[VariantFacts, Comparison]]:
    return [(v, v.against_shipped) for v in facts.speculative if v.against_shipped]


def _verdict(facts: RunFacts) -> Section:
    compared = _compared(facts)
    sentences = [finding.sentence for finding in findings(facts)]
    if _against_shipped(facts):
        sentences.append(ABOUT["as_shipped"].format(name=AS_SHIPPED))
    if not compared:
        sentences = [NO_COMPARISON]
    else:
        sentences += [*reach_sentences(facts), *rate_sentences(facts), *_spoken_of(facts)]
    return Section(
        title="Verdict",
        paragraphs=tuple(sentences),
        tables=(
            *_comparisons(facts),
            *_contexts(facts),
            *_goodputs(facts),
            *control_tables(facts),
            *variant_table(
                (
                    *("TTFT, typical", f"{TTFT_CONFIDENCE:.0%} interval", "unchanged"),
                    *("TTFT p95", f"{TTFT_CONFIDENCE:.0%} interval", "unchanged"),
                ),
                ((v, _ttft_cells(c)) for v, c in compared),
            ),
        ),
        plots=tuple(overview_plots(facts)),
        brief=True,
    )


def _spoken_of(facts: RunFacts) -> Iterator[str]:
    """Which prompts the intervals speak of."""
    cases: dict[str, set[str]] = {}
    for block in facts.run.blocks:
        cases.setdefault(block.prompt_class, set()).add(block.case)
    few = [f"{name} ({len(found)})" for name, found in cases.items() if len(found) < MANY_CASES]
    yield ABOUT["cost"]
    if few:
        yield ABOUT["these_cases"].format(classes=", ".join(few), many=MANY_CASES)


def _comparisons(facts: RunFacts) -> tuple[Table, ...]:
    """Of the traffic mix, and of every variant in every group."""
    rows = [
        _comparison_row(c)
        for c in (
            *facts.mixes,
            *(c for _, c in _compared(facts)),
            *(c for _, c in _against_shipped(facts)),
        )
    ]
    named = (m.label for m in metrics.with_speedup())
    headings = [text for label in named for text in (f"{label} speedup", INTERVAL)]
    return table(
        (
            *("class", "load", "variant", "verdict", "cost of a token", INTERVAL),
            *(*headings, "prompts", "pairs"),
        ),
        rows,
        names=4,
    )


def _contexts(facts: RunFacts) -> Iterator[Table]:
    """What a token costs by load and length of prompts."""
    for found in facts.contexts:
        counts = sorted({r.concurrency for ladder in found.ladders for r in ladder.rungs})
        rows = (
            (
                *(found.traffic, variant, str(count)),
                *(_context_cell(ladder, variant, count) for ladder in found.ladders),
            )
            for variant in found.speculative
            for count in counts
        )
        lengths = (f"{ladder.input_tokens:,} input tokens" for ladder in found.ladders)
        yield from table(("class", "variant", "in flight", *lengths), rows, names=3)


def _context_cell(ladder: Ladder, variant: str, concurrency: int) -> str:
    rungs = {rung.concurrency: rung.comparisons for rung in ladder.rungs}
    comparison = rungs.get(concurrency, {}).get(variant)
    if comparison is None:
        return MISSING
    ratio = comparison.cost_ratio
    return f"{change(ratio)} ({change_interval(ratio)}), {comparison.judgement}"


def _goodputs(facts: RunFacts) -> tuple[Table, ...]:
    """What keeps the limits, where there are some, and what a million tokens cost beside it."""
    costs = {(v.summary.group, v.name): v.value(COST) for v in facts.variants}
    rows = (
        (
            *(g.traffic.name, g.traffic.load.label, g.variant),
            *(number(g.requests_per_s, digits=2), number(g.tokens_per_s)),
            *(f"{g.kept} of {g.requests}", figure(COST, _cost_of(g, facts, costs))),
        )
        for g in facts.goodputs
    )
    headings = ("class", "load", "variant", "goodput requests/s", "goodput tokens/s")
    return table((*headings, "within the limits", "USD/M tokens"), rows, names=3)


def _cost_of(
    found: Goodput, facts: RunFacts, costs: Mapping[tuple[Group, str], float | None]
) -> float | None:
    if len(found.traffic.weights) == 1:
        return costs.get((found.traffic.groups[0], found.variant))
    for mix in facts.mixes:
        if mix.traffic == found.traffic and mix.baseline == facts.run.result.baseline:
            if found.variant == mix.baseline:
                return mix.baseline_usd
            if found.variant == mix.variant:
                return mix.variant_usd
    return None


def _comparison_row(c: Comparison) -> tuple[str, ...]:
    speedups = (
        cell for m in metrics.with_speedup() for cell in ratio_and_interval(c.speedups.get(m))
    )
    return (
        *(c.traffic.name, c.traffic.load.label, c.name, c.judgement),
        *(change(c.cost_ratio), change_interval(c.cost_ratio)),
        *(*speedups, str(c.prompts), str(c.pairs)),
    )


def _ttft_cells(c: Comparison) -> tuple[str, ...]:
    return (
        *(change(c.ttft_ratio), change_interval(c.ttft_ratio)),
        yes_or_no(c.ttft_unchanged, no="not shown"),
        *(change(c.ttft_p95_ratio), change_interval(c.ttft_p95_ratio)),
        yes_or_no(c.ttft_p95_unchanged, no="not shown"),
    )


def _against(changes: Sequence[Change], run: str, other: str) -> Section:
    headings = ("cost of a token", INTERVAL, "other's", INTERVAL, "this to other", INTERVAL)
    rows = (
        (
            c.label,
            *(change(c.cost_ratio), change_interval(c.cost_ratio)),
            *(change(c.other_cost_ratio), change_interval(c.other_cost_ratio)),
            *(change(c.ratio), change_interval(c.ratio)),
            figure(ITL, c.baseline_itl_s),
            figure(ITL, c.other_baseline_itl_s),
        )
        for c in changes
    )
    return Section(
        title="Against another run",
        paragraphs=(
            f"This run is {run}, the other one is {other}.",
            *(change_sentence(c) for c in changes),
            ABOUT["against"],
        ),
        tables=table(("group and variant", *headings, "baseline ITL ms", "other's"), rows, names=1),
        brief=True,
    )


def _elsewhere(found: Sequence[Across], run: str, other: str) -> Section:
    """Variants of this run beside those of a run of something else."""
    rows = (
        (
            *(a.group.prompt_class, a.group.load.label, a.variant, a.other_variant),
            *("cost" if a.is_cost else "seconds", change(a.ratio), change_interval(a.ratio)),
            *(figure(COST, usd) for usd in a.usd),
        )
        for a in found
    )
    headings = ("class", "load", "variant", "other's", "of a token", "this to other", INTERVAL)
    return Section(
        title="Against a run of something else",
        paragraphs=(f"This run is {run}, the other one is {other}.", ABOUT["elsewhere"]),
        tables=table((*headings, "USD/M tokens", "other's"), rows, names=5),
        brief=True,
    )


def change_sentence(change_: Change) -> str:
    """What two runs say about one variant."""
    words = {
        True: f"what speculation changes has changed, by {change_interval(change_.ratio)}",
        False: f"no difference is shown ({change_interval(change_.ratio)})",
        None: "there is no interval to compare by",
    }
    return f"{change_.label}: {words[change_.is_shown]}."


def _groups(facts: RunFacts) -> Iterator[Section]:
    for index, group in enumerate(facts.groups, start=1):
        notes = []
        if not any(v.step_latencies_s for v in group.variants):
            notes.append(ABOUT["no_transcripts"])
        if group.speculative and not any(v.accepted_at for v in group.speculative):
            notes.append(ABOUT["no_counters"])
        plots = tuple(group_plots(facts, index, group))
        yield Section(title=group.group.label, paragraphs=tuple(notes), plots=plots)


def _spending(run: RunResult) -> Section:
    parts = run_parts(run)
    everything = total(parts)
    paid = ""
    if run.price:
        nodes = f"{run.price.nodes} node{'s' * (run.price.nodes != 1)}"
        hourly = f"{run.price.usd_per_node_hour:.2f} USD an hour"
        paid = f" on {nodes} at {hourly}: {everything.usd:.2f} USD"
    sentences = [f"The run took {everything.seconds / 60:.1f} min{paid}."]
    if run.interruptions:
        lost = "nothing of what was lost is in any figure"
        sentences.append(f"Interrupted {_interruption_count(run)}; {lost}.")
    if run.price:
        sentences.append(ABOUT["costs"])
    rows = (
        (
            PART_NAMES.get(part.name, part.name),
            number(part.seconds / 60),
            share(part.seconds / everything.seconds if everything.seconds else None),
            number(part.usd, digits=2),
        )
        for part in (*parts, everything)
    )
    return Section(
        title="Time and cost of the run",
        paragraphs=tuple(sentences),
        tables=(
            *table(("the run's time went into", "minutes", "share", "USD"), rows, names=1),
            *table(
                ("interrupted", "what was lost", "blocks", "why", "minutes lost"),
                (_interruption_cells(interruption) for interruption in run.interruptions),
                names=4,
            ),
            *table(
                ("server of", "start min", "graphs", "compiling min", "weights s", "weights GiB"),
                (_start_cells(name, start) for name, start in run.server_starts.items()),
                names=1,
            ),
        ),
        brief=bool(run.price or run.interruptions),
    )


def _start_cells(variant: str, start: ServerStart) -> tuple[str, ...]:
    startup, compiling = (
        s if s is None else s / 60 for s in (start.startup_s, start.compilation_s)
    )
    gib = start.load_bytes if start.load_bytes is None else start.load_bytes / 2**30
    graphs = number(start.graphs, digits=0)
    return variant, number(startup), graphs, number(compiling), number(start.load_s), number(gib)


def _interruption_count(run: RunResult) -> str:
    """`3 times (servers 2, load generator 1)`, or `none`."""
    kinds = [interruption.kind for interruption in run.interruptions]
    if not kinds:
        return "none"
    times = "once" if len(kinds) == 1 else f"{len(kinds)} times"
    return f"{times} ({', '.join(f'{k} {kinds.count(k)}' for k in dict.fromkeys(kinds))})"


def _interruption_cells(interruption: Interruption) -> tuple[str, ...]:
    moment = datetime.fromtimestamp(interruption.at_unix_s, UTC)
    return (
        f"{moment:%Y-%m-%d %H:%M:%S} UTC",
        interruption.kind,
        ", ".join(interruption.blocks) or MISSING,
        interruption.reason,
        number(interruption.lost_s / 60),
    )
