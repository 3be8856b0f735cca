"""The report's CSV files, for a notebook: figures in long form, and every request as recorded.

Names of figures and columns contain the units. An empty cell is a figure that was not measured.
Names and error messages are untrusted: a text that a spreadsheet would read as a formula gets an
apostrophe at its start, and control characters are escaped.
"""

import csv
import io
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields

from draftworth.analysis.costs import run_parts
from draftworth.analysis.pairing import TRAFFIC_MIX
from draftworth.analysis.statistics import CONFIDENCE, Estimate
from draftworth.analysis.summary import output_lengths
from draftworth.decision.facts import RunFacts, VariantFacts
from draftworth.decision.verdict import Comparison
from draftworth.metrics import definitions
from draftworth.metrics.steps import step_counting
from draftworth.records.load_shapes import Load
from draftworth.records.results import BlockResult, RequestRecord
from draftworth.records.search_result import SearchResult
from draftworth.speculation import explained_acceptance
from draftworth.untrusted import printable

Cell = str | int | float | None
Row = Mapping[str, Cell]

FIGURE_COLUMNS = (
    *("prompt_class", "load", "variant", "figure", "value", "low", "high"),
    *("confidence", "prompts", "blocks", "repetitions", "samples"),
)
_CONTEXT = (
    *("run_id", "experiment", "variant", "prompt_class", "case", "load", "repetition", "slot"),
    *("round", "block"),
)
REQUEST_COLUMNS = (*_CONTEXT, *(field.name for field in fields(RequestRecord)))
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def requests_csv(blocks: Sequence[BlockResult]) -> str:
    """Return requests.csv: for each request, what identifies its block, and what was measured.

    A request's tokens per step are counted as in the report's figures. The cell is empty if the
    server's counters show the steps of whole blocks only.
    """
    return _csv(REQUEST_COLUMNS, _request_rows(blocks))


def _request_rows(blocks: Sequence[BlockResult]) -> Iterator[Row]:
    together: defaultdict[tuple[str, Load, str], list[BlockResult]] = defaultdict(list)
    for block in blocks:
        together[block.prompt_class, block.load, block.variant].append(block)
    counts = {place: step_counting(of_place) for place, of_place in together.items()}
    for block in blocks:
        count = counts[block.prompt_class, block.load, block.variant]
        context = {name: getattr(block, name) for name in _CONTEXT}
        for record in block.requests:
            cells = {**vars(record), **context, "load": block.load.label}
            yield cells | {"tokens_per_step": count.tokens_per_step(record) if count else None}


def figures_csv(facts: RunFacts) -> str:
    """Return figures.csv, one row for each figure; figures of the whole run lack class and load."""
    return _csv(FIGURE_COLUMNS, figure_rows(facts))


def figure_rows(facts: RunFacts) -> Iterator[Row]:
    """Yield the rows of figures.csv, each as cells by column; a row may lack columns."""
    for variant in facts.variants:
        group = variant.summary.group
        who = _group_cells(group.prompt_class, group.load.label, variant.name)
        yield from ({**who, **row} for row in _variant_rows(variant))
    if facts.run.search and facts.run.search.best:
        yield _best_window(facts, facts.run.search)
    for mix in facts.mixes:
        who = _group_cells(TRAFFIC_MIX, mix.traffic.load.label, mix.name)
        yield from ({**who, **row} for row in _comparison_rows(mix))
    for r in facts.repetitions:
        name = f"cost_ratio_in_{r.run_id}/{r.repetition}"
        yield {**_group_cells(r.traffic, r.load, r.variant), **_estimated(name, r.cost_ratio)}
    for part in run_parts(facts.run.result):
        yield {"figure": f"run_{part.name}_s", "value": part.seconds}
        yield {"figure": f"run_{part.name}_usd", "value": part.usd}
    yield {"figure": "run_interruptions", "value": len(facts.run.result.interruptions)}


