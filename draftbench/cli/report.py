"""`draftbench report`: the verdict of a run, as tables in the terminal."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from draftbench.reading import Run, read_run
from draftbench.verdict import Comparison, VariantSummary, classes_of, compare, summarize

MIN_WIDTH = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The run's folder."""
    parser.add_argument("run", type=Path, help="folder of one run (it holds run.json)")


def run(arguments: argparse.Namespace) -> int:
    """Print the verdict."""
    print_verdict(read_run(arguments.run))
    return 0


def print_verdict(run: Run, console: Console | None = None) -> None:
    """Print figures and judgements of a run."""
    console = console or _console()
    result = run.result
    console.print(
        f"run {result.run_id}: {result.status}" + f" ({result.reason})" * bool(result.reason)
    )
    console.print(_figures_table(run))
    comparisons = list(_comparisons(run))
    if comparisons:
        console.print(_verdict_table(comparisons))
    for line in _notes(run, comparisons):
        console.print(line)


def _console() -> Console:
    console = Console(highlight=False)
    # A table squeezed into a pipe's 80 columns loses its words; a narrow terminal can scroll.
    return console if console.width >= MIN_WIDTH else Console(highlight=False, width=MIN_WIDTH)


def _figures_table(run: Run) -> Table:
    table = Table(title="Medians over requests", title_justify="left")
    for heading in ("class", "variant"):
        table.add_column(heading)
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
    table = Table(title="Does speculation pay?", title_justify="left")
    for heading in ("class", "variant", "verdict"):
        table.add_column(heading)
    for heading in ("ITL speedup", "95% interval", "pairs"):
        table.add_column(heading, justify="right")
    table.add_column("because")
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
            row.reason,
        )
    return table


def _notes(run: Run, comparisons: list[Comparison]) -> Iterator[str]:
    records = [record for block in run.blocks for record in block.requests]
    failed = sum(record.failed for record in records)
    spoilt = sum(record.spoilt is not None for record in records)
    yield (
        f"{len(records)} requests, {failed} failed, {spoilt} spoilt by the client's own waiting "
        f"and left out; client scheduling: {run.result.client.get('scheduling', 'unknown')}"
    )
    pairs = sum(row.pairs for row in comparisons)
    if pairs:
        same = sum(row.identical_outputs for row in comparisons)
        yield f"outputs identical to the baseline's: {same} of {pairs} pairs"


def _ms(seconds: float | None, *, digits: int = 1) -> str:
    return _number(None if seconds is None else seconds * 1e3, digits=digits)


def _number(value: float | None, *, digits: int = 1) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
