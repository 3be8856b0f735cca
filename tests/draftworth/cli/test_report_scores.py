"""`report --score` with real programs, which are given as a user gives them on the command line."""

import shlex
import shutil
import sys
from pathlib import Path

import pytest

from draftworth.cli.report_scores import Limits, limits_of, output_of
from draftworth.errors import DraftworthError
from draftworth.records.results import TRANSCRIPT_SUFFIX
from tests.draftworth.conftest import Ran
from tests.draftworth.report.runs import make_run, write_run
from tests.support.waiting import HANGS_AFTER_SECONDS

LONGER = """
import json, sys
for line in sys.stdin:
    pair = json.loads(line)
    print(json.dumps({side: len(pair[f"{side}_text"]) for side in ("baseline", "variant")}))
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run's folder; outputs of the variant in `structured` are longer by four characters."""
    run = make_run()
    drafted = [
        record.request_id
        for block in run.blocks
        if (block.variant, block.prompt_class) == ("k7", "structured")
        for record in block.requests
    ]
    texts = dict.fromkeys(drafted, "the same text, yes")
    return write_run(run, tmp_path_factory.mktemp("written") / "run", texts=texts)


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    return shutil.copytree(written, tmp_path / "run")


def program(text: str) -> str:
    return shlex.join([sys.executable, "-c", text])


def for_each(line: str) -> str:
    """A program that writes `line`, a Python expression, for each pair of outputs.

    The expression can call `json(plain, drafted)`, which makes the line of two scores.
    """
    json = (
        "json = lambda plain, drafted: b'%s\\n' % "
        "dumps({'baseline': plain, 'variant': drafted}).encode()\n"
    )
    return f"from json import dumps\nimport sys\n{json}for _ in sys.stdin: {writes(line)}"


def writes(data: str, to: str = "stdout") -> str:
    return f"import sys; sys.{to}.buffer.write({data})"


@pytest.mark.parametrize(
    "line",
    [
        """b'{"baseline": 1, "variant": 2}\\r\\n'""",
        """'{"baseline": 1, "variant": 2, "why": "a\u2028b\\x85c"}\\n'.encode()""",
    ],
)
def test_lines_end_where_json_lines_end(folder: Path, ran: Ran, line: str) -> None:
    assert "+1.000" in ran("report", folder, "--score", program(for_each(line)))


def test_a_program_may_write_notes_and_ignore_input(folder: Path, ran: Ran) -> None:
    text = """
import sys
sys.stdin.close()
for _ in range(32):
    sys.stderr.write("x" * 2**17)
    print('{"baseline": 1, "variant": 2}')
"""
    assert "+1.000" in ran("report", folder, "--score", program(text))


FOREVER = "import sys\nwhile True: sys.{to}.write('x' * 2**16)"
SILENT = "import time; time.sleep(10**6)"
CLOSED = f"import os; os.close(1); os.close(2); {SILENT}"
A_CHILD = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {SILENT!r}])"


@pytest.mark.parametrize(
    ("text", "seconds", "words"),
    [
        (FOREVER.format(to="stdout"), 10**6, "wrote more than 1,000 bytes to standard output;"),
        (FOREVER.format(to="stderr"), 0.2, "did not end within 0.2 s; allowed: 600 s and 60 s"),
        (SILENT, 0.5, "was stopped: it did not end within"),
        (CLOSED, 0.5, "was stopped: it did not end within"),
        (A_CHILD, 0.5, "was stopped: it did not end within"),
    ],
)
def test_a_program_without_an_end_is_stopped(text: str, seconds: float, words: str) -> None:
    with pytest.raises(DraftworthError, match=words) as raised:
        output_of(program(text), b"", Limits(seconds=seconds, output_bytes=1_000))
    assert "next: let it" in str(raised.value)


def test_a_programs_leftover_processes_are_not_waited_for() -> None:
    """A process that the program started holds standard error open, but only the program counts."""
    left = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {SILENT!r}], stdout=2)"
    text = f"{left}; sys.stdout.write('scores'); sys.stderr.write('words'); sys.exit(3)"
    limits = Limits(seconds=HANGS_AFTER_SECONDS, output_bytes=1_000)
    assert output_of(program(text.removesuffix("; sys.exit(3)")), b"", limits) == b"scores"
    with pytest.raises(DraftworthError, match="exit code 3: words"):
        output_of(program(text), b"", limits)


def test_hundreds_of_pairs_may_take_hours() -> None:
    assert limits_of(500) == Limits(seconds=30_600.0, output_bytes=500 * 2**16)


def test_scores_are_compared_with_an_interval(folder: Path, ran: Ran) -> None:
    output = ran("report", folder, "--score", program(LONGER))
    scores = output.partition("Scores of the outputs")[2]
    structured, open_ended = (
        next(line.split() for line in scores.splitlines() if name in line)
        for name in ("structured", "open_ended")
    )
    where, figures = structured[:6], structured[6:]
    assert where == ["structured", "4", "at", "a", "time", "k7"]
    assert figures == ["13.000", "+5.000", "5.000", "to", "5.000", "8", "16"]
    assert open_ended[7] == "+0.000"


@pytest.mark.parametrize(
    ("command", "exit_code", "message"),
    [
        ("no-such-program", 1, "cannot be started"),
        ("'", 2, "No closing quotation"),
        ("", 2, "allowed: a command"),
        (program("raise SystemExit('no model here')"), 1, "exit code 1: no model here"),
        (program("raise SystemExit(3)"), 1, "exit code 3: no words"),
        (program("import os; os.kill(os.getpid(), 9)"), 1, "was ended by signal 9 (Killed): no"),
        (program(writes(r"b'no model\xff\n'", to="stderr") + "; 1 / 0"), 1, "ZeroDivisionError"),
        ("a\0b", 1, "cannot be started: embedded null byte"),
        (program("print('{}')"), 2, "given 1 line, allowed: 32"),
        (program("print('{}' * 40)"), 2, "given 1 line, allowed: 32"),
        (program("print('{}\\n' * 40)"), 2, "given 41 lines, allowed: 32"),
        (program("import sys; sys.stdin.close(); print('{}')"), 2, "given 1 line, allowed: 32"),
        (program(for_each(r"b'\xff\n'")), 2, "line 1: given \ufffd, allowed: {"),
        (program(for_each(r"b'{}\x1b[2J\n'")), 2, "line 1: given {}\\x1b[2J, allowed: {"),
        (program(for_each("json(1, 10**400)")), 2, "line 1: given {"),
        (program(for_each("json(1e300, -1e300)")), 2, "finite numbers up to 1e+100"),
        (program(for_each("json(1, 'nan')")), 2, "finite numbers up to 1e+100"),
        (program(for_each("""b'{"baseline": 1, "variant": 1, "variant": 2}\\n'""")), 2, "line 1: "),
        (program("for line in open(0): print('{\"baseline\": 1}')"), 2, "line 1: given {"),
        (program("for line in open(0): print('nan')"), 2, "line 1: given nan"),
        (
            program('for line in open(0): print(\'{"baseline": 1, "variant": "inf"}\')'),
            2,
            "finite",
        ),
    ],
)
def test_a_program_that_does_not_score_is_told(
    folder: Path, command: str, exit_code: int, message: str, ran: Ran
) -> None:
    assert message in ran("report", folder, "--score", command, code=exit_code)


def test_a_run_without_transcripts_has_nothing_to_score(folder: Path, ran: Ran) -> None:
    for file in (folder / "blocks").glob(f"*{TRANSCRIPT_SUFFIX}"):
        file.unlink()
    assert "copy the whole folder" in ran("report", folder, "--score", program(LONGER), code=2)
