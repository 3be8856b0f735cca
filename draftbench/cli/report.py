"""`draftbench report`: the verdict of a run, as tables in the terminal."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from draftbench.reading import Run, read_run
from draftbench.statistics import Estimate
from draftbench.verdict import (
    MIN_IDENTICAL_SHARE,
    Comparison,
    VariantSummary,
    compare,
    groups_of,
    summarize,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The run's folder."""
    parser.add_argument("run", type=Path, help="folder of one run (it holds run.json)")


def run(arguments: argparse.Namespace) -> int:
    """Print the verdict."""
    print_verdict(read_run(arguments.run))
    return 0


def print_verdict(run: Run, console: Console | None = None) -> None:
    """Print figures and judgements of a run."""
    console = console or Console(highlight=False)
    result = run.result
    reason = f" ({result.reason})" if result.reason else ""
    console.print(f"run {result.run_id}: {result.status}{reason}")
    _print_table(console, _figures_table(run))
    comparisons = list(comparisons_of(run))
    if comparisons:
        _print_table(console, _verdict_table(comparisons))
    for row in comparisons:
        for line in _sentences(row):
            console.print(line, soft_wrap=True)
    console.print(_samples_line(run), soft_wrap=True)


def comparisons_of(run: Run) -> Iterator[Comparison]:
    """Every speculative variant against the baseline, group by group."""
    for group in groups_of(run.blocks):
        for variant in run.result.variants:
            if variant != run.result.baseline:
                yield compare(run.blocks, group, variant=variant, baseline=run.result.baseline)


def _print_table(console: Console, table: Table) -> None:
    """Print at the table's own width: squeezed into 80 columns it would lose its words."""
    wide = Console(width=1_000)
    console.width = max(console.width, wide.measure(table).maximum)
    console.print(table)


def _figures_table(run: Run) -> Table:
    table = _table("Medians over requests", "class", "load", "variant")
    headings = ["n", "ITL ms", "TTFT ms", "E2E ms", "tokens/s", "tokens/step", "acceptance"]
    if run.result.price:
        headings.append("USD/M tokens")
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for group in groups_of(run.blocks):
        for variant in run.result.variants:
            summary = summarize(run.blocks, group, variant, run.result.price)
            table.add_row(*_figures_row(summary)[: 3 + len(headings)])
        table.add_section()
    return table


def _figures_row(summary: VariantSummary) -> tuple[str, ...]:
    acceptance = summary.acceptance_rate
    return (
        summary.group.prompt_class,
        summary.group.load.label,
        summary.variant,
        str(summary.counted),
        _ms(summary.inter_token_latency_s, digits=2),
        _ms(summary.ttft_s),
        _ms(summary.end_to_end_latency_s),
        _number(summary.output_throughput_token_per_s),
        _number(summary.tokens_per_step, digits=2),
        "-" if acceptance is None else f"{acceptance:.1%}",
        _number(summary.usd_per_million_output_tokens, digits=2),
    )


def _verdict_table(comparisons: list[Comparison]) -> Table:
    table = _table("Does speculation pay?", "class", "load", "variant", "verdict")
    for heading in ("ITL speedup", "95% interval", "E2E speedup", "95% interval", "prompts"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in comparisons:
        table.add_row(
            row.group.prompt_class,
            row.group.load.label,
            row.variant,
            row.judgement,
            *_ratio_cells(row.itl_speedup),
            *_ratio_cells(row.e2e_speedup),
            str(row.itl_speedup.prompts if row.itl_speedup else 0),
        )
    return table


def _ratio_cells(speedup: Estimate | None) -> tuple[str, str]:
    if speedup is None:
        return "-", "-"
    if speedup.low is None or speedup.high is None:
        return f"{speedup.value:.2f}x", "-"
    return f"{speedup.value:.2f}x", f"{speedup.low:.2f} to {speedup.high:.2f}"


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for heading in headings:
        table.add_column(heading, no_wrap=True)
    return table


def _sentences(row: Comparison) -> Iterator[str]:
    who = f"{row.group.label}, {row.variant}"
    yield f"{who}: {row.judgement}; {row.reason}."
    difference = row.ttft_difference_s
    if difference is not None and difference.low is not None and difference.high is not None:
        words = {True: "unchanged", False: "not shown to be unchanged", None: "cannot tell"}
        yield (
            f"{who}: TTFT {difference.value * 1e3:+.1f} ms (90% interval "
            f"{difference.low * 1e3:+.1f} to {difference.high * 1e3:+.1f}), "
            f"{words[row.ttft_unchanged]}; outputs identical in {row.identical_outputs} of "
            f"{row.pairs} pairs."
        )
    share = row.identical_share
    if share is not None and share < MIN_IDENTICAL_SHARE:
        yield (
            f"{who}: ATTENTION, only {share:.0%} of the greedy outputs are the baseline's: look at "
            "the transcripts before believing the speedup."
        )


def _samples_line(run: Run) -> str:
    records = [record for block in run.blocks for record in block.requests]
    failed = sum(record.failed for record in records)
    spoilt = sum(record.spoilt is not None for record in records)
    return (
        f"{len(records)} requests, {failed} failed, {spoilt} spoilt by the client's own waiting "
        f"and left out; client scheduling: {run.result.scheduling}."
    )


def _ms(estimate: Estimate | None, *, digits: int = 1) -> str:
    return _number(None if estimate is None else estimate.value * 1e3, digits=digits)


def _number(value: float | None, *, digits: int = 1) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
