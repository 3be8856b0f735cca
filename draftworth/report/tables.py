"""The report's CSV files, for a notebook: figures in long form, and every request as recorded.

Units are in the names. An empty cell is a figure that was not measured. A text that a spreadsheet
would take for a formula begins with an apostrophe: names and error messages are not ours.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields

from draftworth.analysis import metrics
from draftworth.analysis.costs import run_parts
from draftworth.analysis.facts import RunFacts, VariantFacts
from draftworth.analysis.mix import MixVerdict
from draftworth.analysis.statistics import CONFIDENCE, Estimate
from draftworth.analysis.verdict import TTFT_CONFIDENCE
from draftworth.records.results import BlockResult, RequestRecord, RunResult
from draftworth.report.words import TRAFFIC_MIX

Cell = str | int | float | None

FIGURE_COLUMNS = (
    *("prompt_class", "load", "variant", "figure", "value", "low", "high"),
    *("confidence", "prompts", "samples"),
)
_CONTEXT = ("run_id", "experiment", "variant", "prompt_class", "case", "load", "round", "block")
_RECORD_FIELDS = tuple(field.name for field in fields(RequestRecord))
REQUEST_COLUMNS = (*_CONTEXT, *_RECORD_FIELDS)
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def figures_csv(facts: RunFacts) -> str:
    """One row a figure."""
    rows = [row for variant in facts.variants for row in _variant_rows(variant)]
    rows += [row for mix in facts.mixes for row in _mix_rows(mix)]
    rows += _run_rows(facts.run.result)
    return _csv(FIGURE_COLUMNS, rows)


def _mix_rows(mix: MixVerdict) -> Iterator[tuple[Cell, ...]]:
    who = (TRAFFIC_MIX, mix.load.label, mix.variant)
    yield (*who, "itl_speedup", *_estimate_cells(mix.speedup))
    yield (*who, "judgement", mix.judgement, *(None,) * 5)
    yield (*who, "saving_share", mix.saving_share, *(None,) * 5)


def _run_rows(run: RunResult) -> Iterator[tuple[Cell, ...]]:
    """Of the run as a whole: no class, load or variant."""
    for part in run_parts(run):
        yield (None, None, None, f"run_{part.name}_s", part.seconds, *(None,) * 5)
        yield (None, None, None, f"run_{part.name}_usd", part.usd, *(None,) * 5)
    yield (None, None, None, "run_interruptions", len(run.interruptions), *(None,) * 5)


def requests_csv(blocks: Sequence[BlockResult]) -> str:
    """One row a request, with its block's context and every field of its record."""
    rows = (
        (
            *(block.run_id, block.experiment, block.variant, block.prompt_class, block.case),
            *(block.load.label, block.round, block.block),
            *(getattr(record, name) for name in _RECORD_FIELDS),
        )
        for block in blocks
        for record in block.requests
    )
    return _csv(REQUEST_COLUMNS, rows)


def _variant_rows(variant: VariantFacts) -> Iterator[tuple[Cell, ...]]:
    summary = variant.summary
    who = (summary.group.prompt_class, summary.group.load.label, summary.variant)
    for (metric, share), figure in variant.quantiles.items():
        yield (*who, f"{metric.field}_p{100 * share:g}", *_estimate_cells(figure))
    for name, value in _plain_figures(variant):
        yield (*who, name, value, None, None, None, None, summary.counted)
    if comparison := variant.comparison:
        for metric, speedup in comparison.speedups.items():
            yield (*who, f"{metric.label.lower()}_speedup", *_estimate_cells(speedup))
        difference = _estimate_cells(comparison.ttft_difference_s, TTFT_CONFIDENCE)
        yield (*who, "ttft_difference_s", *difference)
        yield (*who, "judgement", comparison.judgement, *(None,) * 4, comparison.pairs)


def _plain_figures(variant: VariantFacts) -> Iterator[tuple[str, Cell]]:
    summary, server = variant.summary, variant.server
    yield "requests", summary.requests
    yield "failed", summary.failed
    yield "excluded", summary.excluded
    with_quantiles = {metric for metric, _ in variant.quantiles}
    for metric in metrics.METRICS:
        if metric not in with_quantiles and not metric.every_request:
            name = metric.field if metric.pooled else f"{metric.field}_p50"
            yield name, summary.value(metric)
    yield "acceptance_rate_estimated", variant.acceptance.estimated
    yield "server_time_per_output_token_s_mean", server.server_s if server else None
    if variant.break_even:
        yield "step_latency_s_p50", variant.break_even.step_s
        yield "break_even_tokens_per_step", variant.break_even.needed
    if variant.comparison:
        yield "identical_output_share", variant.comparison.identical_share
    for position, accepted in enumerate(variant.accepted_at, start=1):
        yield f"accepted_share_position_{position}", accepted


def _estimate_cells(figure: Estimate | None, confidence: float = CONFIDENCE) -> tuple[Cell, ...]:
    if figure is None:
        return (None,) * 6
    return figure.value, figure.low, figure.high, confidence, figure.prompts, figure.samples


def _csv(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_safe(cell) for cell in row] for row in rows)
    return buffer.getvalue()


def _safe(cell: Cell) -> Cell:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA_STARTS) else cell
