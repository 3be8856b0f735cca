"""Outputs that a program of the user's scores: real programs, as they are named on the line."""

import shlex
import sys
from pathlib import Path

import pytest

from draftworth.records.results import TRANSCRIPT_SUFFIX
from tests.draftworth.conftest import Ran
from tests.draftworth.report.runs import make_run, write_run

LONGER = """
import json, sys
for line in sys.stdin:
    pair = json.loads(line)
    print(json.dumps({side: len(pair[f"{side}_text"]) for side in ("baseline", "variant")}))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The variant's structured outputs are four characters longer."""
    run = make_run()
    drafted = [
        record.request_id
        for block in run.blocks
        if (block.variant, block.prompt_class) == ("k7", "structured")
        for record in block.requests
    ]
    texts = dict.fromkeys(drafted, "the same text, yes")
    return write_run(run, tmp_path / "run", texts=texts)


def program(text: str) -> str:
    return shlex.join([sys.executable, "-c", text])


def test_scores_of_both_sides_are_compared_with_an_interval(folder: Path, ran: Ran) -> None:
    said = ran("report", folder, "--score", program(LONGER))
    scores = said.partition("Scores of the outputs")[2]
    structured, open_ended = (
        next(line.split() for line in scores.splitlines() if name in line)
        for name in ("structured", "open_ended")
    )
    assert structured == [
        *("structured", "c4", "k7", "13.000", "+5.000", "5.000", "to", "5.000", "8", "16")
    ]
    assert open_ended[4] == "+0.000"


@pytest.mark.parametrize(
    ("command", "exit_code", "said"),
    [
        ("no-such-program", 1, "cannot be started"),
        ("'", 2, "No closing quotation"),
        ("", 2, "allowed: a command"),
        (program("raise SystemExit('no model here')"), 1, "exit code 1: no model here"),
        (program("print('{}')"), 2, "given 1 lines, allowed: 32"),
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
    folder: Path, command: str, exit_code: int, said: str, ran: Ran
) -> None:
    assert said in ran("report", folder, "--score", command, code=exit_code)


def test_a_run_without_transcripts_has_nothing_to_score(folder: Path, ran: Ran) -> None:
    for file in (folder / "blocks").glob(f"*{TRANSCRIPT_SUFFIX}"):
        file.unlink()
    assert "copy the whole folder" in ran("report", folder, "--score", program(LONGER), code=2)
