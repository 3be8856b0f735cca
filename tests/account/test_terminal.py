"""How tables, durations and sizes look in the terminal."""

from __future__ import annotations

import pytest

from account.terminal import aligned, duration_text, right, size_text


def test_a_table_is_aligned_and_its_lines_end_without_blanks() -> None:
    rows = [("one", "1.5", "a"), ("eleven", "10.0", "b")]
    assert list(aligned(rows, ("name", right("usd"), "what"))) == [
        "name     usd  what",
        "one      1.5  a",
        "eleven  10.0  b",
    ]


def test_without_headings_a_table_begins_with_its_first_row() -> None:
    assert list(aligned([("a", "b")])) == ["a  b"]


def test_brackets_are_no_markup_and_long_cells_stay_in_one_line() -> None:
    long = "word " * 400 + "[red]end[/red]"
    assert list(aligned([("a", long)])) == [f"a  {long}"]


def test_a_cell_of_two_lines_keeps_its_column() -> None:
    assert list(aligned([("a", "one\ntwo"), ("bb", "three")])) == [
        "a   one",
        "    two",
        "bb  three",
    ]


def test_a_terminal_with_colours_gets_no_codes_in_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert list(aligned([("a", "1")], ("name", "count"))) == ["name  count", "a     1"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (119, "119 s"),
        (2460, "41 min"),
        (3 * 3600, "3 h"),
        (47 * 3600, "47 h"),
        (12 * 86_400, "12 days"),
    ],
)
def test_a_duration_is_told_in_the_largest_unit_of_which_there_are_two(
    seconds: float, text: str
) -> None:
    assert duration_text(seconds) == text


@pytest.mark.parametrize(
    ("size_bytes", "text"), [(2000, "2,000 bytes"), (3 * 1024**3 // 2, "1.50 GiB")]
)
def test_a_size_is_told_in_bytes_or_gib(size_bytes: int, text: str) -> None:
    assert size_text(size_bytes) == text
