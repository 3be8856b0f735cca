"""Files that cannot be read are refused quickly, in one sentence; and the form of messages."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from draftworth.errors import ExperimentError, UserInputError
from draftworth.experiment.loading import load_experiment
from draftworth.experiment.yaml_source import MAX_FILE_BYTES, read_source
from tests.hostile.fuzzing import bounded
from tests.support.experiments import put, write_experiment

Make = Callable[[Path], Path]


def pipe(folder: Path) -> Path:
    os.mkfifo(folder / "pipe")
    return folder / "pipe"


def holding(data: bytes) -> Make:
    def make(folder: Path) -> Path:
        (folder / "experiment.yaml").write_bytes(data)
        return folder / "experiment.yaml"

    return make


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: folder, "a folder; next: give the path"),
        (pipe, "a pipe or device"),
        (lambda _: Path("/dev/zero"), "a pipe or device"),
        (lambda folder: folder / ("x" * 300), "File name too long"),
        (lambda folder: folder / "a\0b", "null byte"),
        (lambda folder: folder / "none.yaml", "no such file"),
        (holding(b"#" * (MAX_FILE_BYTES + 1)), "more than 262,144 bytes"),
        (holding(b"\xff\xfe\x00"), "UTF-8"),
        (holding(b"name: \xc3"), "UTF-8"),
    ],
)
def test_an_unreadable_file_is_refused_in_one_sentence(
    tmp_path: Path, make: Make, message: str
) -> None:
    with bounded(loops=5), pytest.raises(UserInputError, match=message) as refused:
        read_source(make(tmp_path))
    assert len(str(refused.value)) < 1_000
    assert str(refused.value).isprintable()


def test_byte_order_marks_and_windows_lines_are_read(tmp_path: Path) -> None:
    source = read_source(holding(b"\xef\xbb\xbfa: 1\r\nb: two\r\n")(tmp_path))
    assert source.data == {"a": 1, "b": "two"}
    assert source.lines["b",] == 2


def test_three_hundred_unknown_keys_are_reported_in_part(tmp_path: Path) -> None:
    path = write_experiment(
        tmp_path, lambda data: data["serving"].update({f"max_num_seq{n}": 4 for n in range(300)})
    )
    with bounded(loops=5), pytest.raises(ExperimentError) as refused:
        load_experiment(path)
    assert len(refused.value.problems) == 300
    text = str(refused.value)
    assert text.count("did you mean 'max_num_seqs'?") == 20
    assert text.splitlines()[0].endswith("300 problems")
    assert text.splitlines()[-1] == "and 280 more"


def test_a_long_key_and_its_value_are_cut(tmp_path: Path) -> None:
    path = write_experiment(tmp_path, put("serving", "k" * 1_000, value="\N{SNOWMAN}" * 1_000))
    with pytest.raises(ExperimentError) as refused:
        load_experiment(path)
    assert len(str(refused.value)) < 2_000
