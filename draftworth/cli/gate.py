"""`draftworth gate`: has a change of the servers made tokens dearer than a margin allows?

The change may be of an engine, a driver, an image, a draft or a node. Exit codes: 0 held, 99 not
held, as in k6; an undecided gate counts as not held unless `--undecided pass` is given.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from draftworth.analysis.pooling import NotPooledError, pooled
from draftworth.cli import arguments, measure, resuming
from draftworth.cli.arguments import RUN_WORDS, S3_SCHEME, local_run
from draftworth.decision import upgrade_gate as decision
from draftworth.decision.upgrade_gate import Gate, Word
from draftworth.errors import DraftworthError, UserInputError
from draftworth.measuring.run_specification import RunSpec
from draftworth.measuring.runner import new_run_id
from draftworth.measuring.unended_runs import read_begun_run
from draftworth.records.run_folder import Run, read_run
from draftworth.report import gate_files
from draftworth.report.gate_words import gate_lines, markdown_of
from draftworth.report.reason_sentences import words_of
from draftworth.report.run_differences import differences_words, not_pooled_words
from draftworth.safe_writing import write_file
from draftworth.untrusted import (
    DOCUMENT_LIMIT_BYTES,
    TooLargeError,
    one_line,
    open_file,
    read_at_most,
)

EXIT_NOT_HELD = 99
_MOST_PERCENT = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add both sides, the margin, what an undecided gate is, and the files to write."""
    parser.add_argument(
        "--baseline",
        metavar="RUN",
        action="append",
        required=True,
        help=f"a run before the change: {RUN_WORDS}; may be repeated, one for each start of the "
        "server",
    )
    parser.add_argument(
        "--candidate",
        metavar="URL_OR_RUN",
        action="append",
        required=True,
        help="a run after the change, or the address of a server, to which the requests of the "
        "baseline are then sent; may be repeated",
    )
    parser.add_argument(
        "--at-most",
        metavar="PERCENT",
        type=_margin,
        required=True,
        help="the margin: how much more a token may cost, such as 3%%",
    )
    parser.add_argument(
        "--undecided",
        choices=("fail", "pass"),
        default="fail",
        help=f"the exit code of an undecided gate: {EXIT_NOT_HELD} (fail, the default) or 0 (pass)",
    )
    parser.add_argument("--junit", metavar="FILE", type=Path, help="write a JUnit XML file")
    parser.add_argument(
        "--markdown", metavar="FILE", type=Path, help="write a summary for a pull request"
    )
    parser.add_argument(
        "--history",
        metavar="FILE",
        type=Path,
        help="add a row to this CSV file, which Apache Otava can read",
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        default=Path("runs"),
        help="folder for the run that measures the candidate (%(default)s)",
    )


def run(options: argparse.Namespace) -> int:
    """Write the files and print the decision; return the exit code that the decision has."""
    history = _history_in(options.history)
    answer = _gate(options)
    undecided_fails = options.undecided == "fail"
    _write(options, answer, history, undecided_fails=undecided_fails)
    print(*gate_lines(answer), sep="\n")
    passes = answer.word is Word.HELD or (answer.word is Word.UNDECIDED and not undecided_fails)
    return 0 if passes else EXIT_NOT_HELD


def _margin(text: str) -> float:
    percent = arguments.positive_number(text.removesuffix("%"))
    if not text.endswith("%") or percent >= _MOST_PERCENT:
        raise argparse.ArgumentTypeError(
            f"given {one_line(text)!r}, allowed: a percentage below 100%, such as 3%"
        )
    return percent / 100


