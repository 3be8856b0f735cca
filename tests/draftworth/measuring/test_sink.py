"""Files in a folder, written once and read back."""

from pathlib import Path

import pytest

from draftworth.measuring.result_files import FolderSink, SinkError


def test_names_are_those_of_whole_files_below_the_folder(tmp_path: Path) -> None:
    sink = FolderSink(tmp_path)
    sink.write("run/blocks/b.json", b"2")
    sink.write("run/a.json", b"1")
    sink.write("run-2/a.json", b"other")
    (tmp_path / "run" / ".c.json.partial").write_bytes(b"ha")

    assert sink.names("run") == ["run/a.json", "run/blocks/b.json"]
    assert sink.read("run/blocks/b.json") == b"2"


def test_a_name_that_is_taken_is_never_overwritten(tmp_path: Path) -> None:
    sink = FolderSink(tmp_path)
    sink.write("run/a.json", b"1")

    with pytest.raises(SinkError, match="File exists"):
        sink.write("run/a.json", b"2")

    assert (tmp_path / "run" / "a.json").read_bytes() == b"1"
    assert [p.name for p in (tmp_path / "run").iterdir()] == ["a.json"]


def test_what_is_not_there_is_told_by_its_path(tmp_path: Path) -> None:
    assert FolderSink(tmp_path / "nowhere").names("run") == []
    with pytest.raises(SinkError, match=r"a\.json: cannot be read: No such file"):
        FolderSink(tmp_path).read("a.json")
