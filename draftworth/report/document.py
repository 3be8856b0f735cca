"""The report as a document: sections of sentences, tables and plots, before any format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from draftworth.analysis.facts import LATENCIES, TAIL_SHARES, GroupFacts, RunFacts, VariantFacts
from draftworth.analysis.outputs import Divergence
from draftworth.analysis.statistics import Estimate
from draftworth.report.against import Change, sentence
from draftworth.report.drawing import Plot
from draftworth.report.plots import group_plots, overview_plots
from draftworth.report.sentences import TRAFFIC_MIX, missing_requests, mix_sentences
from draftworth.report.spending import (
    ABOUT_COSTS,
    INTERRUPTION_HEADINGS,
    SPENDING_HEADINGS,
    interruption_count,
    interruption_rows,
    spending_rows,
    spending_sentences,
)
from draftworth.report.words import (
    MISSING,
    interval,
    milliseconds,
    number,
    ratio,
    share,
    with_interval_ms,
)

MOST_DIVERGENCES = 10
WHY_LLMPERF_DIFFERS = (
    "llmperf divides a request's time by its chunks, not its tokens: a speculative step sends "
    "several tokens in one chunk, so llmperf's inter-token latency is the time of a step and hides "
    "what speculation saves."
)
ABOUT_MEDIANS = (
    "Medians over requests; throughput over whole blocks. Latencies are measured at the client; "
    "tokens are the server's own count."
)
ABOUT_TAILS = (
    "Tails in milliseconds, with 95% intervals that take prompts, not requests, as independent; a "
    "tail without an interval has too few prompts."
)
ABOUT_SECOND_OPINIONS = (
    "Where the server has histograms of its own, and counters of accepted tokens, they are "
    "compared with what the client saw. Break-even is the tokens a step must yield to be no slower "
    "than the baseline."
)
ABOUT_OUTPUTS = (
    "At temperature 0 speculation should not change the output; numerics may differ in the last "
    "bits. Texts are compared character by character; where they part is told in output tokens, by "
    "the baseline's chunks."
)


@dataclass(frozen=True, kw_only=True)
class Table:
    """Texts in rows; the first `names` columns are names, the others numbers."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    names: int


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of the report."""

    title: str
    paragraphs: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    plots: tuple[Plot, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Card:
    """One judgement at a glance."""

    label: str
    judgement: str
    speedup: str
    interval: str


@dataclass(frozen=True, kw_only=True)
class Document:
    """A whole report."""

    title: str
    facts: tuple[tuple[str, str], ...]
    attention: tuple[str, ...]
    cards: tuple[Card, ...]
    sections: tuple[Section, ...]

    @property
    def plots(self) -> tuple[Plot, ...]:
        """All plots in order."""
        return tuple(plot for section in self.sections for plot in section.plots)


def document_of(facts: RunFacts, changes: Sequence[Change] = (), other_run: str = "") -> Document:
    """The report of a run, with another run beside it when there are changes to tell."""
    sections = [_verdict(facts)]
    if changes:
        sections.append(_against(changes, facts.run.result.run_id, other_run))
    sections += [_figures(facts), *_groups(facts), _second_opinions(facts), _outputs(facts)]
    sections.append(_spending(facts))
    return Document(
        title=f"{facts.run.result.experiment}: does speculation pay?",
        facts=tuple(_header(facts)),
        attention=facts.attention,
        cards=tuple(_cards(facts)),
        sections=tuple(sections),
    )


def _header(facts: RunFacts) -> Iterator[tuple[str, str]]:
    result = facts.run.result
    records = [r for v in facts.variants for r in v.records]
    failed = sum(r.failed for r in records)
    excluded = sum(r.excluded is not None for r in records)
    reason = f" ({result.reason})" if result.reason else ""
    models = dict.fromkeys(b.model for b in facts.run.blocks)
    yield "run", result.run_id
    yield "status", f"{result.status}{reason}"
    yield "model", ", ".join(models) or MISSING
    yield "measured", _period(result.started_at_unix_s, result.ended_at_unix_s)
    yield (
        "requests",
        f"{len(records)}, {failed} failed, {excluded} excluded (client was descheduled)",
    )
    yield "interruptions", interruption_count(result)
    yield "load generator", result.load_generator or MISSING
    yield "client scheduling", result.scheduling
    if price := result.price:
        hourly = f"{price.usd_per_node_hour:.2f} USD a node hour"
        yield "price", f"{hourly} ({price.source}, {price.as_of})"


def _period(start: float, end: float) -> str:
    moment = datetime.fromtimestamp(start, UTC)
    return f"{moment:%Y-%m-%d %H:%M} UTC, {(end - start) / 60:.1f} min"


def _cards(facts: RunFacts) -> Iterator[Card]:
    for mix in facts.mixes:
        label = f"{TRAFFIC_MIX} at {mix.load.label}, {mix.variant}"
        yield _card(label, mix.judgement, mix.speedup)
    for variant in facts.speculative:
        if comparison := variant.comparison:
            yield _card(variant.label, comparison.judgement, comparison.itl_speedup)


def _card(label: str, judgement: str, speedup: Estimate | None) -> Card:
    ends = interval(speedup)
    return Card(
        label=label,
        judgement=judgement,
        speedup=ratio(speedup),
        interval="no interval" if ends == MISSING else f"95%: {ends}",
    )


def _verdict(facts: RunFacts) -> Section:
    compared = [(v, c) for v in facts.speculative if (c := v.comparison)]
    sentences = [
        *mix_sentences(facts),
        *(
            f"{v.label}: {c.judgement}; {c.reason}.{missing_requests(facts, v)}"
            for v, c in compared
        ),
    ]
    if not compared:
        sentences.append("The run has no speculative variant beside its baseline: no verdict.")
    speedups = [
        (
            *_names(v),
            c.judgement,
            *(ratio(c.itl_speedup), interval(c.itl_speedup)),
            *(ratio(c.e2e_speedup), interval(c.e2e_speedup)),
            str(c.itl_speedup.prompts if c.itl_speedup else 0),
            str(c.pairs),
        )
        for v, c in compared
    ]
    headings = ("ITL speedup", "95% interval", "E2E speedup", "95% interval", "prompts", "pairs")
    return Section(
        title="Verdict",
        paragraphs=tuple(sentences),
        tables=(
            *_mix_table(facts),
            *_tables(("class", "load", "variant", "verdict", *headings), speedups, names=4),
            *_rows_of(
                facts.speculative,
                ("TTFT difference, ms", "90% interval", "shown to be unchanged"),
                _ttft_cells,
            ),
        ),
        plots=tuple(overview_plots(facts)),
    )


def _mix_table(facts: RunFacts) -> tuple[Table, ...]:
    rows = [
        (
            *(TRAFFIC_MIX, mix.load.label, mix.variant, mix.judgement),
            *(ratio(mix.speedup), interval(mix.speedup)),
            number(mix.baseline_usd_per_million_output_tokens, digits=2),
            number(mix.variant_usd_per_million_output_tokens, digits=2),
            share(mix.saving_share),
        )
        for mix in facts.mixes
    ]
    headings = ("ITL speedup", "95% interval", "baseline USD/M tokens", "variant's", "saving")
    return _tables(("class", "load", "variant", "verdict", *headings), rows, names=4)


def _ttft_cells(variant: VariantFacts) -> tuple[str, str, str]:
    comparison = variant.comparison
    difference = comparison.ttft_difference_s if comparison else None
    if comparison is None or difference is None:
        return MISSING, MISSING, "inconclusive"
    words = {True: "yes", False: "no", None: "inconclusive"}
    return (
        f"{difference.value * 1e3:+.1f}",
        interval(difference, scale=1e3, digits=1),
        words[comparison.ttft_unchanged],
    )


def _names(variant: VariantFacts) -> tuple[str, str, str]:
    group = variant.summary.group
    return group.prompt_class, group.load.label, variant.name


def _tables(
    headings: tuple[str, ...], rows: Sequence[tuple[str, ...]], *, names: int
) -> tuple[Table, ...]:
    return (Table(headings=headings, rows=tuple(rows), names=names),) if rows else ()


def _against(changes: Sequence[Change], run: str, other: str) -> Section:
    rows = [
        (
            change.label,
            ratio(change.speedup),
            interval(change.speedup),
            ratio(change.other_speedup),
            interval(change.other_speedup),
            number(change.difference, digits=2),
            {True: "yes", False: "no", None: MISSING}[change.overlap],
            milliseconds(change.baseline_itl_s, digits=2),
            milliseconds(change.other_baseline_itl_s, digits=2),
        )
        for change in changes
    ]
    headings = ("group and variant", "ITL speedup", "95% interval", "other's", "95% interval")
    more = ("difference", "overlap", "baseline ITL ms", "other's")
    return Section(
        title="Against another run",
        paragraphs=(
            f"This run is {run}, the other one is {other}.",
            *(sentence(change) for change in changes),
        ),
        tables=_tables((*headings, *more), rows, names=1),
    )


def _figures(facts: RunFacts) -> Section:
    medians = [_median_row(v) for v in facts.variants]
    headings = ("n", "failed", "excluded", "ITL ms", "TTFT ms", "E2E ms", "tokens/s", "tokens/step")
    tails = [
        (*_names(v), name, *(with_interval_ms(v.tails.get((field, s))) for s in TAIL_SHARES))
        for v in facts.variants
        for field, name in LATENCIES.items()
    ]
    return Section(
        title="Figures",
        paragraphs=(
            ABOUT_MEDIANS,
            ABOUT_TAILS,
        ),
        tables=(
            *_tables(
                ("class", "load", "variant", *headings, "acceptance", "USD/M tokens"),
                medians,
                names=3,
            ),
            *_tables(
                ("class", "load", "variant", "ms", *(f"p{100 * s:g}" for s in TAIL_SHARES)),
                tails,
                names=4,
            ),
        ),
    )


def _median_row(variant: VariantFacts) -> tuple[str, ...]:
    figures = variant.summary
    itl, ttft, e2e = (
        None if estimate is None else estimate.value
        for estimate in (
            figures.inter_token_latency_s,
            figures.ttft_s,
            figures.end_to_end_latency_s,
        )
    )
    return (
        *_names(variant),
        str(figures.counted),
        str(figures.failed),
        str(figures.excluded),
        milliseconds(itl, digits=2),
        milliseconds(ttft),
        milliseconds(e2e),
        number(figures.output_throughput_token_per_s),
        number(figures.tokens_per_step, digits=2),
        variant.acceptance.text,
        number(figures.usd_per_million_output_tokens, digits=2),
    )


def _groups(facts: RunFacts) -> Iterator[Section]:
    for index, group in enumerate(facts.groups, start=1):
        plots = tuple(group_plots(facts, index, group))
        notes = []
        if not any(v.step_latencies_s for v in group.variants):
            notes.append("Step latencies are not shown: no transcript lies beside the results.")
        if group.speculative and not any(v.accepted_at for v in group.speculative):
            notes.append(
                "Acceptance by position is not shown: the server does not count it; acceptance "
                "rates are estimates from tokens per step."
            )
        yield Section(title=group.group.label, paragraphs=tuple(notes), plots=plots)


def _second_opinions(facts: RunFacts) -> Section:
    tables = (
        *_tables(
            (
                *("class", "load", "variant", "median ITL ms, ours", "llmperf's"),
                *("speedup of medians, ours", "llmperf's"),
            ),
            [row for g in facts.groups for v in g.variants for row in _llmperf_rows(g, v)],
            names=3,
        ),
        *_rows_of(
            facts.variants,
            ("requests", "mean ITL ms, ours", "the server's", "difference", "within 10%"),
            _server_row,
        ),
        *_rows_of(
            facts.speculative,
            ("acceptance, counted", "estimated from tokens per step", "within 5 points"),
            _acceptance_row,
        ),
        *_rows_of(
            facts.speculative,
            ("step ms", "tokens/step", "break-even", "most", "predicted ITL speedup"),
            _break_even_row,
        ),
    )
    return Section(
        title="Second opinions",
        paragraphs=(
            f"What llmperf would have said: {WHY_LLMPERF_DIFFERS}",
            ABOUT_SECOND_OPINIONS,
        ),
        tables=tables,
    )


def _rows_of(
    variants: Sequence[VariantFacts],
    headings: tuple[str, ...],
    row: Callable[[VariantFacts], tuple[str, ...] | None],
) -> tuple[Table, ...]:
    told = [(v, row(v)) for v in variants]
    rows = [(*_names(v), *cells) for v, cells in told if cells]
    return _tables(("class", "load", "variant", *headings), rows, names=3)


def _llmperf_rows(group: GroupFacts, variant: VariantFacts) -> Iterator[tuple[str, ...]]:
    view, plain = variant.llmperf, group.baseline.llmperf
    if view is None:
        return
    speedups = (MISSING, MISSING)
    if plain and variant is not group.baseline and view.ours_s and view.llmperf_s:
        speedups = (
            f"{plain.ours_s / view.ours_s:.2f}x",
            f"{plain.llmperf_s / view.llmperf_s:.2f}x",
        )
    yield (
        *_names(variant),
        milliseconds(view.ours_s, digits=2),
        milliseconds(view.llmperf_s, digits=2),
        *speedups,
    )


def _server_row(variant: VariantFacts) -> tuple[str, ...] | None:
    check = variant.server
    if check is None:
        return None
    return (
        str(check.requests),
        milliseconds(check.ours_s, digits=2),
        milliseconds(check.server_s, digits=2),
        f"{check.difference:+.1%}",
        "yes" if check.agrees else "NO",
    )


def _acceptance_row(variant: VariantFacts) -> tuple[str, ...]:
    check = variant.acceptance
    words = {True: "yes", False: "NO", None: MISSING}
    return share(check.counted), share(check.estimated), words[check.agrees]


def _break_even_row(variant: VariantFacts) -> tuple[str, ...] | None:
    figures = variant.break_even
    if figures is None:
        return None
    return (
        milliseconds(figures.step_s, digits=2),
        number(figures.tokens_per_step, digits=2),
        number(figures.needed, digits=2),
        str(figures.most),
        f"{figures.tokens_per_step / figures.needed:.2f}x",
    )


def _outputs(facts: RunFacts) -> Section:
    rows = [
        (*_names(v), f"{c.identical_outputs} of {c.pairs}", share(c.identical_share), *_parted(v))
        for v in facts.speculative
        if (c := v.comparison)
    ]
    examples = [
        (*_names(v), d.prompt, _token(d), str(d.character), d.baseline_goes_on, d.variant_goes_on)
        for v in facts.speculative
        for d in v.divergences[:MOST_DIVERGENCES]
    ]
    headings = ("identical", "share", "parted after tokens, fewest", "median", "texts compared")
    return Section(
        title="Greedy outputs",
        paragraphs=(ABOUT_OUTPUTS,),
        tables=(
            *_tables(("class", "load", "variant", *headings), rows, names=3),
            *_tables(
                (
                    *("class", "load", "variant", "prompt", "token", "character"),
                    *("the baseline goes on", "the variant goes on"),
                ),
                examples,
                names=4,
            ),
        ),
    )


def _spending(facts: RunFacts) -> Section:
    result = facts.run.result
    about = (ABOUT_COSTS,) if result.price else ()
    return Section(
        title="Time and cost of the run",
        paragraphs=(*spending_sentences(result), *about),
        tables=(
            *_tables(SPENDING_HEADINGS, spending_rows(result), names=1),
            *_tables(INTERRUPTION_HEADINGS, interruption_rows(result), names=4),
        ),
    )


def _parted(variant: VariantFacts) -> tuple[str, str, str]:
    """Fewest and median tokens before the divergence; differing pairs whose texts are there."""
    tokens = [d.token for d in variant.divergences if d.token is not None]
    comparison = variant.comparison
    differing = comparison.pairs - comparison.identical_outputs if comparison else 0
    compared = f"{len(variant.divergences)} of {differing}"
    if not tokens:
        return MISSING, MISSING, compared
    return str(min(tokens)), str(sorted(tokens)[len(tokens) // 2]), compared


def _token(divergence: Divergence) -> str:
    return MISSING if divergence.token is None else str(divergence.token)