def _gate(options: argparse.Namespace) -> Gate:
    specs = {url: _spec(url, options.baseline[0]) for url in options.candidate if _is_address(url)}
    before = _pooled(options.baseline, option="--baseline")
    candidates = [
        _measured(specs[place], options.out) if place in specs else place
        for place in options.candidate
    ]
    after = _pooled(candidates, option="--candidate")
    try:
        return decision.gate(before, after, margin=options.at_most)
    except decision.NotSameWorkError as error:
        raise UserInputError(
            f"--candidate: given a run of other work than the baseline's: "
            f"{differences_words(error.differences)}, allowed: one with the same prompts, loads "
            "and temperature; next: give the server's address, and these requests are sent to it"
        ) from error
    except decision.NothingToJudgeError as error:
        raise UserInputError(
            "--candidate: given a run that shares no server's name and load with the baseline's "
            "where a token has a cost, allowed: one that does; next: measure both with the same "
            "--name and --concurrency"
        ) from error
    except decision.NotMeasuredWellError as error:
        raise DraftworthError(
            f"no decision: run {one_line(error.run_id)}: {words_of(error.doubt)}"
        ) from error


def _is_address(place: str) -> bool:
    return place.startswith(("http://", "https://"))


def _spec(url: str, baseline: str) -> RunSpec:
    """Return the specification with which a candidate is measured: that of the baseline's run."""
    if baseline.startswith(S3_SCHEME):
        raise UserInputError(
            f"--candidate: given an address with --baseline {baseline}, allowed: with a run in a "
            "local folder, whose prompts are there; next: copy the run"
        )
    begun = read_begun_run(Path(baseline))
    resuming.check_recorded(begun)
    if len(begun.spec.endpoints) > 1:
        names = ", ".join(endpoint.variant for endpoint in begun.spec.endpoints)
        raise UserInputError(
            f"--candidate: given an address, but {baseline} measured several servers ({names}), "
            "allowed: with a run of `measure`; next: measure one server, or give a RUN"
        )
    (endpoint,) = begun.spec.endpoints
    base_url = arguments.base_url(url, option="--candidate")
    return replace(begun.spec, endpoints=(replace(endpoint, base_url=base_url),))


def _measured(spec: RunSpec, out: Path) -> str:
    """Measure the candidate, and return the folder of its run."""
    folder = out / new_run_id(spec.experiment)
    (endpoint,) = spec.endpoints
    result = measure.measured(spec, folder, {endpoint.variant: "--candidate"})
    if result.status == "failed":
        raise DraftworthError(f"--candidate: the run {folder} failed: {result.reason}")
    print(f"note: the candidate's run is {folder}", file=sys.stderr)
    return str(folder)


def _pooled(places: Sequence[str], *, option: str) -> Run:
    runs: list[Run] = []
    for place in places:
        with local_run(place) as folder:
            runs.append(read_run(folder))
    try:
        return pooled(runs)
    except NotPooledError as error:
        raise UserInputError(f"{option}: {not_pooled_words(error.why)}") from error


def _history_in(path: Path | None) -> str:
    """Return the text of the history so far; empty if there is none."""
    if path is None or not path.exists():
        return ""
    try:
        with open_file(path) as file:
            return read_at_most(file, DOCUMENT_LIMIT_BYTES).decode()
    except (OSError, TooLargeError, UnicodeDecodeError) as error:
        raise UserInputError(f"--history: {path}: cannot be read: {error}") from error


def _write(
    options: argparse.Namespace, answer: Gate, history: str, *, undecided_fails: bool
) -> None:
    if options.junit:
        _write_file(options.junit, gate_files.junit_of(answer, undecided_fails=undecided_fails))
    if options.markdown:
        _write_file(options.markdown, markdown_of(answer).encode())
    if options.history:
        try:
            text = gate_files.history_with(answer, history)
        except ValueError as error:
            raise UserInputError(
                f"--history: {options.history}: {error}; next: give another file for this gate"
            ) from error
        _write_file(options.history, text.encode())


def _write_file(path: Path, data: bytes) -> None:
    try:
        write_file(path, data)
    except OSError as error:
        raise DraftworthError(f"{path}: cannot be written: {error.strerror}") from error
