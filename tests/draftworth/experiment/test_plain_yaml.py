"""YAML that no experiment uses, each with its line and reason; and what is read of plain YAML."""

from __future__ import annotations

from itertools import count

import pytest

from draftworth.experiment.yaml_source import MAX_DEPTH, MAX_VALUES, NotPlainError, PlainYaml
from tests.hostile.fuzzing import bounded

BOMB = "a: &a [x, x]\n" + "".join(f"{b}: &{b} [*{a}, *{a}]\n" for a, b in ("ab", "bc", "cd"))

# text, line, pieces of what was given and why not
REFUSED: dict[str, tuple[str, int | None, str, str]] = {
    "aliases of aliases": (BOMB, 2, "the alias *a", "where it counts"),
    "a list in itself": ("a: &a [*a]", 1, "the alias *a", "where it counts"),
    "an alias as a key": ("a: &a b\n*a : c", 2, "the alias *a", "where it counts"),
    "a merge key": ("a: 1\n<<: {b: 2}", 2, "the merge key <<", "where it counts"),
    "a tag of Python": ("a:\n  !!python/object/apply:os.system [id]", 2, "python", "of a program"),
    "a tag of a key": ("!!str a: 1", 1, "the tag", "of a program"),
    "a tag for text": ("a: !!binary aGk=", 1, "the tag", "of a program"),
    "a hundred thousand brackets": ("[" * 100_000, 1, "greater depth", "so deep"),
    "a hundred thousand braces": ("{a: " * 100_000, 1, "greater depth", "so deep"),
    "a hundred thousand hyphens": ("- " * 100_000, 1, "greater depth", "so deep"),
    "keys of keys": ("? " * 100_000, 1, "a list or mapping as a key", "not text"),
    "too many values": ("- a\n" * 60_000, 5_000, "more than 5,000 values", "so many"),
    "NUL": ("a: 1\nb: \0", 2, "not YAML", "U+0000"),
    "a key twice": ("a: 1\nb: 2\na: 3", 3, 'duplicate key "a"', "only one can count"),
    "a number as a key": ("a:\n  1: one", 2, "the key 1", "in quotes"),
    "nothing as a key": ("~: one", 1, "the key None", "in quotes"),
    "a list as a key": ("[a]: b", 1, "a list or mapping as a key", "not text"),
    "a second document": ("a: 1\n---\nb: 2", 2, "a second document", "one"),
    "a character beyond Unicode": ('a: "\\UFFFFFFFF"', None, "not YAML", "too large"),
    "an open quote": ('a: 1\nb: "' + "x\n" * 10_000, 10_002, "not YAML", "end of stream"),
    "a tab": ("a:\n\tb: 1", 2, "not YAML", "takes no tab"),
    "no blank after a colon": ("a: 1\nb:2\n", 3, "not YAML", "a colon and a blank"),
    "a key where a value is": ("a: b\n  c: d", 2, "not YAML", "look at the indentation"),
    "another version of YAML": ("%YAML 3.0\n---\na: 1", 1, "not YAML", "incompatible"),
}


@pytest.mark.parametrize(("text", "line", "given", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_no_experiment_uses_is_refused_at_its_line(
    text: str, line: int | None, given: str, reason: str
) -> None:
    with bounded(loops=5), pytest.raises(NotPlainError) as refused:
        PlainYaml(text)
    problem = refused.value.problem
    assert given in problem.given
    assert reason in problem.reason
    assert problem.line == line


def test_depth_and_number_are_allowed_up_to_the_limit() -> None:
    assert PlainYaml("[" * MAX_DEPTH + "]" * MAX_DEPTH).data
    entries = MAX_VALUES - 1  # the list is a value too
    assert len(PlainYaml("- a\n" * entries).data) == entries


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 9223372036854775808", "at most 64 bits"),
        ("a: -9223372036854775809", "at most 64 bits"),
        ("a: " + "9" * 5_000, "at most 64 bits"),
        ("a: 1e999", "a finite number"),
        ("a: -.inf", "a finite number"),
        ("a: .nan", "a finite number"),
        ('a: "\\e[2J"', "characters that are seen"),
        ('a: "\\ud800"', "characters that are seen"),
        ("a: x\u202ey", "characters that are seen"),
        ("a: x\u00ady", "characters that are seen"),
        ("a: " + "x" * 1_001, "at most 1,000 characters"),
        ("a: '{{resolve:ssm:/secret}}'", "{{resolve:"),
        ("a: ${AWS::Region}", "${"),
        ("a: ${Token[TOKEN.1]}", "${"),
        ("a: '#{Token[TOKEN.1]}'", "#{Token["),
        ("? ${AWS::Region}\n: a", "${"),
        ("a: $(HOSTNAME)", "$("),
    ],
    ids=count(),
)
def test_text_and_numbers_that_no_experiment_may_have(text: str, problem: str) -> None:
    (found,) = PlainYaml(text).problems
    assert problem in found.allowed


def test_plain_values_are_read_with_their_lines() -> None:
    read = PlainYaml(
        "a: [1, -0x1F, 0o17, 012, 1_000, .5, -1e3, true, False, ~, null]\n"
        "b:\n"
        "  - {c: 2026-03-15, d: 'on'}\n"
        "  - no\n"
        "e: 2026-13-45 # no date, and text here\n"
        'f: "é 日本 🚀"\n'
        "g: |\n"
        "  two\n"
        "  lines\n"
        "h: =\n"
        "i: -_\n"
        "j: 9223372036854775807\n"
    )
    assert read.problems == []
    assert read.data == {
        "a": [1, -31, 15, 12, 1_000, 0.5, -1e3, True, False, None, None],
        "b": [{"c": "2026-03-15", "d": "on"}, "no"],
        "e": "2026-13-45",
        "f": "é 日本 🚀",
        "g": "two\nlines\n",
        "h": "=",
        "i": "-_",
        "j": 2**63 - 1,
    }
    places = {("a",): 1, ("b",): 2, ("b", 0): 3, ("b", 0, "d"): 3, ("b", 1): 4, ("h",): 10}
    assert places.items() <= read.lines.items()


def test_nothing_is_read_of_an_empty_text() -> None:
    assert [PlainYaml(text).data for text in ("", "# a comment\n", "---\n")] == [None] * 3
