"""`draftworth report`: the verdict of a run, in the terminal and as files."""

from __future__ import annotations

import argparse
import importlib
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from draftworth.analysis.facts import RunFacts, VariantFacts, facts_of
from draftworth.analysis.statistics import Estimate
from draftworth.errors import UserInputError
from draftworth.records.reading import Run, read_run
from draftworth.records.transcripts import read_transcripts
from draftworth.report.against import Change, changes, check_comparable, sentence
from draftworth.report.sentences import TRAFFIC_MIX, missing_requests, mix_sentences
from draftworth.report.spending import spending_sentences
from draftworth.report.words import MISSING, interval, milliseconds, number, ratio

# The domain does not know AWS: who reads S3 is looked up when a run lies there.
_S3_SOURCE = "account.s3_source"
_S3_SCHEME = "s3://"
_BESIDE_THE_RUN = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where the run is, what to compare it with, where to write."""
    parser.add_argument(
        "run",
        metavar="RUN",
        help="folder of one run (it holds run.json), or s3://BUCKET/PREFIX of one",
    )
    parser.add_argument(
        "--against", metavar="RUN", help="another run of the same experiment, to compare with"
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        nargs="?",
        const=_BESIDE_THE_RUN,
        help="also write report.html, report.md, plots and CSV files there (default: RUN/report)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the verdict, and write the report where asked."""
    out = None if arguments.out is None else _out_folder(arguments.run, arguments.out)
    with _local(arguments.run) as folder:
        run_read = read_run(folder)
        facts = facts_of(run_read, read_transcripts(folder, run_read.blocks))
    other = _other_facts(run_read, arguments.against) if arguments.against else None
    console = Console(highlight=False)
    print_verdict(run_read, console, facts=facts)
    told = changes(facts, other) if other else ()
    if other:
        _print_changes(console, told, other.run.result.run_id)
    if out is not None:
        _write(facts, told, other, out)
        _say(console, f"report written to {out}")
    return 0


def _out_folder(run_at: str, out: str) -> Path:
    if out != _BESIDE_THE_RUN:
        return Path(out)
    if run_at.startswith(_S3_SCHEME):
        raise UserInputError(
            "--out: a run in S3 has no folder to write beside it: give --out DIR, for example "
            "--out report"
        )
    return Path(run_at) / "report"


@contextmanager
def _local(run_at: str) -> Iterator[Path]:
    """The run's folder; of a run in S3 a copy, while the context lasts."""
    if not run_at.startswith(_S3_SCHEME):
        yield Path(run_at)
        return
    with tempfile.TemporaryDirectory(prefix="draftworth-") as folder:
        importlib.import_module(_S3_SOURCE).download_run(run_at, Path(folder))
        try:
            yield Path(folder)
        except UserInputError as error:
            raise UserInputError(str(error).replace(folder, run_at.rstrip("/"))) from error


def _other_facts(run_read: Run, run_at: str) -> RunFacts:
    """The other run's facts; refused before anything is printed when they do not match."""
    with _local(run_at) as folder:
        other = read_run(folder)
    check_comparable(run_read, other)
    return facts_of(other, {})


def _write(facts: RunFacts, told: Sequence[Change], other: RunFacts | None, out: Path) -> None:
    # Loaded here: the plotting library takes long, and the measuring commands import this module.
    from draftworth.report.document import document_of
    from draftworth.report.writing import write_report

    document = document_of(facts, told, other.run.result.run_id if other else "")
    write_report(document, facts, out)


def _print_changes(console: Console, told: Sequence[Change], other_run: str) -> None:
    table = _table(f"Against {escape(other_run)}", "class, load and variant")
    for heading in ("ITL speedup", "95% interval", "other's", "95% interval", "difference"):
        table.add_column(heading, justify="right", no_wrap=True)
    for change in told:
        ours, theirs = change.speedup, change.other_speedup
        ratios = (ratio(ours), interval(ours), ratio(theirs), interval(theirs))
        _add_row(table, (change.label, *ratios, number(change.difference, digits=2)))
    _print_table(console, table)
    for change in told:
        _say(console, sentence(change))


