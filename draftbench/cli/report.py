"""`draftbench report`: the verdict of a run, as tables in the terminal."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from draftbench.reading import Run, read_run
from draftbench.verdict import Comparison, VariantSummary, classes_of, compare, summarize


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
    console.print(
        f"run {result.run_id}: {result.status}" + f" ({result.reason})" * bool(result.reason)
    )
    _print_table(console, _figures_table(run))
    comparisons = list(_comparisons(run))
    if comparisons:
        _print_table(console, _verdict_table(comparisons))
    for row in comparisons:
        console.print(f"{row.prompt_class}, {row.variant}: {row.judgement}; {row.reason}.")
    console.print(_samples_line(run), soft_wrap=True)


def _print_table(console: Console, table: Table) -> None:
    """Print at the table's own width: squeezed into 80 columns it would lose its words."""
    wide = Console(width=1_000)
    console.width = max(console.width, wide.measure(table).maximum)
    console.print(table)


def _figures_table(run: Run) -> Table:
    table = _table("Medians over requests", "class", "variant")
    for heading in (
        "n", "ITL ms", "TTFT ms", "E2E ms", "tokens/s", "tokens/step", "acceptance",
    ):  # fmt: skip
        table.add_column(heading, justify="right")
    for prompt_class in classes_of(run.blocks):
        for variant in run.result.variants:
            table.add_row(
                *_figures_row(summarize(run.blocks, prompt_class=prompt_class, variant=variant))
            )
        table.add_section()
    return table


def _figures_row(summary: VariantSummary) -> tuple[str, ...]:
    acceptance = summary.acceptance_rate
    return (
        summary.prompt_class,
        summary.variant,
        str(summary.requests - summary.failed - summary.spoilt),
        _ms(summary.inter_token_latency_s, digits=2),
        _ms(summary.ttft_s),
        _ms(summary.end_to_end_latency_s),
        _number(summary.output_throughput_token_per_s),
        _number(summary.tokens_per_step, digits=2),
        "-" if acceptance is None else f"{acceptance:.1%}",
    )


def _comparisons(run: Run) -> Iterator[Comparison]:
    for prompt_class in classes_of(run.blocks):
        for variant in run.result.variants:
            if variant != run.result.baseline:
                yield compare(
                    run.blocks,
                    prompt_class=prompt_class,
                    variant=variant,
                    baseline=run.result.baseline,
                )


def _verdict_table(comparisons: list[Comparison]) -> Table:
    table = _table("Does speculation pay?", "class", "variant", "verdict")
    for heading in ("ITL speedup", "95% interval", "pairs", "identical outputs"):
        table.add_column(heading, justify="right")
    for row in comparisons:
        speedup = row.speedup
        has_interval = speedup is not None and speedup.low is not None
        table.add_row(
            row.prompt_class,
            row.variant,
            row.judgement,
            f"{speedup.median:.2f}x" if speedup else "-",
            f"{speedup.low:.2f} to {speedup.high:.2f}" if speedup and has_interval else "-",
            str(row.pairs),
            f"{row.identical_outputs} of {row.usable_pairs}",
        )
    return table


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for heading in headings:
        table.add_column(heading, no_wrap=True)
    return table


def _samples_line(run: Run) -> str:
    records = [record for block in run.blocks for record in block.requests]
    failed = sum(record.failed for record in records)
    spoilt = sum(record.spoilt is not None for record in records)
    return (
        f"{len(records)} requests, {failed} failed, {spoilt} spoilt by the client's own waiting "
        f"and left out; client scheduling: {run.result.client.get('scheduling', 'unknown')}."
    )


def _ms(seconds: float | None, *, digits: int = 1) -> str:
    return _number(None if seconds is None else seconds * 1e3, digits=digits)


def _number(value: float | None, *, digits: int = 1) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
