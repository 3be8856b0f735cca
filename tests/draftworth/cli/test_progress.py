"""A run's progress on standard error, in a terminal and in a pipe."""

import io
import re
import sys

import pytest

from draftworth.cli.progress import shown_progress, time_left
from draftworth.measuring.schedule import PlannedBlocks
from tests.support.terminal import Terminal

PLANNED = PlannedBlocks(least=32, most=112)


def printed(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", stream)
    with shown_progress() as progress:
        progress.line("[block 8 of 32 to 112] \x1b[2J")
        progress.advanced(8, PLANNED)
        progress.advanced(16, PLANNED)
    return stream.getvalue()


def test_a_terminal_bar_has_blocks_and_time_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", printed(Terminal(), monkeypatch))
    assert "16 of 32 to 112 blocks, 0 min left" in text
    assert "[block 8 of 32 to 112] \\x1b[2J" in text


def test_a_pipe_has_plain_lines_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert printed(io.StringIO(), monkeypatch) == "[block 8 of 32 to 112] \x1b[2J\n"


def test_time_left_is_that_of_the_remaining_blocks() -> None:
    assert time_left(PLANNED, 12, 10, 60.0) == ", 2 to 10 min left"
    assert time_left(PLANNED, 40, 40, 60.0) == ", 0 to 2 min left"
    assert time_left(PLANNED, 2, 0, 0.0) == ""