def _best_window(facts: RunFacts, search: SearchResult) -> Row:
    """Return the row of figures.csv for a search's best window.

    The row's interval is from the smallest to the largest window of the same draft whose cost may
    be as low: the low end of its cost interval is at most the high end of the best window's.
    """
    best = search.search.candidate(search.best)
    candidates = (
        (search.search.candidate(result.variant), result.cost) for result in search.results
    )
    costs = {
        candidate.window: cost for candidate, cost in candidates if candidate.draft == best.draft
    }
    possible = [window for window, cost in costs.items() if cost.low <= costs[best.window].high]
    traffic = TRAFFIC_MIX if facts.mixes else facts.groups[0].group.prompt_class
    ends = {"value": best.window, "low": min(possible), "high": max(possible)}
    return {**_group_cells(traffic, search.load, search.best), "figure": "best_window", **ends}


def _group_cells(prompt_class: str, load: str, variant: str) -> Row:
    return {"prompt_class": prompt_class, "load": load, "variant": variant}


def _estimated(name: str, figure: Estimate | None) -> Row:
    if figure is None:
        return {"figure": name}
    columns = {key: value for key, value in vars(figure).items() if key in FIGURE_COLUMNS}
    return {"figure": name, **columns, "confidence": CONFIDENCE}


def _variant_rows(variant: VariantFacts) -> Iterator[Row]:
    for (metric, share), figure in variant.quantiles.items():
        name = "mean" if share is None else f"p{100 * share:g}"
        row = _estimated(f"{metric.field}_{name}", figure)
        yield row
        if metric is definitions.TOKENS_PER_STEP and variant.acceptance.whole_windows:
            most, ends = variant.acceptance.most, ("value", "low", "high")
            rates = {end: explained_acceptance(getattr(figure, end), most=most) for end in ends}
            yield {**row, "figure": f"acceptance_rate_{name}", **rates}
    for name, value in _plain_figures(variant):
        yield {"figure": name, "value": value, "samples": variant.summary.counted}
    if comparison := variant.comparison:
        yield from _comparison_rows(comparison)
        if shipped := variant.against_shipped:
            yield _estimated("cost_ratio_against_as_shipped", shipped.cost_ratio)


def _comparison_rows(comparison: Comparison) -> Iterator[Row]:
    yield _estimated("cost_ratio", comparison.cost_ratio)
    if comparison.floor:
        yield _estimated("cost_ratio_of_control", comparison.floor)
    for metric, speedup in comparison.speedups.items():
        yield _estimated(f"{metric.label.lower()}_speedup", speedup)
    yield _estimated("ttft_ratio", comparison.ttft_ratio)
    yield _estimated("ttft_p95_ratio", comparison.ttft_p95_ratio)
    judged = {"figure": "judgement", "value": comparison.judgement}
    yield {**judged, "samples": comparison.pairs}


def _plain_figures(variant: VariantFacts) -> Iterator[tuple[str, Cell]]:
    summary, server = variant.summary, variant.server
    yield "requests", summary.requests
    yield "failed", summary.failed
    yield "excluded", summary.excluded
    with_quantiles = {metric for metric, _ in variant.quantiles}
    for metric in definitions.METRICS:
        if (metric.pooled or metric not in with_quantiles) and not metric.every_request:
            name = metric.field if metric.pooled else f"{metric.field}_p50"
            yield name, summary.value(metric)
    if lengths := output_lengths(variant.records):
        yield "output_tokens_fewest", lengths.fewest
        yield "output_tokens_median", lengths.median
        yield "output_tokens_most", lengths.most
        for reason, count in lengths.ends.items():
            yield f"ended_by_{reason}", count
    yield "server_time_per_output_token_s_mean", server.server_s if server else None
    if variant.break_even:
        yield "step_latency_s_p50", variant.break_even.step_s
        yield "break_even_by_medians", variant.break_even.needed
    if variant.comparison:
        yield "identical_output_share", variant.comparison.identical_share
    for position, accepted in enumerate(variant.accepted_at, start=1):
        yield f"accepted_share_position_{position}", accepted


def _csv(columns: Sequence[str], rows: Iterable[Row]) -> str:
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _safe(cell) for name, cell in row.items()} for row in rows)
    return buffer.getvalue()


def _safe(cell: Cell) -> Cell:
    if not isinstance(cell, str):
        return cell
    text = printable(cell)
    return f"'{text}" if cell.startswith(_FORMULA_STARTS) else text
