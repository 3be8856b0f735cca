"""How tables look in the terminal."""

from __future__ import annotations

import pytest

from draftworth.terminal import table_lines


def test_a_table_is_aligned_and_its_lines_end_without_blanks() -> None:
    rows = [("one", "1.5", "a"), ("eleven", "10.0", "b")]
    assert list(table_lines(rows, ("name", "usd", "what"), numbers=(1,))) == [
        "name     usd  what",
        "one      1.5  a",
        "eleven  10.0  b",
    ]


def test_without_headings_a_table_begins_with_its_first_row() -> None:
    assert list(table_lines([("a", "b")])) == ["a  b"]


def test_brackets_are_no_markup_and_long_cells_stay_in_one_line() -> None:
    long = "word " * 400 + "[red]end[/red]"
    assert list(table_lines([("a", long)])) == [f"a  {long}"]


def test_a_cell_of_two_lines_keeps_its_column() -> None:
    assert list(table_lines([("a", "one\ntwo"), ("bb", "three")])) == [
        "a   one",
        "    two",
        "bb  three",
    ]


def test_a_terminal_with_colours_gets_no_codes_in_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert list(table_lines([("a", "1")], ("name", "count"))) == ["name  count", "a     1"]
