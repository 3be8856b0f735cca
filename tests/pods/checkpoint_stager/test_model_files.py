"""Which files are staged, and which downloads are accepted."""

import hashlib
import re
from pathlib import Path

import pytest

from draftworth.errors import UserInputError
from pods.checkpoint_stager.model_files import (
    CorruptFileError,
    HubFile,
    checked_sha256,
    served_files,
)
from tests.support.local_hub import git_blob_sha1


def kept(*paths: str, allow_pickle: bool = False) -> list[str]:
    files = [HubFile(path=p, size_bytes=1, sha256=None, git_sha1="0" * 40) for p in paths]
    served = served_files(files, "acme/tiny at main", allow_pickle=allow_pickle)
    return [file.path for file in served]


def test_only_safetensors_of_several_formats_are_staged() -> None:
    needed = ["config.json", "model.safetensors", "model.safetensors.index.json"]
    duplicates = [
        "consolidated.safetensors",
        "model.gguf",
        "onnx/model.onnx",
        "optimizer.pt",
        "original/consolidated.00.pth",
        "original/model.safetensors",
        "pytorch_model.bin",
        "pytorch_model.bin.index.json",
        "tf_model.h5",
    ]
    assert kept(*needed, *duplicates) == needed


@pytest.mark.parametrize("weights", ["pytorch_model.bin", "model.pt", "consolidated.safetensors"])
def test_the_only_weights_are_staged_whatever_their_form(weights: str) -> None:
    assert weights in kept("config.json", weights, allow_pickle=True)


@pytest.mark.parametrize(
    "weights",
    [
        ("pytorch_model.bin",),
        ("pytorch_model-00001-of-00002.bin", "pytorch_model.bin.index.json"),
        ("MODEL.BIN",),
        ("model.pt",),
        ("consolidated.00.pth",),
        tuple(f"a{number}.bin" for number in range(9)),
    ],
)
def test_pickled_weights_are_refused_by_name_and_key(weights: tuple[str, ...]) -> None:
    pickled = [re.escape(name) for name in weights if not name.endswith(".json")]
    named = ", ".join(pickled[:3]) + (r" \.\.\." if len(pickled) > 3 else "")
    named = rf"given {named}; allowed: \*.safetensors.*allow_pickle_weights: true"
    with pytest.raises(UserInputError, match=named):
        kept("config.json", *weights)


def test_what_could_run_is_not_staged() -> None:
    """Pictures and hidden files are not staged either."""
    needed = ["config.json", "model.safetensors"]
    code = ["configuration_acme.py", "kernel.so", "run.sh", "state.pkl", "a/b.pickle", "x.joblib"]
    assert kept(*needed, *code, ".gitattributes", "assets/plot.PNG", ".cache/a.txt") == needed


def test_tokenizers_templates_and_licence_are_staged() -> None:
    needed = [
        "LICENSE",
        "README.md",
        "additional_chat_templates/tool_use.jinja",
        "chat_template.jinja",
        "config.json",
        "generation_config.json",
        "merges.txt",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer.model",
        "vocab.json",
    ]
    assert kept(*needed) == needed


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        (("config.json", "model-q4.gguf"), r"given \*\.gguf, \*\.json; allowed: \*\.safetensors"),
        (("config.json", "onnx/model.bin"), "no weights that the servers read"),
        (("model.safetensors",), "no config.json"),
        ((), "given no files"),
    ],
)
def test_a_repository_that_cannot_be_served_is_refused(
    paths: tuple[str, ...], message: str
) -> None:
    with pytest.raises(UserInputError, match=message):
        kept(*paths)


@pytest.mark.parametrize(
    "name",
    [
        "/etc/passwd.json",
        "a//b.json",
        "a\\..\\b.json",
        "./config.json",
        "a/./b.json",
        "two\nlines.json",
        "\x1b[2J.json",
        "half\ud800.json",
        "x" * 300,
    ],
)
def test_a_name_that_is_no_path_is_refused(name: str) -> None:
    with pytest.raises(UserInputError, match=r"a file named .*allowed: up to 200") as error:
        kept("config.json", "model.safetensors", name)
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 300


@pytest.mark.parametrize("name", ["../../x.json", "a/../x.json", ".ssh/config.json"])
def test_a_name_outside_its_folder_is_not_staged(name: str) -> None:
    assert name not in kept("config.json", "model.safetensors", name)


@pytest.mark.parametrize("folder", ["", "./", "/", "//", "a/../", "a/", "v2/a/", "../main/"])
@pytest.mark.parametrize("name", ["_READY.json", "_STAGING.json", "_FAILED.json"])
def test_a_markers_name_is_not_staged_anywhere(name: str, folder: str) -> None:
    """S3's event about such a file in a folder would invoke the capacity controller too."""
    needed = ["config.json", "model.safetensors"]
    assert kept(*needed, folder + name) == needed


def test_a_folder_named_like_a_marker_is_skipped() -> None:
    """If S3 has a folder and a marker of one name, the mount shows only the folder."""
    needed = ["config.json", "model.safetensors"]
    assert kept(*needed, "_READY.json/a.json", "a/_FAILED.json/b/c.json") == needed


def test_names_similar_to_markers_are_staged() -> None:
    """S3's keys are case-sensitive, so `_ready.json` is no marker."""
    needed = ["READY.json", "_READY.json.txt", "_READY_json", "_Ready.json", "_ready.json"]
    assert {*needed} <= {*kept("config.json", "model.safetensors", *needed)}


@pytest.mark.parametrize("name", ["tokenizer 2.json", "日本語.json", "a/b-c_d+e.jinja"])
def test_a_name_that_is_only_unusual_is_taken(name: str) -> None:
    assert name in kept("config.json", "model.safetensors", name)


def hub_file(data: bytes, *, lfs: bool, size: int | None = None) -> HubFile:
    return HubFile(
        path="a",
        size_bytes=len(data) if size is None else size,
        sha256=hashlib.sha256(data).hexdigest() if lfs else None,
        git_sha1=git_blob_sha1(b"a pointer" if lfs else data),
    )


@pytest.mark.parametrize("lfs", [True, False])
def test_a_whole_file_has_its_sha256(tmp_path: Path, lfs: bool) -> None:
    (tmp_path / "a").write_bytes(b"weights")
    expected = hashlib.sha256(b"weights").hexdigest()
    assert checked_sha256(tmp_path / "a", hub_file(b"weights", lfs=lfs)) == expected


@pytest.mark.parametrize("lfs", [True, False])
def test_a_changed_byte_is_an_error(tmp_path: Path, lfs: bool) -> None:
    (tmp_path / "a").write_bytes(b"weight5")
    with pytest.raises(CorruptFileError, match="downloaded with hash"):
        checked_sha256(tmp_path / "a", hub_file(b"weights", lfs=lfs))


def test_a_short_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"weights")
    with pytest.raises(CorruptFileError, match="7 bytes were downloaded, the hub has 1,007"):
        checked_sha256(tmp_path / "a", hub_file(b"weights", lfs=True, size=1007))
