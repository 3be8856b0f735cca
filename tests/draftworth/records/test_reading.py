"""A run's folder: the files that `run.json` lists, each the run's own, and nothing hangs."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from draftworth.errors import UserInputError
from draftworth.records.reading import read_run
from draftworth.records.results import (
    BLOCKS_FOLDER,
    RESULT_LIMIT_BYTES,
    RESULT_SCHEMA,
    RESULT_SUFFIX,
    RUN_FILE,
)
from tests.draftworth.report.runs import make_run, write_run
from tests.hostile.fuzzing import bounded


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_run(make_run(), tmp_path / "run")


def results(folder: Path) -> list[Path]:
    return sorted((folder / BLOCKS_FOLDER).glob(f"*{RESULT_SUFFIX}"))


def edit(file: Path, **changes: Any) -> None:
    file.write_text(json.dumps({**json.loads(file.read_bytes()), **changes}))


@pytest.mark.parametrize("name", ["0001-copy", "0000-structured-count-c4-baseline-r1", "x y"])
def test_a_stray_copy_is_named_and_counts_for_nothing(folder: Path, name: str) -> None:
    shutil.copy(results(folder)[0], folder / BLOCKS_FOLDER / f"{name}{RESULT_SUFFIX}")
    run = read_run(folder)
    assert run.blocks == make_run().blocks
    assert run.unlisted == (f"{name}{RESULT_SUFFIX}",)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"run_id": "other-run"}, "run_id: given 'other-run', allowed: 'built-run'"),
        ({"experiment": "llama"}, "experiment: given 'llama', allowed: 'built'"),
        ({"round": 9}, "block: given '0001-structured-count-c4-baseline-r9', allowed: '0001-"),
        ({"variant": "x" * 300}, "block: given '0001-structured-count-c4-xxxx"),
        (
            {"schema": "draftworth.result/1"},
            r"'draftworth.result/\d'; next: read it with .* that wrote it, or measure again$",
        ),
    ],
)
def test_a_listed_file_that_is_anothers_is_refused_by_name(
    folder: Path, changes: dict[str, Any], message: str
) -> None:
    file = results(folder)[0]
    edit(file, **changes)
    with pytest.raises(UserInputError, match=message) as refused:
        read_run(folder)
    assert str(refused.value).startswith(f"{file}: ")


@pytest.mark.parametrize("name", ["run_id", "experiment"])
def test_a_name_of_any_length_makes_a_short_message(folder: Path, name: str) -> None:
    edit(folder / RUN_FILE, **{name: "x" * 100_000})
    with pytest.raises(UserInputError, match=f"{name}: given 'built") as refused:
        read_run(folder)
    assert len(str(refused.value)) < 1000


def test_a_block_under_anothers_name_is_refused(folder: Path) -> None:
    first, second, *_ = results(folder)
    shutil.copy(first, second)
    with pytest.raises(UserInputError, match=f"{second.name}: block: given '0001-"):
        read_run(folder)


@pytest.mark.parametrize(
    "name",
    ["../x", "/etc/passwd", "a/b", "..", "", ".hidden", "nul\x00", "x" * 300, "é" * 150, "a\nb"],
)
def test_names_that_are_no_files_of_the_run_are_refused(folder: Path, name: str) -> None:
    edit(folder / RUN_FILE, blocks=[name])
    with pytest.raises(UserInputError, match=r"run\.json: blocks: given .* allowed: names of"):
        read_run(folder)


def test_a_block_that_is_listed_twice_is_refused(folder: Path) -> None:
    stem = results(folder)[0].name.removesuffix(RESULT_SUFFIX)
    edit(folder / RUN_FILE, blocks=[stem, stem])
    with pytest.raises(UserInputError, match="blocks: allowed: each block once"):
        read_run(folder)


def test_a_missing_file_is_named(folder: Path) -> None:
    results(folder)[1].unlink()
    with pytest.raises(UserInputError, match="1 of 8 result files are missing, the first is 0002-"):
        read_run(folder)


STAND_INS: dict[str, Callable[[Path], None]] = {
    "a pipe": os.mkfifo,
    "a folder": Path.mkdir,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a link to itself": lambda path: path.symlink_to(path),
    "a link to nothing": lambda path: path.symlink_to("nowhere"),
}


@pytest.mark.parametrize("stand_in", STAND_INS)
def test_what_stands_in_for_a_file_is_refused_and_does_not_hang(
    folder: Path, stand_in: str
) -> None:
    file = results(folder)[0]
    file.unlink()
    STAND_INS[stand_in](file)
    with pytest.raises(UserInputError, match=f"{file.name}: cannot be read: "):
        read_run(folder)
    (folder / RUN_FILE).unlink()
    STAND_INS[stand_in](folder / RUN_FILE)
    with pytest.raises(UserInputError, match=r"no run\.json there"):
        read_run(folder)


def test_a_link_to_a_file_is_read(folder: Path) -> None:
    file = results(folder)[0]
    shutil.move(file, folder / "kept.json")
    file.symlink_to(folder / "kept.json")
    assert read_run(folder) == make_run()


def test_files_larger_than_any_of_ours_are_not_read_into_memory(folder: Path) -> None:
    file = results(folder)[0]
    with file.open("r+b") as opened:
        opened.truncate(10**12)  # no block of the disk is used
    with pytest.raises(UserInputError, match="more than 11,534,336 bytes"):
        read_run(folder)
    with (folder / RUN_FILE).open("r+b") as opened:
        opened.truncate(10**12)
    with pytest.raises(UserInputError, match="more than 1,048,576 bytes"):
        read_run(folder)


@pytest.mark.parametrize("name", ["x" * 300, "x/" * 3000])
def test_a_folder_with_a_name_that_cannot_be_is_a_folder_without_a_run(name: str) -> None:
    with pytest.raises(UserInputError, match=r"no run\.json there"):
        read_run(Path(name))


@pytest.mark.parametrize("part", ["{},", " "])
def test_the_largest_file_that_is_read_costs_little_whatever_it_holds(
    folder: Path, part: str
) -> None:
    file = results(folder)[0]
    start = f'{{"schema":"{RESULT_SCHEMA}","requests":['
    file.write_text(f"{start}{part * ((RESULT_LIMIT_BYTES - 100) // len(part))}0]}}")
    with bounded(), pytest.raises(UserInputError, match="missing keys"):
        read_run(folder)
