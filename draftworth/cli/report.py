"""`draftworth report`: the verdict of a run, in the terminal and as files; or which runs exist."""

from __future__ import annotations

import argparse
from pathlib import Path

from draftworth.analysis.facts import RunFacts, facts_of
from draftworth.analysis.run_comparison import across, changes
from draftworth.cli.runs import RUN_LIST_WORDS, RUN_WORDS, S3_SCHEME, local_run, run_list
from draftworth.cli.scoring import score
from draftworth.errors import UserInputError
from draftworth.records.reading import Run, read_run
from draftworth.records.transcripts import Transcripts, read_transcripts
from draftworth.report.contents import document_of
from draftworth.report.terminal import document_lines

_BESIDE_THE_RUN = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where the run is, what to compare it with, where to write."""
    parser.add_argument(
        "run",
        metavar="RUN",
        help=f"{RUN_WORDS}; {RUN_LIST_WORDS}",
    )
    parser.add_argument(
        "--against",
        metavar="RUN",
        help="another run, to compare with: of the same experiment, or of the same prompts and "
        "loads on something else (`measure`)",
    )
    parser.add_argument(
        "--score",
        metavar="COMMAND",
        help="a program that scores the outputs of both sides: docs/metrics.md, Scores",
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        nargs="?",
        const=_BESIDE_THE_RUN,
        help="also write report.html, report.md, plots and CSV files there (default: RUN/report)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the verdict, and write the report where asked; or list runs."""
    listed = run_list(arguments.run)
    if listed is not None:
        _refuse_with_a_list(arguments)
        print(*listed, sep="\n")
        return 0
    out = None if arguments.out is None else _out_folder(arguments.run, arguments.out)
    facts, transcripts = _facts(arguments.run, texts=True)
    other = _facts(arguments.against, texts=False)[0] if arguments.against else None
    same = other and facts.run.result.experiment == other.run.result.experiment
    found = changes(facts, other) if other and same else ()
    elsewhere = across(facts, other) if other and not same else ()
    scores = score(arguments.score, facts, transcripts) if arguments.score is not None else ()
    name = other.run.result.run_id if other else ""
    document = document_of(facts, found, name, scores=scores, elsewhere=elsewhere)
    print(*document_lines(document), sep="\n")
    if out is not None:
        # Loaded here: templates and plotting take long, and the measuring commands import this.
        from draftworth.report.writing import write_report

        write_report(document, facts, out)
        print(f"report written to {out}")
    return 0


def _refuse_with_a_list(arguments: argparse.Namespace) -> None:
    for option in ("against", "out", "score"):
        if getattr(arguments, option) is not None:
            raise UserInputError(
                f"--{option}: given with {arguments.run}, which names many runs, allowed: with "
                "one run; next: choose one of those that the command lists without it"
            )


def _out_folder(run_at: str, out: str) -> Path:
    if out != _BESIDE_THE_RUN:
        return Path(out)
    if run_at.startswith(S3_SCHEME):
        raise UserInputError(
            "--out: a run in S3 has no folder to write beside it: give --out DIR, for example "
            "--out report"
        )
    return Path(run_at) / "report"


def _facts(run_at: str, *, texts: bool) -> tuple[RunFacts, Transcripts]:
    with local_run(run_at) as folder:
        run_read = read_run(folder)
        transcripts = read_transcripts(folder, run_read.blocks) if texts else {}
        return facts_of(run_read, transcripts), transcripts


def print_verdict(run: Run) -> None:
    """Print the report of a run that was just measured."""
    print(*document_lines(document_of(facts_of(run, {}))), sep="\n")
