"""Tables with any delimiter and quoting; broken ones are in tests/hostile/test_prompt_logs.py."""

from pathlib import Path

import pytest

from draftworth.importing.log_files import records_of


def read(folder: Path, data: bytes, name: str = "log.csv") -> list[tuple[str, object]]:
    path = folder / name
    path.write_bytes(data)
    return [(record.place, record.problem or record.value) for record in records_of(path)]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_first_row_says_the_delimiter(tmp_path: Path, delimiter: str) -> None:
    text = f'prompt{delimiter}output\n"a, b; c"{delimiter}d\n'
    assert read(tmp_path, text.encode()) == [("line 2", {"prompt": "a, b; c", "output": "d"})]


def test_places_are_first_lines_of_rows(tmp_path: Path) -> None:
    data = b'\xef\xbb\xbfprompt,output\r\n\r\n"a\r\nb",""\r\n,\r\nc,d,e\r\n"""q""","x"\r\nshort'
    assert read(tmp_path, data, "LOG.CSV") == [
        ("line 3", {"prompt": "a\r\nb", "output": ""}),
        ("line 6", "with more cells than the first row has columns"),
        ("line 7", {"prompt": '"q"', "output": "x"}),
        ("line 8", {"prompt": "short"}),
    ]


def test_a_long_cell_is_read_whole(tmp_path: Path) -> None:
    text = "word " * 100_000
    assert read(tmp_path, f"prompt\n{text}\n".encode()) == [("line 2", {"prompt": text})]


def test_a_folder_has_tables_too(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("prompt\toutput\nx\ty\n")
    (tmp_path / "b.jsonl").write_text('{"prompt": "z"}')
    assert [record.place for record in records_of(tmp_path)] == ["a.tsv line 2", "b.jsonl line 1"]
