"""Reading logs as lines, arrays and folders of any size; entries that are no JSON are reported."""

import json
from pathlib import Path

import pytest

from draftworth.errors import PromptSetError
from draftworth.importing import json_objects as source_module
from draftworth.importing.log_files import records_of


def read(path: Path) -> list[tuple[int, str, object]]:
    return [(n, r.place, r.problem or r.value) for n, r in enumerate(records_of(path), start=1)]


def test_lines_and_their_places(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}\n\nno\n[1]\n{"b": "\xe2\x80\xa8"}')
    none = "not a JSON object"
    assert read(path) == [
        (1, "line 1", {"a": 1}),
        (2, "line 3", none),
        (3, "line 4", none),
        (4, "line 5", {"b": "\u2028"}),
    ]


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("piece_bytes", [1, 7, 2**20])
def test_elements_of_an_array_however_it_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, indent: int | None, piece_bytes: int
) -> None:
    monkeypatch.setattr(source_module, "_PIECE_BYTES", piece_bytes)
    values = [{"a": "é🚀"}, {"b": [1, {"c": "}]"}]}, 12345, {}, {"d": None}]
    path = tmp_path / "log.json"
    text = json.dumps(values, indent=indent, ensure_ascii=False)
    path.write_text(f" \n{text} \n ", encoding="utf-8")
    elements = [value for _, _, value in read(path)]
    assert elements == [values[0], values[1], "not a JSON object", {}, {"d": None}]


@pytest.mark.parametrize("text", ["[]", " [ \n ] ", ""])
def test_an_empty_array_has_no_elements(tmp_path: Path, text: str) -> None:
    path = tmp_path / "log.json"
    path.write_text(text)
    assert read(path) == []


def test_a_folder_yields_its_json_files_by_name(tmp_path: Path) -> None:
    for name in ("2026/11/02/b.jsonl", "2026/11/01/z.jsonl", "notes.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(json.dumps({"of": name}))
    assert read(tmp_path) == [
        (1, "2026/11/01/z.jsonl line 1", {"of": "2026/11/01/z.jsonl"}),
        (2, "2026/11/02/b.jsonl line 1", {"of": "2026/11/02/b.jsonl"}),
    ]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b'[{"a": 1}, {"b', "element 2: the array cannot be read further"),
        (b'[{"a": 1} {"b": 1}]', "element 1: the array cannot be read further"),
        (b'[{"a": 1},]', "element 2: the array cannot be read further"),
        (b"[", "element 1: the array cannot be read further"),
        (b'[{"a": 1}]\n[{"b": 1}]', "more after the end of the array"),
        (b'[{"a": "\xff"}]', "cannot be read: not UTF-8"),
        (b"[" * 100_000, "element 1: the array cannot be read further"),
        (b"\x1f\x8b\x08\x00", r"compressed with gzip; next: `gunzip"),
        (b"\x28\xb5\x2f\xfd\x00", "compressed with zstd"),
        (b"PAR1\x15\x04", "Parquet; next: write it as JSON Lines"),
        ("[{}]".encode("utf-16"), "UTF-16; next: `iconv"),
    ],
)
def test_a_file_unreadable_to_its_end_is_refused(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "log.json"
    path.write_bytes(data)
    with pytest.raises(PromptSetError, match=words):
        read(path)


def test_missing_files_and_empty_folders_are_reported(tmp_path: Path) -> None:
    with pytest.raises(PromptSetError, match=r"none\.json: cannot be read: No such file"):
        read(tmp_path / "none.json")
    with pytest.raises(PromptSetError, match="no file below it that ends with"):
        read(tmp_path)
    with pytest.raises(PromptSetError, match="cannot be read: File name too long"):
        read(tmp_path / ("x" * 5_000))


def test_objects_of_several_lines_are_read(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    values = [{"a": [1, {"b": "é"}]}, {"c": {}}]
    path.write_text("\n".join(json.dumps(value, indent=2) for value in values))
    assert read(path) == [(1, "object 1", values[0]), (2, "object 2", values[1])]
    path.write_text('{"a": [\n1]}\n{"b": 2}')
    assert read(path) == [(1, "object 1", {"a": [1]}), (2, "object 2", {"b": 2})]


def test_objects_that_are_cut_off_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_text('{\n"a": 1}\n{\n"b": ')
    with pytest.raises(PromptSetError, match=r"object 2: cannot be read further.*next: `jq -c"):
        read(path)
