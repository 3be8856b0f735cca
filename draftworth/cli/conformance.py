"""`draftworth conformance -- COMMAND {url}` checks which figures of a load generator are right."""

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from draftworth.cli.arguments import positive_number
from draftworth.errors import DraftworthError, UserInputError, counted
from draftworth.terminal import table_lines
from draftworth.truth.token_timeline import TRAPS
from draftworth.truth.tool_reports import FORMS
from draftworth.truth.trial import TOLERANCE_PERCENT, attempt, judged

_HEADINGS = ("trap", "figure", "truth", "the tool", "difference", "")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the load generator's command, its report's format, the traps, tolerance and time limit.

    In a trap, the load generator is run against a server that sends tokens at known times, in a way
    that load generators often measure wrongly.
    """
    add = parser.add_argument
    words = "after --: the tool; {url} becomes a server's base URL, {folder} a folder for its files"
    add("command", nargs="+", metavar="COMMAND", help=words)
    words = "form of the report; lines: JSON lines on standard output (docs/conformance.md)"
    add("--form", choices=FORMS, default="lines", help=words)
    words = "only this trap; may be given several times (default: all)"
    add("--trap", choices=TRAPS, action="append", help=words)
    words = "how far a time may be off; give more on a busy machine (%(default)g)"
    add("--tolerance-percent", type=positive_number, default=TOLERANCE_PERCENT, help=words)
    add(
        "--timeout-seconds",
        type=positive_number,
        default=120.0,
        help="how long a trap may take (%(default)g)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the load generator in each trap, print which figures are right; return 1 if one is wrong.

    In a trap, the load generator is run against a server that sends tokens at known times, in a way
    that load generators often measure wrongly.
    """
    if not any("{url}" in part for part in arguments.command):
        raise UserInputError(
            "COMMAND: given without {url}, allowed: a command that has it where the base URL of a "
            "server stands; next: draftworth conformance -- my-tool --base-url {url}"
        )
    traps = dict.fromkeys(arguments.trap or TRAPS)
    rows: list[tuple[str, ...]] = []
    for trap in traps:
        print(f"{trap} ...", file=sys.stderr)
        rows += _rows(arguments, trap)
    for line in table_lines(rows, _HEADINGS, numbers=(2, 3, 4)):
        print(line)
    wrong = [trap for trap in traps if any(row[0] == trap and row[-1] != "right" for row in rows)]
    for trap in wrong:
        print(f"{trap}: {TRAPS[trap].mistake}.")
    print(
        f"Medians over the requests. A time is right within {arguments.tolerance_percent:g}%: a "
        "trap moves a figure by a quarter or more, a busy machine by less. A number of tokens is "
        "exact. "
        "A figure that the tool does not give is not judged."
    )
    print(f"Wrong in {len(wrong)} of {counted(len(traps), 'trap')}." if wrong else "All right.")
    return 1 if wrong else 0


def _rows(arguments: argparse.Namespace, trap: str) -> Iterator[tuple[str, ...]]:
    with tempfile.TemporaryDirectory() as folder:
        try:
            trial = attempt(
                arguments.command,
                TRAPS[trap].spec,
                Path(folder),
                form=arguments.form,
                timeout_seconds=arguments.timeout_seconds,
            )
            for each in judged(trial, arguments.tolerance_percent):
                figures = (
                    f"{each.truth:.2f}",
                    f"{each.reported:.2f}",
                    f"{each.error_percent:+.1f}%",
                )
                yield trap, each.figure, *figures, "right" if each.right else "WRONG"
        except UserInputError:
            raise
        except DraftworthError as error:
            yield trap, "none", "", "", "", f"WRONG: {error}"
