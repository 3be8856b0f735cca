"""Reads the rows of a table (CSV), whose first row names the columns.

No message contains text of the file.
"""

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from draftworth.errors import PromptSetError
from draftworth.importing.json_objects import LIMIT_BYTES, refuse_other_formats
from draftworth.untrusted import MIB

SUFFIXES = (".csv", ".tsv")
# Spreadsheets write semicolons where numbers have a decimal comma.
_DELIMITERS = ",;\t|"
_HEAD_BYTES = 16
_MOST_COLUMNS = 1_000


def rows_of(file: io.BufferedReader, path: Path) -> Iterator[tuple[str, dict[str, str], str]]:
    """Yield (place, cells by column, problem) of each row that is not empty.

    The place is the row's first line; the problem says why a row cannot be used, or is empty.
    PromptSetError: the file cannot be read to its end.
    """
    refuse_other_formats(file.peek(_HEAD_BYTES), path)
    rows = _rows(_Lines(file, path))
    _, names = next(rows, (0, []))
    header = _header(names, path)
    for number, cells in rows:
        if len(cells) > len(header):
            yield f"line {number}", {}, "with more cells than the first row has columns"
        else:
            yield f"line {number}", dict(zip(header, cells, strict=False)), ""


class _Lines:
    """The lines of a file, as long as no row of the table is longer than LIMIT_BYTES."""

    def __init__(self, file: io.BufferedReader, path: Path) -> None:
        self._file = file
        self._path = path
        self.number = 0
        self.row_bytes = 0

    def __iter__(self) -> "_Lines":
        return self

    def __next__(self) -> str:
        line = self._file.readline(LIMIT_BYTES + 1)
        if not line:
            raise StopIteration
        self.number += 1
        self.row_bytes += len(line)
        if self.row_bytes > LIMIT_BYTES:
            raise self.broken(self.number)
        return line.decode("utf-8-sig" if self.number == 1 else "utf-8")

    def broken(self, number: int) -> PromptSetError:
        return PromptSetError(
            f"{self._path}: line {number:,}: the table cannot be read further: a quotation mark "
            "that is not closed or not doubled, a line break outside of quotation marks, or a row "
            f"of more than {LIMIT_BYTES // MIB} MiB; next: write the file again with a CSV "
            "library, or as JSON Lines"
        )


def _rows(lines: _Lines) -> Iterator[tuple[int, list[str]]]:
    """Yield (number of its first line, cells) of each row that is not empty."""
    # The reader's usual limit is 128 KiB. It is of the whole process, so it is put back.
    usual_limit = csv.field_size_limit(LIMIT_BYTES)
    first = next(lines, "")
    number = 1
    try:
        for cells in csv.reader(_after(first, lines), delimiter=_delimiter(first), strict=True):
            if any(cells):
                yield number, cells
            number, lines.row_bytes = lines.number + 1, 0
    except csv.Error as error:
        raise lines.broken(number) from error
    finally:
        csv.field_size_limit(usual_limit)


def _after(first: str, lines: Iterator[str]) -> Iterator[str]:
    yield first
    yield from lines


def _delimiter(header: str) -> str:
    """Return the delimiter that cuts the first line into the most columns."""

    def columns(delimiter: str) -> int:
        return len(next(csv.reader([header], delimiter=delimiter), []))

    return max(_DELIMITERS, key=columns)


def _header(cells: list[str], path: Path) -> list[str]:
    columns = [cell.strip() for cell in cells]
    names = [column for column in columns if column]
    if len(columns) > _MOST_COLUMNS or len({*names}) < len(names):
        raise PromptSetError(
            f"{path}: line 1: given {len(names):,} columns with {len({*names}):,} names; allowed: "
            f"names that differ, of at most {_MOST_COLUMNS:,} columns; next: write the columns' "
            "names into the first row"
        )
    return columns
