"""Prints what a run found: the answer in a few lines or as JSON, or all tables of the report."""

import argparse
import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from draftworth import terminal
from draftworth.decision.facts import RunFacts, facts_of
from draftworth.errors import UserInputError
from draftworth.measuring.result_files import StorageFullError
from draftworth.measuring.unended_runs import read_run_so_far
from draftworth.records.codec import dump_record
from draftworth.report.answer_of_run import answer_of
from draftworth.report.brief import answer_lines
from draftworth.report.contents import document_of
from draftworth.report.document import Document, document_lines, section_lines


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose what is printed."""
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument("--verbose", action="store_true", help="print all tables of the report")
    forms.add_argument(
        "--json", action="store_true", help="print the answer as JSON, as docs/json.md describes it"
    )


def print_answer(
    arguments: argparse.Namespace,
    facts: RunFacts,
    document: Document,
    runs_at: Sequence[str],
    written_to: Path | None = None,
    judged_by: Sequence[str] = (),
) -> None:
    """Print a run's answer as lines, JSON or tables, as the options in `arguments` choose.

    runs_at: the folders or S3 addresses of the runs, for the command that is printed as the next
        step.
    judged_by: the options that replaced the run's own weights, prices and limits; that command
        repeats them.
    written_to: the folder of the written report; None: no report was written.
    """
    answer = answer_of(facts)
    if arguments.json:
        print(dump_record(answer, indent=2).decode().rstrip())
        return
    if arguments.verbose:
        print(*document_lines(document), sep="\n")
        print(f"files: {written_to or ' '.join(runs_at)}")
        return
    for section in document.sections:
        if section.is_asked_for:
            print(*section_lines(section), "", sep="\n")
    decision, *rest = answer_lines(
        answer,
        next_command=_next_command(
            runs_at,
            judged_by,
            is_made=facts.decision.is_made,
            is_written=written_to is not None,
        ),
        files=str(written_to or " ".join(runs_at)),
    )
    terminal.print_styled(decision, style="bold green" if facts.decision.is_made else "bold yellow")
    print(*rest, sep="\n")


def print_run(arguments: argparse.Namespace, folder: Path) -> None:
    """Print the answer of the run in `folder`, even if it did not end.

    UserInputError: the run has no finished block, or its files are wrong.
    """
    facts = facts_of(read_run_so_far(folder), {})
    print_answer(arguments, facts, document_of(facts), [str(folder)])


@contextmanager
def answer_if_cut_off(arguments: argparse.Namespace, folder: Path) -> Iterator[None]:
    """If Ctrl-C or a full disk ends the `with` block, print what was measured until then.

    folder: the run's folder. The exception is raised again.
    """
    try:
        yield
    except (KeyboardInterrupt, StorageFullError):
        try:
            print_run(arguments, folder)
        except UserInputError as error:  # the run has no finished block
            print(error, file=sys.stderr)
        raise


def _next_command(
    runs_at: Sequence[str], judged_by: Sequence[str], *, is_made: bool, is_written: bool
) -> str:
    if find_spec("matplotlib") is None:
        option = "--verbose"
    elif len(runs_at) == 1 and not judged_by:
        option = "--out"
    else:
        option = "--out report"
    if not is_made:
        option = "--verbose"
    elif is_written or runs_at[0].startswith("s3://"):
        option = "--handover"
    return f"{invocation()} report {shlex.join([*runs_at, *judged_by])} {option}"


def invocation() -> str:
    """Return the command that starts this program again from the current folder."""
    program = Path(sys.argv[0])
    if program.name == "draftworth":
        # The first folder in PATH was put there by `draftworth.cli`, so the user's shell may not
        # search it.
        _, _, path = os.environ["PATH"].partition(os.pathsep)
        return "draftworth" if shutil.which("draftworth", path=path) else shlex.quote(str(program))
    # `python -m draftworth` is running. In a checkout, `make setup` has written the program
    # `draftworth` beside the interpreter.
    python, here = Path(sys.executable), Path.cwd()
    program = python.with_name("draftworth")
    typed_path = program.relative_to(here) if program.is_relative_to(here) else program
    return (
        shlex.quote(str(typed_path))
        if program.exists()
        else f"{shlex.quote(str(python))} -m draftworth"
    )
