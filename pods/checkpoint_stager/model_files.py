"""Selects the files of a model repository that are copied to S3, and checks downloaded files.

Servers read one set of weights, the configuration and the tokenizer. Repositories hold more: the
same weights in other formats, training state, pictures, and code, which no server may run.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from draftworth.errors import DraftworthError, UserInputError
from draftworth.records.checkpoints import SERVED_WEIGHTS, has_marker_name, is_below, sha256_of
from draftworth.untrusted import one_line

# This format has tensors only; the other served formats are pickles, which can run any code.
PLAIN_WEIGHTS = "safetensors"
OTHER_WEIGHTS = frozenset(
    ("ckpt", "ggml", "gguf", "h5", "mlmodel", "msgpack", "nemo", "npz", "onnx", "onnx_data", "ot")
)
CODE = frozenset(("ipynb", "joblib", "npy", "pickle", "pkl", "py", "pyc", "sh", "so"))
PICTURES = frozenset(
    ("bmp", "gif", "jpeg", "jpg", "mov", "mp3", "mp4", "pdf", "png", "svg", "wav", "webm", "webp")
)
CONFIGURATION = "config.json"
# Files whose names begin like this are in Mistral's own format. They hold the weights of the other
# files once more.
OTHER_LAYOUT = "consolidated"
# The key of an S3 object has at most 1024 bytes. A name of this length fits into it together with
# the model's folder, in any alphabet.
MAX_NAME_CHARACTERS = 200


class CorruptFileError(DraftworthError):
    """The size or the hash of a downloaded file is not the one that the hub lists."""


@dataclass(frozen=True, kw_only=True)
class HubFile:
    """A file of a model repository of the Hugging Face hub, at one commit.

    sha256: the hash of a file in large file storage (Git LFS); None for other files.
    git_sha1: git's hash of the file's blob; for a file in large file storage, of its pointer file.
    """

    path: str
    size_bytes: int
    sha256: str | None
    git_sha1: str

    @property
    def content_id(self) -> str:
        return f"sha256:{self.sha256}" if self.sha256 else f"git:{self.git_sha1}"


def served_files(
    files: Sequence[HubFile], model: str, *, allow_pickle: bool = False
) -> tuple[HubFile, ...]:
    """Return the files to stage, sorted by path; UserInputError: the model cannot be served.

    model: the model's name in error messages. allow_pickle: whether weights may be Python pickles.
    """
    root = [file.path for file in files if "/" not in file.path]
    weights = next((kind for kind in SERVED_WEIGHTS if kind in map(_suffix, root)), None)
    if weights is None:
        suffixes = {f"*.{s}" for file in files if (s := _suffix(file.path))}
        file_kinds = ", ".join(sorted(suffixes)) or "no files"
        raise UserInputError(
            f"{model}: no weights that the servers read; given {file_kinds}; allowed: "
            "*.safetensors (or *.bin, *.pt, *.pth) beside config.json; next: name the original "
            "repository, not a conversion of it"
        )
    if CONFIGURATION not in root:
        raise UserInputError(
            f"{model}: no {CONFIGURATION}; allowed: a model in the layout of the transformers "
            "library; next: name another repository"
        )
    served = [file for file in files if _is_served(file.path, weights)]
    if not all(_is_other_layout(path) for path in root if _suffix(path) == weights):
        served = [file for file in served if not _is_other_layout(file.path)]
    _refuse_names((file.path for file in served), model)
    if not allow_pickle:
        refuse_pickle((file.path for file in served), model)
    return tuple(sorted(served, key=lambda file: file.path))


def refuse_pickle(paths: Iterable[str], model: str) -> None:
    """Raise UserInputError if any of a model's files is a Python pickle of weights.

    paths: the paths of these files. model: the model's name in the error message.
    """
    weights = [path for path in sorted(paths) if _suffix(path) in SERVED_WEIGHTS]
    pickled = [path for path in weights if _suffix(path) != PLAIN_WEIGHTS]
    if pickled:
        raise UserInputError(
            f"{model}: weights as Python pickles, which can run any code in the server that loads "
            f"them; given {', '.join(pickled[:3])}{' ...' if len(pickled) > 3 else ''}; allowed: "
            "*.safetensors; next: name a revision or a repository that has them, or, if you trust "
            "this one, set `allow_pickle_weights: true` wherever the experiment names the model"
        )


def _refuse_names(paths: Iterable[str], model: str) -> None:
    for path in paths:
        plain = path.isprintable() and "\\" not in path and is_below(path)
        if not plain or len(path) > MAX_NAME_CHARACTERS:
            raise UserInputError(
                f"{model}: a file named {one_line(path, characters=80)!r}; allowed: up to "
                f"{MAX_NAME_CHARACTERS} printable characters, folders between single slashes; "
                "next: name another revision or repository"
            )


def _is_served(path: str, weights: str) -> bool:
    suffix = _suffix(path.removesuffix(".index.json"))
    if has_marker_name(path) or any(part.startswith(".") for part in PurePosixPath(path).parts):
        return False
    if suffix in SERVED_WEIGHTS:
        # Folders have other formats of the same weights: original/, onnx/, metal/.
        return suffix == weights and "/" not in path
    return suffix not in OTHER_WEIGHTS | CODE | PICTURES


def _is_other_layout(path: str) -> bool:
    return PurePosixPath(path).name.startswith(OTHER_LAYOUT)


def _suffix(path: str) -> str:
    return PurePosixPath(path).suffix.removeprefix(".").lower()


def checked_sha256(path: Path, file: HubFile) -> str:
    """Return a downloaded file's SHA-256, in hex digits.

    It raises CorruptFileError if the file's size or hash is not the one that the hub lists.
    """
    size = path.stat().st_size
    if size != file.size_bytes:
        raise CorruptFileError(
            f"{file.path}: {size:,} bytes were downloaded, the hub has {file.size_bytes:,}"
        )
    sha256 = sha256_of(path)
    actual_hash, hub_hash = sha256, file.sha256
    if hub_hash is None:
        # The hub lists only git's SHA-1 of a small file. That hash shows damage, but does not
        # exclude a forgery by the hub.
        blob = b"blob %d\0" % size + path.read_bytes()
        actual_hash, hub_hash = hashlib.sha1(blob, usedforsecurity=False).hexdigest(), file.git_sha1
    if actual_hash != hub_hash:
        raise CorruptFileError(
            f"{file.path}: downloaded with hash {actual_hash}, the hub has {hub_hash}"
        )
    return sha256
