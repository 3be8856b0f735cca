"""Writes each file completely or not at all, and never through a symbolic link.

A folder may come from somebody else, with links in it to files elsewhere. So each file is written
under a temporary name and then renamed, which replaces a link instead of following it. A link in
the place of a folder is refused. Files with prompts or answers are written `private`: only their
owner may read them, whatever the umask.
"""

import errno
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

_PRIVATE_FILE, _PRIVATE_FOLDER = 0o600, 0o700
_FOLDER = os.O_RDONLY | os.O_DIRECTORY


def write_file(
    path: Path,
    data: bytes,
    *,
    root: Path | None = None,
    private: bool = False,
    overwrite: bool = True,
) -> Path:
    """Write a file, so that no reader ever sees half of it, and return its path.

    root: a folder that contains the file; no folder between the two may be a symbolic link. `root`
        and the folders below it are made if they are missing. None: the file's own folder, which
        must exist.
    private: whether only the owner may read the file and the folders that are made below `root`.
    overwrite: whether a file with this name is replaced; if not, it is an error.

    Raises:
        OSError: the file cannot be written, a folder is a link, or a file with this name exists
            and `overwrite` is false.
    """
    if root is None:
        root = path.parent
    else:
        root.mkdir(parents=True, exist_ok=True)
    *folders, name = _parts(path, root)
    partial = f".{secrets.token_hex(8)}.partial"
    with _opened(root, folders, private=private) as folder:
        try:
            _write(partial, data, folder, _PRIVATE_FILE if private else None)
            # `os.link` fails if a file with this name exists; `os.replace` replaces the file.
            publish = os.replace if overwrite else os.link
            publish(partial, name, src_dir_fd=folder, dst_dir_fd=folder)
        finally:
            with suppress(OSError):
                os.unlink(partial, dir_fd=folder)
    return path


def _write(name: str, data: bytes, folder: int, mode: int | None) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    created = os.open(name, flags, 0o666 if mode is None else mode, dir_fd=folder)
    with os.fdopen(created, "wb") as file:
        if mode is not None:
            os.fchmod(created, mode)  # the umask may have removed even the owner's rights
        file.write(data)


def _parts(path: Path, root: Path) -> Sequence[str]:
    parts = path.relative_to(root).parts if path.is_relative_to(root) else ()
    if not parts or ".." in parts:
        raise OSError(errno.EINVAL, f"given a path that leaves {root}, allowed: one below it")
    return parts


@contextmanager
def _opened(root: Path, folders: Sequence[str], *, private: bool) -> Iterator[int]:
    opened = os.open(root, _FOLDER)
    try:
        for number, name in enumerate(folders, start=1):
            outer, opened = opened, _below(opened, name, root.joinpath(*folders[:number]), private)
            os.close(outer)
        yield opened
    finally:
        os.close(opened)


def _below(outer: int, name: str, path: Path, private: bool) -> int:  # noqa: FBT001
    is_new = True
    try:
        os.mkdir(name, _PRIVATE_FOLDER if private else 0o777, dir_fd=outer)
    except FileExistsError:
        is_new = False
    try:
        opened = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=outer)
    except OSError as error:
        if not stat.S_ISLNK(os.stat(name, dir_fd=outer, follow_symlinks=False).st_mode):
            raise
        raise OSError(
            errno.ELOOP, f"{path} is a link, allowed: a folder; next: remove the link"
        ) from error
    if is_new and private:
        os.fchmod(opened, _PRIVATE_FOLDER)
    return opened
