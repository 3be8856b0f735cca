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
from draftworth.decision.run_decision import Decision, NextStep
from draftworth.errors import UserInputError
from draftworth.measuring.result_files import StorageFullError
from draftworth.measuring.unended_runs import read_run_so_far
from draftworth.records.codec import dump_record
from draftworth.records.results import SPECIFICATION_FILE
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
        next_commands=[
            _repeating_command(facts, runs_at)
            or _next_command(runs_at, judged_by, facts.decision, is_written=written_to is not None),
            *_for_the_engine(facts, runs_at),
        ],
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

    folder: the run's folder; if it does not exist, the run has not begun. The exception is raised
    again.
    """
    try:
        yield
    except (KeyboardInterrupt, StorageFullError):
        try:
            if folder.is_dir():
                print_run(arguments, folder)
        except UserInputError as error:  # the run has no finished block
            print(error, file=sys.stderr)
        raise


def _repeating_command(facts: RunFacts, runs_at: Sequence[str]) -> str:
    """Return the command that measures a run of `compare` again, without what is in doubt.

    Empty if the next step is another one, or if no folder here has the servers and prompts.
    """
    step, result = facts.decision.next_step, facts.run.result
    if step is None or not step.removes_a_doubt or len(runs_at) > 1:
        return ""
    recorded = Path(runs_at[0]) / SPECIFICATION_FILE
    if result.experiment != "compare" or not recorded.is_file():
        return ""
    salted = " --cache salted" if step is NextStep.MEASURE_SALTED else ""
    return f"{invocation()} compare --again {shlex.quote(runs_at[0])}{salted}"


def _next_command(
    runs_at: Sequence[str], judged_by: Sequence[str], decision: Decision, *, is_written: bool
) -> str:
    if decision.next_step is NextStep.MEASURE_A_VARIANT:
        # The run with the draft is named first: its winner is compared with the servers here.
        against = " ".join(f"--against {shlex.quote(run_at)}" for run_at in runs_at)
        return f"{invocation()} report OTHER {against}  (OTHER: a run of its prompts with a draft)"
    if find_spec("matplotlib") is None:
        option = "--verbose"
    elif len(runs_at) == 1 and not judged_by:
        option = "--out"
    else:
        option = "--out report"
    if not decision.is_made:
        option = "--verbose"
    elif is_written or runs_at[0].startswith("s3://"):
        option = "--handover"
    return f"{invocation()} report {shlex.join([*runs_at, *judged_by])} {option}"


def _for_the_engine(facts: RunFacts, runs_at: Sequence[str]) -> Iterator[str]:
    """Yield the command that says what the engine of a user's own server loses, if nothing does."""
    result = facts.run.result
    speculates = any(most > 1 for most in result.max_tokens_per_step.values())
    is_whole_run = result.status == "complete" and len(runs_at) == 1
    if speculates and result.of_own_servers and is_whole_run and not facts.engine_losses:
        run = shlex.quote(runs_at[0])
        yield f"{invocation()} estimate EXPERIMENT --answers {run} (what its engine loses)"


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
