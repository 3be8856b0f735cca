"""A run's folder: the files that `run.json` lists, each the run's own, and nothing hangs."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from draftworth.errors import UserInputError
from draftworth.records.results import (
    BLOCKS_FOLDER,
    RESULT_LIMIT_BYTES,
    RESULT_SCHEMA,
    RESULT_SUFFIX,
    RUN_FILE,
)
from draftworth.records.run_folder import read_run
from tests.draftworth.report.runs import make_run, write_run
from tests.hostile.fuzzing import bounded
from tests.support.snapshot import assert_snapshot


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_run(make_run(), tmp_path / "run")


def results(folder: Path) -> list[Path]:
    return sorted((folder / BLOCKS_FOLDER).glob(f"*{RESULT_SUFFIX}"))


def edit(file: Path, **changes: Any) -> None:
    file.write_text(json.dumps({**json.loads(file.read_bytes()), **changes}))


@pytest.mark.parametrize("name", ["0001-copy", "0000-structured-count-c4-baseline-r1", "x y"])
def test_a_stray_copy_is_named_but_not_counted(folder: Path, name: str) -> None:
    shutil.copy(results(folder)[0], folder / BLOCKS_FOLDER / f"{name}{RESULT_SUFFIX}")
    run = read_run(folder)
    assert run.blocks == make_run().blocks
    assert run.unlisted == (f"{name}{RESULT_SUFFIX}",)


def test_a_link_to_a_file_is_read(folder: Path) -> None:
    file = results(folder)[0]
    shutil.move(file, folder / "kept.json")
    file.symlink_to(folder / "kept.json")
    assert read_run(folder) == make_run()


@pytest.mark.parametrize("name", ["x" * 300, "x/" * 3000])
def test_an_impossible_folder_name_holds_no_run(name: str) -> None:
    with pytest.raises(UserInputError, match=r"no run\.json there"):
        read_run(Path(name))


def test_the_newest_of_a_folders_runs_is_named(folder: Path) -> None:
    old = write_run(make_run(), folder.parent / "older")
    os.utime(old / RUN_FILE, (1, 1))
    with pytest.raises(UserInputError) as refused:
        read_run(folder.parent)
    assert str(refused.value).endswith(f"is not over; the newest in this folder: {folder}")


STAND_INS: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a folder": Path.mkdir,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a link to itself": lambda path: path.symlink_to(path),
    "a link to nothing": lambda path: path.symlink_to("nowhere"),
    "a terabyte": lambda path: os.truncate(os.open(path, os.O_CREAT | os.O_RDWR), 10**12),
    "nothing": lambda path: None,
}
NAMES = ("../x", "/etc/passwd", "a/b", "..", "", ".hidden", "nul\x00", "x" * 300, "é" * 150, "a\nb")


def first(**changes: object) -> Callable[[Path], object]:
    return lambda folder: edit(results(folder)[0], **changes)


def run(**changes: object) -> Callable[[Path], object]:
    return lambda folder: edit(folder / RUN_FILE, **changes)


def stand_in(file: Callable[[Path], Path], name: str) -> Callable[[Path], object]:
    def put(folder: Path) -> None:
        path = file(folder)
        path.unlink()
        STAND_INS[name](path)

    return put


def full_of(part: str) -> Callable[[Path], object]:
    start = f'{{"schema":"{RESULT_SCHEMA}","requests":['
    text = f"{start}{part * ((RESULT_LIMIT_BYTES - 100) // len(part))}0]}}"
    return lambda folder: results(folder)[0].write_text(text)


def twice(folder: Path) -> None:
    stem = results(folder)[0].name.removesuffix(RESULT_SUFFIX)
    edit(folder / RUN_FILE, blocks=[stem, stem])


# What is changed in a good run's folder; `refused-runs.txt` has what is said of each.
CHANGES: dict[str, Callable[[Path], object]] = {
    "another run's block": first(run_id="other-run"),
    "another experiment's block": first(experiment="llama"),
    "another round": first(round=9),
    "a variant of 300 letters": first(variant="x" * 300),
    "an earlier schema": first(schema="draftworth.result/1"),
    "a run id of 100,000 letters": run(run_id="x" * 100_000),
    "an experiment of 100,000 letters": run(experiment="x" * 100_000),
    "a block under another's name": lambda folder: shutil.copy(*results(folder)[:2]),
    "a block that is listed twice": twice,
    "objects up to the largest size": full_of("{},"),
    "blanks up to the largest size": full_of(" "),
    **{f"{name[:20]!r} as a block": run(blocks=[name]) for name in NAMES},
    **{f"{name} as a block": stand_in(lambda f: results(f)[0], name) for name in STAND_INS},
    **{f"{name} as run.json": stand_in(lambda f: f / RUN_FILE, name) for name in STAND_INS},
}


def test_broken_runs_are_refused_briefly_at_once(tmp_path: Path) -> None:
    messages = ""
    for number, (name, change) in enumerate(CHANGES.items()):
        folder = write_run(make_run(), tmp_path / str(number))
        block = results(folder)[0]
        change(folder)
        with bounded(), pytest.raises(UserInputError) as refused:
            read_run(folder)
        message = str(refused.value)
        assert message.startswith(str(folder))
        assert len(message.replace(str(folder), "")) < 1000
        messages += (
            f"{name}\n  {message.replace(str(block), 'BLOCK').replace(str(folder), 'RUN')}\n"
        )
    assert_snapshot(messages, Path(__file__).parent / "snapshots" / "refused-runs.txt")
