"""`draftworth report`: the verdict of one run or of several pooled runs, or a list of runs."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from draftworth.analysis.acceptance import profile_of
from draftworth.analysis.comparable_runs import is_same_experiment
from draftworth.analysis.pooling import NotPooledError, pooled
from draftworth.claims.other_tools import tool_section
from draftworth.cli import print_run, report_choices, report_traffic
from draftworth.cli.arguments import (
    RUN_LIST_WORDS,
    RUN_WORDS,
    S3_SCHEME,
    local_run,
    run_list,
    run_place,
)
from draftworth.cli.report_choices import EXAMPLES
from draftworth.cli.report_scores import score
from draftworth.decision import run_comparison
from draftworth.decision.elsewhere import elsewhere
from draftworth.decision.facts import RunFacts, facts_of
from draftworth.decision.judged_anew import Choices
from draftworth.decision.run_comparison import NotComparedError
from draftworth.errors import UserInputError
from draftworth.estimate.profile_forms import write_profile
from draftworth.measuring.unended_runs import read_run_so_far
from draftworth.records.likelihoods import Prediction, read_predictions
from draftworth.records.run_folder import Run
from draftworth.records.transcripts import Transcript, Transcripts, read_transcripts
from draftworth.report import contents
from draftworth.report.document import Document, Section, document_lines
from draftworth.report.run_differences import not_compared_words, not_pooled_words
from draftworth.truth.tool_reports import recognized
from draftworth.untrusted import one_line

if TYPE_CHECKING:
    from draftworth.claims.judging import ClaimsFile

_BESIDE_THE_RUN = ""
_MORE = ("against", "traffic", "score", "claims", "profile", "json", "verbose")
_ALONE = {
    **dict.fromkeys(EXAMPLES, (("against",), "judges these runs anew, and not the other")),
    "handover": (_MORE, "is one run's decision"),
    "json": (("against", "score"), "has the answer alone"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the runs to report, the runs to compare them with, and what else to show or write."""
    parser.add_argument(
        "runs",
        metavar="RUN",
        type=run_place,
        nargs="+",
        help=f"{RUN_WORDS}; several runs of one experiment are judged as one; {RUN_LIST_WORDS}",
    )
    parser.add_argument(
        "--against",
        metavar="RUN",
        type=run_place,
        action="append",
        help="compare with another run of the experiment, with a run of `measure` on something "
        "else, or with a result file of another load generator; may be given several times",
    )
    parser.add_argument(
        "--score",
        metavar="COMMAND",
        help="a program that scores the outputs of both sides (docs/report.md)",
    )
    parser.add_argument(
        "--claims",
        metavar="FILE",
        type=_claims_in,
        help="published figures; the report says which of them the run reproduces (docs/claims.md)",
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        nargs="?",
        const=_BESIDE_THE_RUN,
        help="also write report.html, report.md, plots and CSV files there (default: RUN/report)",
    )
    parser.add_argument(
        "--profile",
        metavar="FILE",
        type=Path,
        help="also write an acceptance profile, which a search and other tools can read",
    )
    parser.add_argument(
        "--handover",
        action="store_true",
        help="print only the page for those who run the winner: the decision, what to watch, how "
        "to repeat it; --out writes it as handover.html and handover.md",
    )
    report_traffic.add_arguments(parser)
    report_choices.add_arguments(parser)
    print_run.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the verdict of the runs, and with `--out` write the report.

    If RUN is an experiment file or a whole bucket, list its runs instead.
    """
    for place in arguments.runs:
        if (listed := run_list(place)) is not None:
            _refuse_with_a_list(arguments, place)
            print(*listed, sep="\n")
            return 0
    _refuse_what_is_not_shown(arguments)
    out = None if arguments.out is None else _out_folder(arguments)
    choices = report_choices.choices_of(arguments)
    facts, transcripts = _read(arguments.runs, texts=True, choices=choices)
    facts = report_traffic.with_traffic(_with_claims(facts, arguments.claims), arguments.traffic)
    document = _document(arguments, facts, transcripts)
    # Files are written before text is printed, because a reader such as `head` may end early.
    if out is not None:
        # Imported here, because it loads templates and plotting: slow, and only `--out` needs them.
        from draftworth.report import writing

        folder, root = _place_of(out, arguments.runs)
        if arguments.handover:
            writing.write_handover(document, folder, root=root)
        else:
            writing.write_report(document, facts, folder, root=root)
    if arguments.handover:
        written = () if out is None else (f"handover written to {out}",)
        print(*document_lines(document), *written, sep="\n")
    else:
        print_run.print_answer(
            arguments,
            facts,
            document,
            arguments.runs,
            written_to=out,
            judged_by=report_choices.option_words(arguments),
        )
    return 0


# A claims file is read with pydantic, which loads as long as everything else of a report together,
# so only the functions that handle claims import `judging`.
def _claims_in(file: str) -> "ClaimsFile":
    from draftworth.claims.judging import read_claims

    return read_claims(Path(file))


def _with_claims(facts: RunFacts, claims: "ClaimsFile | None") -> RunFacts:
    """Return the facts with a finding for each claim; unchanged if there is no claims file."""
    if claims is None:
        return facts
    from draftworth.claims.judging import judge

    return replace(facts, claims=judge(claims, facts))


def _refuse_what_is_not_shown(arguments: argparse.Namespace) -> None:
    for option, (options, about) in _ALONE.items():
        if getattr(arguments, option):
            flag = f"--{option.replace('_', '-')}"
            why = f"given with {flag}, which {about}, allowed: without; next: leave one out"
            _refuse(arguments, options, why)


def _document(arguments: argparse.Namespace, facts: RunFacts, transcripts: Transcripts) -> Document:
    if arguments.handover:
        return contents.handover_document(facts)
    if arguments.profile:
        _write_profile(facts.run, arguments.profile)
    return contents.document_of(
        facts,
        against=tuple(_against(arguments.against or (), facts)),
        scores=() if arguments.score is None else score(arguments.score, facts, transcripts),
        predictions=_predictions(arguments.runs, facts.run),
    )


def _write_profile(run: Run, path: Path) -> None:
    profile = profile_of(run)
    if profile is None:
        raise UserInputError(
            f"--profile: given run {run.result.run_id}, allowed: a run with speculation whose "
            "server counts tokens by chunk or its steps; of `compare`, with window=K"
        )
    write_profile(profile, path)


def _against(places: Sequence[str], facts: RunFacts) -> Iterator[Section]:
    """Yield the report's sections that compare the run with each of `places`.

    places: other runs, or result files of other load generators. UserInputError: one of them
    cannot be read, or cannot be compared with the run.
    """
    files = [place for place in places if Path(place).is_file()]
    if runs_at := [place for place in places if place not in files]:
        other, _ = _read(runs_at, texts=False)
        _refuse_the_same_run(facts.run, other.run)
        try:
            yield from _compared(facts, other)
        except NotComparedError as error:
            raise UserInputError(not_compared_words(error)) from error
    for file in files:
        yield tool_section(facts, recognized(Path(file)), file)


def _compared(facts: RunFacts, other: RunFacts) -> Iterator[Section]:
    if not is_same_experiment(facts.run, other.run):
        yield contents.elsewhere_section(elsewhere(facts, other))
    elif changes := run_comparison.changes(facts, other):
        yield contents.against_section(changes, facts.run, other.run)


def _refuse_with_a_list(arguments: argparse.Namespace, place: str) -> None:
    if len(arguments.runs) > 1:
        raise UserInputError(
            f"RUN: given {place}, which names many runs, among several, allowed: alone, or runs; "
            "next: choose some of those that the command lists for it"
        )
    why = f"given with {place}, which names many runs, allowed: with one run; next: choose one of "
    options = ("out", "handover", *EXAMPLES, *_MORE)
    _refuse(arguments, options, f"{why}those that the command lists without it")


def _refuse(arguments: argparse.Namespace, options: Sequence[str], because: str) -> None:
    for option in options:
        if getattr(arguments, option) not in (None, False):
            raise UserInputError(f"--{option.replace('_', '-')}: {because}")


def _refuse_the_same_run(run: Run, other: Run) -> None:
    ours, theirs = ({r.result.run_id, *(b.run_id for b in r.blocks)} for r in (run, other))
    if both := sorted(ours & theirs):
        raise UserInputError(
            f"--against: given {one_line(both[0])}, which is a RUN too, allowed: other runs; next: "
            "name it once"
        )


def _out_folder(arguments: argparse.Namespace) -> Path:
    runs_at = arguments.runs
    if arguments.out != _BESIDE_THE_RUN:
        if Path(arguments.out).is_file():
            raise UserInputError(
                f"--out: given {arguments.out}, which is a file, allowed: a folder, which may be "
                "new; next: give --out another name"
            )
        return Path(arguments.out)
    if choosing := report_choices.option_words(arguments):
        raise UserInputError(
            f"--out: given without DIR and with {choosing[0]}, allowed: with DIR, because the "
            "folder beside the run has the report of the run as it was measured; next: give DIR, "
            "for example --out anew"
        )
    if len(runs_at) > 1 or runs_at[0].startswith(S3_SCHEME):
        raise UserInputError(
            "--out: given without DIR, allowed with one run in a local folder; next: give DIR, "
            "for example --out report"
        )
    return Path(runs_at[0]) / "report"


def _place_of(out: Path, runs_at: Sequence[str]) -> tuple[Path, Path | None]:
    """Return `out` as an absolute path, and the run's folder that contains it.

    The second is None if `out` is in no run's folder. In a run's folder the report is not written
    through a symbolic link, because others may have put it there. Folders are compared by
    `samefile` and not by their paths, because one folder can have several paths.
    """
    # The path keeps its `..`: after a symbolic link, removing it would give another folder.
    out = out.absolute()
    around = (folder for folder in out.parents if any(_is_same(folder, at) for at in runs_at))
    return out, next(around, None)


def _is_same(folder: Path, run_at: str) -> bool:
    try:
        return folder.samefile(run_at)
    except (OSError, ValueError):  # the folder or the run's folder does not exist
        return False


def _read(
    runs_at: Sequence[str], *, texts: bool, choices: Choices | None = None
) -> tuple[RunFacts, Transcripts]:
    """Read and pool the runs; return their facts and, if `texts`, the transcripts of their outputs.

    choices: weights, prices and limits to use instead of the runs' own; None: use the runs' own.
    """
    runs: list[Run] = []
    transcripts: dict[str, Transcript] = {}
    for run_at in runs_at:
        with local_run(run_at) as folder:
            runs.append(read_run_so_far(folder))
            if texts:
                transcripts |= read_transcripts(folder, runs[-1].blocks)
    try:
        run = pooled(runs)
    except NotPooledError as error:
        raise UserInputError(not_pooled_words(error.why)) from error
    if choices is None:
        return facts_of(run, transcripts), transcripts
    facts = facts_of(report_choices.judged_with(run, choices), transcripts)
    return replace(facts, measured_as=run), transcripts


def _predictions(runs_at: Sequence[str], run: Run) -> tuple[Prediction, ...]:
    if len(runs_at) > 1 or runs_at[0].startswith(S3_SCHEME):
        return ()
    return read_predictions(Path(runs_at[0]), run.result.run_id)