def print_verdict(
    run: Run, console: Console | None = None, *, facts: RunFacts | None = None
) -> None:
    """Print figures and judgements of a run; `facts` where they are known already."""
    console = console or Console(highlight=False)
    facts = facts or facts_of(run, {})
    result = run.result
    reason = f" ({result.reason})" if result.reason else ""
    _say(console, f"run {result.run_id}: {result.status}{reason}")
    if facts.groups:
        _print_table(console, _figures_table(facts))
    if facts.speculative:
        _print_table(console, _verdict_table(facts))
    for line in mix_sentences(facts):
        _say(console, line)
    for variant in facts.speculative:
        for line in _sentences(facts, variant):
            _say(console, line)
    for line in facts.attention:
        _say(console, f"ATTENTION: {line}")
    if result.price or result.interruptions:
        for line in spending_sentences(result):
            _say(console, line)
    _say(console, _samples_line(run))


def _say(console: Console, line: str) -> None:
    """One line as it is: brackets in a name are no markup, and the terminal breaks lines."""
    console.print(line, soft_wrap=True, markup=False)


def _print_table(console: Console, table: Table) -> None:
    """Print at the table's own width: squeezed into 80 columns it would lose its words."""
    wide = Console(width=1_000)
    console.width = max(console.width, wide.measure(table).maximum)
    console.print(table)


def _figures_table(facts: RunFacts) -> Table:
    table = _table("Medians over requests", "class", "load", "variant")
    headings = ["n", "ITL ms", "TTFT ms", "E2E ms", "tokens/s", "tokens/step", "acceptance"]
    if facts.run.result.price:
        headings.append("USD/M tokens")
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for group in facts.groups:
        for variant in group.variants:
            _add_row(table, _figures_row(variant)[: 3 + len(headings)])
        table.add_section()
    return table


def _add_row(table: Table, cells: Sequence[str]) -> None:
    table.add_row(*(escape(cell) for cell in cells))


def _figures_row(variant: VariantFacts) -> tuple[str, ...]:
    summary = variant.summary
    return (
        summary.group.prompt_class,
        summary.group.load.label,
        summary.variant,
        str(summary.counted),
        _ms(summary.inter_token_latency_s, digits=2),
        _ms(summary.ttft_s),
        _ms(summary.end_to_end_latency_s),
        number(summary.output_throughput_token_per_s),
        number(summary.tokens_per_step, digits=2),
        variant.acceptance.text,
        number(summary.usd_per_million_output_tokens, digits=2),
    )


def _verdict_table(facts: RunFacts) -> Table:
    table = _table("Does speculation pay?", "class", "load", "variant", "verdict")
    for heading in ("ITL speedup", "95% interval", "E2E speedup", "95% interval", "prompts"):
        table.add_column(heading, justify="right", no_wrap=True)
    for variant in facts.speculative:
        if row := variant.comparison:
            group = (row.group.prompt_class, row.group.load.label)
            itl, e2e = row.itl_speedup, row.e2e_speedup
            ratios = (ratio(itl), interval(itl), ratio(e2e), interval(e2e))
            prompts = str(itl.prompts if itl else 0)
            _add_row(table, (*group, row.variant, row.judgement, *ratios, prompts))
    for mix in facts.mixes:
        ratios = (ratio(mix.speedup), interval(mix.speedup), MISSING, MISSING)
        prompts = str(mix.speedup.prompts if mix.speedup else 0)
        names = (TRAFFIC_MIX, mix.load.label, mix.variant, mix.judgement)
        _add_row(table, (*names, *ratios, prompts))
    return table


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for heading in headings:
        table.add_column(heading, no_wrap=True)
    return table


def _sentences(facts: RunFacts, variant: VariantFacts) -> Iterator[str]:
    row = variant.comparison
    if row is None:
        return
    yield f"{variant.label}: {row.judgement}; {row.reason}.{missing_requests(facts, variant)}"
    difference = row.ttft_difference_s
    if difference is not None and difference.low is not None and difference.high is not None:
        words = {True: "unchanged", False: "not shown to be unchanged", None: "inconclusive"}
        yield (
            f"{variant.label}: TTFT {difference.value * 1e3:+.1f} ms (90% interval "
            f"{difference.low * 1e3:+.1f} to {difference.high * 1e3:+.1f}), "
            f"{words[row.ttft_unchanged]}; outputs identical in {row.identical_outputs} of "
            f"{row.pairs} pairs."
        )


def _samples_line(run: Run) -> str:
    records = [record for block in run.blocks for record in block.requests]
    failed = sum(record.failed for record in records)
    excluded = sum(record.excluded is not None for record in records)
    return (
        f"{len(records)} requests, {failed} failed, {excluded} excluded (client was "
        f"descheduled); client scheduling: {run.result.scheduling}."
    )


def _ms(estimate: Estimate | None, *, digits: int = 1) -> str:
    return milliseconds(None if estimate is None else estimate.value, digits=digits)
