"""`draftworth --help` lists the commands in groups, by what a person wants to do."""

from pathlib import Path

import pytest

from draftworth.cli import COMMANDS, GROUPS
from tests.draftworth.conftest import Ran
from tests.support.snapshot import assert_snapshot


def test_help_lists_the_commands_by_group(
    capsys: pytest.CaptureFixture[str], ran: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit, match="0"):
        ran("--help")
    text = capsys.readouterr().out
    assert_snapshot(text, Path(__file__).parent / "snapshots" / "help.txt")
    assert ran(code=2) == text


def test_every_command_is_in_exactly_one_group() -> None:
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(COMMANDS)
