"""Forms of YAML that experiment files may not use are refused by line; plain YAML is read."""

from pathlib import Path

import pytest

from draftworth.errors import ExperimentError, Problem
from draftworth.experiment.yaml_source import MAX_DEPTH, MAX_VALUES, ExperimentSource
from draftworth.untrusted import printable
from tests.hostile.fuzzing import bounded
from tests.support.snapshot import assert_snapshot


def source(text: str) -> ExperimentSource:
    return ExperimentSource(Path("text"), text)


BOMB = "a: &a [x, x]\n" + "".join(f"{b}: &{b} [*{a}, *{a}]\n" for a, b in ("ab", "bc", "cd"))

# Pairs of the line that the message must name and the text that is refused.
REFUSED: list[tuple[int | None, str]] = [
    (2, BOMB),
    (1, "a: &a [*a]"),
    (2, "a: &a b\n*a : c"),
    (2, "a: 1\n<<: {b: 2}"),
    (2, "a:\n  !!python/object/apply:os.system [id]"),
    (1, "!!str a: 1"),
    (1, "a: !!binary aGk="),
    (1, "[" * 100_000),
    (1, "{a: " * 100_000),
    (1, "- " * 100_000),
    (1, "? " * 100_000),
    (5_000, "- a\n" * 60_000),
    (2, "a: 1\nb: \0"),
    (3, "a: 1\nb: 2\na: 3"),
    (2, "a:\n  1: one"),
    (1, "~: one"),
    (1, "[a]: b"),
    (2, "a: 1\n---\nb: 2"),
    (1, 'a: "\\UFFFFFFFF"'),
    (1, 'a: "\\ud800"'),
    (10_002, 'a: 1\nb: "' + "x\n" * 10_000),
    (2, "a:\n\tb: 1"),
    (3, "a: 1\nb:2\n"),
    (2, "a: b\n  c: d"),
    (1, "%YAML 3.0\n---\na: 1"),
]


def test_unused_forms_of_yaml_are_refused_by_line() -> None:
    refusals = [refusal(text) for _, text in REFUSED]
    assert [problem.line for problem in refusals] == [line for line, _ in REFUSED]
    assert_words(refusals, "not_plain_yaml.txt")


def refusal(text: str) -> Problem:
    with bounded(loops=5), pytest.raises(ExperimentError) as refused:
        source(text)
    (problem,) = refused.value.problems
    return problem


def assert_words(problems: list[Problem], name: str) -> None:
    lines = "\n".join(problem.render(Path("text")) for problem in problems).splitlines()
    text = "".join(f"{printable(line)[:200]}\n" for line in lines)
    assert_snapshot(text, Path(__file__).with_name(name))


def test_depth_and_size_are_allowed_to_the_limit() -> None:
    assert source("[" * MAX_DEPTH + "]" * MAX_DEPTH).data
    entries = MAX_VALUES - 1  # the list itself counts as a value
    assert len(source("- a\n" * entries).data) == entries


WRONG_VALUES = [
    "a: 9223372036854775808",
    "a: -9223372036854775809",
    "a: " + "9" * 5_000,
    "a: 1e999",
    "a: -.inf",
    "a: .nan",
    'a: "\\e[2J"',
    "a: x\u202ey",
    "a: x\u00ady",
    "a: " + "x" * 1_001,
    "a: '{{resolve:ssm:/secret}}'",
    "a: ${AWS::Region}",
    "a: ${Token[TOKEN.1]}",
    "a: '#{Token[TOKEN.1]}'",
    "? ${AWS::Region}\n: a",
    "a: $(HOSTNAME)",
]


def test_text_and_numbers_that_no_experiment_may_have() -> None:
    problems_of_each = [source(text).problems for text in WRONG_VALUES]
    assert {len(problems) for problems in problems_of_each} == {1}
    assert_words([problem for (problem,) in problems_of_each], "wrong_values.txt")


def test_plain_values_are_read_with_their_lines() -> None:
    read = source(
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
        "a": (1, -31, 15, 12, 1_000, 0.5, -1e3, True, False, None, None),
        "b": ({"c": "2026-03-15", "d": "on"}, "no"),
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
    assert [source(text).data for text in ("", "# a comment\n", "---\n")] == [None] * 3
