"""Files are written whole, never through a link, and privately where that is asked for."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from draftworth.safe_writing import write_file


@pytest.fixture(params=[0o000, 0o022, 0o177])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.usefixtures("umask")
def test_private_files_are_the_owners_whatever_the_umask(tmp_path: Path) -> None:
    path = write_file(tmp_path / "a" / "b" / "texts", b"x", root=tmp_path, private=True)
    modes = [mode(path), mode(path.parent), mode(path.parent.parent)]
    assert modes == [0o600, 0o700, 0o700]


def test_public_files_have_the_modes_of_umask(tmp_path: Path) -> None:
    before = os.umask(0o022)
    path = write_file(tmp_path / "a" / "report.html", b"x", root=tmp_path)
    os.umask(before)
    assert (mode(path), mode(path.parent)) == (0o644, 0o755)


def test_private_content_makes_a_public_file_private(tmp_path: Path) -> None:
    path = tmp_path / "texts"
    path.touch(0o644)
    assert mode(write_file(path, b"x", private=True)) == 0o600


@pytest.mark.parametrize("overwrite", [True, False])
def test_a_link_is_replaced_or_refused_never_followed(tmp_path: Path, *, overwrite: bool) -> None:
    other = tmp_path / "other"
    other.write_text("mine")
    path = tmp_path / "file"
    path.symlink_to(other)
    if overwrite:
        write_file(path, b"new")
        assert path.read_bytes() == b"new"
    else:
        with pytest.raises(FileExistsError):
            write_file(path, b"new", overwrite=False)
    assert other.read_text() == "mine"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "other"]


def test_a_linked_folder_is_refused_below_the_root(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="link is a link, allowed: a folder; next: remove the link"):
        write_file(tmp_path / "link" / "inner" / "file", b"", root=tmp_path)
    assert list((tmp_path / "elsewhere").iterdir()) == []
    write_file(tmp_path / "link" / "file", b"")
    assert (tmp_path / "elsewhere" / "file").exists()


@pytest.mark.parametrize("name", ["../outside", "a/../../outside", "/outside", ""])
def test_a_name_that_leaves_the_root_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(OSError, match="a path that leaves"):
        write_file(tmp_path / "root" / name, b"", root=tmp_path / "root")
    assert [path.name for path in tmp_path.rglob("*")] == ["root"]


def test_a_missing_folder_is_made_below_a_root(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_file(tmp_path / "new" / "file", b"")
    assert write_file(tmp_path / "new" / "file", b"", root=tmp_path / "new").exists()


def test_an_unwritable_file_leaves_the_old_content(tmp_path: Path) -> None:
    (tmp_path / "file").mkdir()
    with pytest.raises(IsADirectoryError):
        write_file(tmp_path / "file", b"new")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
