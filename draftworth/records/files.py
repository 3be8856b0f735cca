"""Files of a checkpoint or a compiled graph, as its marker lists them; and a file written whole.

Standard library only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath


@dataclass(frozen=True, kw_only=True)
class StoredFile:
    """One file; `path` counts from its folder and cannot lead out of it.

    Paths are opened, and objects deleted by them.
    """

    path: str
    size_bytes: int
    sha256: str

    def __post_init__(self) -> None:
        if not is_below(self.path):
            raise ValueError(f"path: given {self.path!r}, allowed: a relative path")
        if self.size_bytes < 0:
            raise ValueError(f"size_bytes: given {self.size_bytes}, allowed: 0 or more")


def is_below(path: str) -> bool:
    """Whether a path is a plain relative one, without `..`."""
    parts = PurePosixPath(path).parts
    return str(PurePosixPath(path)) == path and bool(parts) and not {"..", "/", "."} & set(parts)


def check_files(files: Sequence[StoredFile]) -> None:
    """Raise ValueError unless there is a file, and each path once."""
    if not files or len({file.path for file in files}) != len(files):
        raise ValueError("files: allowed: one or more, each path once")


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's content, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def replace_file(path: Path, data: bytes) -> Path:
    """Write all of a file, or leave the one that was there before: never a half."""
    partial = path.with_name(f".{path.name}.partial")
    partial.write_bytes(data)
    return partial.replace(path)
