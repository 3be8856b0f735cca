"""`draftworth --help` lists the commands in groups, by what a person wants to do."""

import subprocess
import sys
from pathlib import Path

import pytest

from draftworth.cli import COMMANDS, GROUPS, rehearse_command
from rehearsal.trained import fetching
from tests.conftest import ROOT
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


# What an installation with `pip install .` lacks: libraries of extras, and folders of a checkout.
LACKING = (
    *("boto3", "botocore", "jmespath", "matplotlib", "PIL", "tokenizers", "transformers", "torch"),
    *("aws_cdk", "cdk8s", "constructs", "moto", "charts", "stacks", "pods", "lambdas", "rehearsal"),
)
EVERY_HELP = f"""
import sys
sys.modules |= dict.fromkeys({LACKING!r})  # an import of one of these raises ModuleNotFoundError
from draftworth.cli import COMMANDS, main
for name in COMMANDS:
    try:
        main([name, "--help"])
    except SystemExit as end:
        print("exit", end.code)
"""


def test_every_help_needs_no_more_than_the_package() -> None:
    done = subprocess.run(
        [sys.executable, "-c", EVERY_HELP], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert done.stdout.count("usage: draftworth ") == len(COMMANDS)
    assert done.stdout.count("exit 0") == len(COMMANDS)


@pytest.mark.parametrize("command", ["compare", "stop"])
def test_help_as_a_command_is_its_help(
    command: str, capsys: pytest.CaptureFixture[str], ran: Ran
) -> None:
    texts = []
    for line in (["help"], ["--help"], ["help", command], [command, "--help"]):
        with pytest.raises(SystemExit, match="0"):
            ran(*line)
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] != texts[2] == texts[3]
    assert "given 'no-command'" in ran("help", "no-command", code=2)


def test_the_pairs_of_the_help_are_those_fetched() -> None:
    assert (*fetching.PAIRS,) == rehearse_command.PAIRS
