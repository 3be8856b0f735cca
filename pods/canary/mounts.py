"""The canary reads what a server will read: files of each mounted checkpoint, and the artifacts."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from draftworth.errors import DraftworthError
from draftworth.records.artifacts import checked_manifest, manifest_key, mounted_commits
from draftworth.records.checkpoints import READY_MARKER, ReadyModel, StoredFile
from draftworth.records.codec import RecordError, load_record
from draftworth.untrusted import MIB, TooLargeError, open_file, read_file

CONFIGURATION = "config.json"
# Read from each end of the largest file, as the mount's first and last requests of it.
_PROBE_BYTES = MIB
_LISTED = 1000


class MountError(DraftworthError):
    """A mount does not show what a server needs of it."""


@dataclass(frozen=True, kw_only=True)
class Mounts:
    """The mounts of the server's pod.

    checkpoints: folders by role. models: the model and revision that each must hold.
    key, inputs: of the compiled graphs that the server will ask for.
    """

    checkpoints: Mapping[str, Path]
    models: Mapping[str, tuple[str, str]]
    artifacts: Path
    key: str
    inputs: Mapping[str, Any]

    def read(self) -> list[str]:
        """Read every mount, and return a line about each.

        Raises:
            MountError: a mount cannot be read, or shows something else.
            RefusedGraphsError: there are graphs, and the server would refuse them.
        """
        lines = [self._read_checkpoint(role, path) for role, path in self.checkpoints.items()]
        return [*lines, self._read_artifacts()]

    def _read_checkpoint(self, role: str, folder: Path) -> str:
        try:
            ready = load_record(ReadyModel, read_file(folder / READY_MARKER))
            self._compare(role, folder, ready)
            read_file(folder / CONFIGURATION)
            largest = max(ready.files, key=lambda file: file.size_bytes)
            _probe(folder, largest)
        except (OSError, RecordError, TooLargeError) as error:
            raise MountError(f"the mount {folder} ({role}) cannot be read: {error}") from error
        return (
            f"{folder}: {ready.model} at {ready.revision}, commit {ready.commit[:12]}; "
            f"{CONFIGURATION} and both ends of {largest.path}"
        )

    def _compare(self, role: str, folder: Path, ready: ReadyModel) -> None:
        given, wanted = (ready.model, ready.revision), self.models[role]
        if given != wanted:
            raise MountError(
                f"the mount {folder} ({role}) shows {' at '.join(given)}, asked for "
                f"{' at '.join(wanted)}: it is mounted with another prefix"
            )

    def _read_artifacts(self) -> str:
        try:
            with os.scandir(self.artifacts) as entries:
                names = [entry.name for entry in islice(entries, _LISTED)]
            commits = mounted_commits(self.checkpoints)
            manifest = checked_manifest(self.artifacts, self.key, self.inputs, commits)
        except OSError as error:
            raise MountError(
                f"the mount {self.artifacts} (compiled graphs) cannot be read: {error}"
            ) from error
        graphs = manifest_key(self.key) if manifest else "no graphs of this variant yet"
        return f"{self.artifacts}: {len(names)} folders; {graphs}"


def _probe(folder: Path, file: StoredFile) -> None:
    """Read both ends of a file and compare its length; raise OSError."""
    with open_file(folder / file.path) as opened:
        size_bytes = os.fstat(opened.fileno()).st_size
        if size_bytes != file.size_bytes:
            raise OSError(f"{file.path}: {file.size_bytes} bytes were staged, {size_bytes} there")
        expected = min(_PROBE_BYTES, size_bytes)
        for start in (0, size_bytes - expected):
            opened.seek(start)
            if len(opened.read(expected)) != expected:
                raise OSError(f"{file.path}: ended early at byte {start}")
