"""Where result files go. A file is written once, whole, under a name that cannot collide."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from draftworth.errors import DraftworthError, UserInputError
from draftworth.records.results import RESULT_LIMIT_BYTES
from draftworth.untrusted import TooLargeError, read_file


class SinkError(DraftworthError):
    """A result file could not be written, or read back."""


class Sink(Protocol):
    """Takes a run's files."""

    def write(self, name: str, data: bytes) -> None:
        """Write one file; raises SinkError, also when the name is taken."""


class Store(Sink, Protocol):
    """A sink whose files can be read back."""

    def names(self, folder: str) -> list[str]:
        """Names of all files below a folder, sorted; raises SinkError."""

    def read(self, name: str, *, limit_bytes: int = RESULT_LIMIT_BYTES) -> bytes:
        """One file, no larger than a result file can be, or than is said; raises SinkError."""


@dataclass
class FolderSink:
    """Writes below a local folder, and reads back."""

    folder: Path

    def check(self) -> None:
        """Write and remove a file; raises UserInputError, before anything is measured for it."""
        probe = f".probe-{secrets.token_hex(4)}"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.write(probe, b"")
            (self.folder / probe).unlink()
        except (OSError, SinkError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise UserInputError(
                f"{self.folder}: no results can be written there: {reason}; give --out a folder "
                "that you may write to"
            ) from error

    def write(self, name: str, data: bytes) -> None:
        """Write to a temporary name, then link: the name shows only whole files."""
        path = self.folder / name
        partial = path.with_name(f".{path.name}.partial")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            partial.write_bytes(data)
            os.link(partial, path)  # fails where the name is taken, unlike a rename
        except OSError as error:
            raise SinkError(f"{path}: cannot be written: {error.strerror}") from error
        finally:
            with suppress(OSError):
                partial.unlink(missing_ok=True)

    def names(self, folder: str) -> list[str]:
        """Whole files only: what a killed writer left half done begins with a dot."""
        paths = (self.folder / folder).rglob("[!.]*")
        return sorted(p.relative_to(self.folder).as_posix() for p in paths if p.is_file())

    def read(self, name: str, *, limit_bytes: int = RESULT_LIMIT_BYTES) -> bytes:
        """One file."""
        path = self.folder / name
        try:
            return read_file(path, limit_bytes)
        except (OSError, TooLargeError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise SinkError(f"{path}: cannot be read: {reason}") from error


class Tee:
    """Writes to several sinks in turn: the local copy first, then the remote one."""

    def __init__(self, *sinks: Sink) -> None:
        self.sinks = sinks

    def write(self, name: str, data: bytes) -> None:
        """Write to all of them, then raise the first SinkError met."""
        errors: list[SinkError] = []
        for sink in self.sinks:
            try:
                sink.write(name, data)
            except SinkError as error:
                errors.append(error)
        if errors:
            raise errors[0]
