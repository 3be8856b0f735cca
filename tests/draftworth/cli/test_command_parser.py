"""Mistakes in a command line: each message says where, what was given and what is allowed."""

import argparse

import pytest

from draftworth.cli.command_parser import CommandParser
from draftworth.errors import UserInputError
from tests.draftworth.conftest import Ran

SECRET = "hunter2"

# Command lines with a mistake, and how the message begins.
MISTAKES: tuple[tuple[str, str], ...] = (
    ("plan", "experiment: given nothing, allowed: experiment file, YAML; next: draftworth plan --"),
    ("plan a.yaml b.yaml", "plan: given 'b.yaml', allowed: experiment; next: leave it"),
    (
        "plan --verbos a.yaml",
        "--verbos: draftworth plan has no such option; did you mean '--verbose'?",
    ),
    ("plan a.yaml --json=1", "--json: given with the value '1', allowed: --json alone; next: "),
    ("plan a.yaml --json --verbose", "--verbose: given with --json, allowed: one of the two; nex"),
    ("plan a.yaml --assume", "--assume: given without a value, allowed: --assume VALUE, or --ass"),
    ("plan -x a.yaml", "-x: draftworth plan "),
    (
        "measure --concurency 4",
        "--concurency: draftworth measure ",
    ),
    (
        "measure --conc 4",
        "--conc: draftworth measure has no such option; did you mean '--concurrency'",
    ),
    (
        "measure --output 4",
        "--output: draftworth measure ",
    ),
    ("compare http://u:hunter2@h", "compare: given an address with a password, allowed"),
    ("compare --basline=http://u:hunter2@h", "--basline: draftworth "),
    ("measure --cache hot", "--cache: given 'hot', allowed: 'cold', 'salted', 'warm'; next: draft"),
    ("measure --cache wram", "--cache: given 'wram', allowed: 'cold', 'salted', 'warm'; did you m"),
    ("prompts improt x", "ACTION: given 'improt', allowed: 'import', 'choose'; did you mean 'impo"),
    ("prompts import x --formt openai", "--formt: draftworth prompts "),
    ("completion fishh", "shell: given 'fishh', allowed: "),
    ("--versoin", "--versoin: draftworth has no such option; did you mean '--version'?"),
)


@pytest.mark.parametrize(("words", "message"), MISTAKES)
def test_a_wrong_command_line_is_one_sentence(words: str, message: str, ran: Ran) -> None:
    output = ran(*words.split(), code=2)
    assert output.startswith(f"draftworth: {message}")
    assert output.count("\n") == 1
    assert "--help" in output
    assert SECRET not in output


def test_a_message_of_another_form_stays() -> None:
    with pytest.raises(UserInputError, match="something else; next: x --help"):
        CommandParser(prog="x").error("something else")


def test_the_beginning_of_an_option_is_none() -> None:
    """argparse itself would take it, which this test shows with a parser of its own."""
    plain, ours = argparse.ArgumentParser(), CommandParser(prog="x")
    for parser in (plain, ours):
        parser.add_argument("--concurrency")
    assert plain.parse_args(["--conc", "4"]).concurrency == "4"
    with pytest.raises(UserInputError, match="did you mean '--concurrency'"):
        ours.parse_args(["--conc", "4"])


def test_words_after_two_hyphens_are_arguments() -> None:
    parser = CommandParser(prog="x")
    parser.add_argument("command", nargs="+")
    assert parser.parse_args(["--", "tool", "--url"]).command == ["tool", "--url"]
