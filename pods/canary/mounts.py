"""The canary reads what a server will read: files of each mounted checkpoint, and the artifacts."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from draftworth.errors import DraftworthError
from draftworth.records import artifacts, checkpoints, codec
from draftworth.untrusted import MIB, TooLargeError, open_file, read_file

CONFIGURATION = "config.json"
# The bytes to read at each end of the largest file: the mount then requests both ends from S3.
_PROBE_BYTES = MIB
_LISTED = 1000


class MountError(DraftworthError):
    """A mount does not have what a server needs."""


@dataclass(frozen=True, kw_only=True)
class MountedModel:
    """A folder where a checkpoint is mounted, with the model and revision that it must have."""

    folder: Path
    model: str
    revision: str

    def read(self, role: str) -> str:
        folder, where = self.folder, f"the mount {self.folder} ({role})"
        try:
            ready = codec.load_record(
                checkpoints.ReadyModel, read_file(folder / checkpoints.READY_MARKER)
            )
            if (ready.model, ready.revision) != (self.model, self.revision):
                raise MountError(
                    f"{where} shows {ready.model} at {ready.revision}, asked for "
                    f"{self.model} at {self.revision}: it is mounted with another prefix"
                )
            read_file(folder / CONFIGURATION)
            largest = max(ready.files, key=lambda file: file.size_bytes)
            _probe(folder, largest)
        except (OSError, codec.RecordError, TooLargeError) as error:
            raise MountError(f"{where} cannot be read: {error}") from error
        return (
            f"{folder}: {ready.model} at {ready.revision}, commit {ready.commit[:12]}; "
            f"{CONFIGURATION} and both ends of {largest.path}"
        )


def read_artifacts(
    folder: Path, key: str, inputs: Mapping[str, Any], models: Mapping[str, MountedModel]
) -> str:
    """Read the mounted artifacts bucket, and return a line about it for the log.

    It raises RefusedGraphsError if the bucket has graphs that the server would refuse.
    key, inputs: the artifact key of the graphs that the server needs, and the key's inputs.
    """
    try:
        with os.scandir(folder) as entries:
            count = len([*islice(entries, _LISTED)])
        commits = artifacts.mounted_commits({role: model.folder for role, model in models.items()})
        manifest = artifacts.checked_manifest(folder, key, inputs, commits)
    except OSError as error:
        raise MountError(f"the mount {folder} (compiled graphs) cannot be read: {error}") from error
    graphs = artifacts.manifest_key(key) if manifest else "no graphs of this variant yet"
    return f"{folder}: {count} folders; {graphs}"


def _probe(folder: Path, file: checkpoints.StoredFile) -> None:
    """Check a file's size and read both its ends; raise OSError if anything is wrong or missing."""
    with open_file(folder / file.path) as opened:
        size_bytes = os.fstat(opened.fileno()).st_size
        if size_bytes != file.size_bytes:
            raise OSError(f"{file.path}: {file.size_bytes} bytes were staged, {size_bytes} there")
        expected = min(_PROBE_BYTES, size_bytes)
        for start in (0, size_bytes - expected):
            opened.seek(start)
            if len(opened.read(expected)) != expected:
                raise OSError(f"{file.path}: ended early at byte {start}")
