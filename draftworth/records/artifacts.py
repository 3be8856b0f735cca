"""Compiled graphs: their manifests, and which of them are mounted.

Standard library only: the serving pods read and write it. In the artifacts bucket:

    KEY/_ARTIFACTS.json         the manifest; written last and once, so a key that has it is whole
    KEY/<upload id>/...         the files; every upload has a folder of its own

Two pods that compile the same key upload into two folders and never mix files; the manifest names
the folder of the one that was first. A folder that no manifest names is a leftover.

A server does it before it starts, and its canary before any accelerator exists: what the one
refuses, the other has refused. Standard library only.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from draftworth.errors import DraftworthError
from draftworth.records.checkpoints import (
    READY_MARKER,
    ReadyModel,
    StoredFile,
    check_files,
    is_below,
)
from draftworth.records.codec import RecordError, load_record
from draftworth.untrusted import TooLargeError, read_file

MANIFEST_SCHEMA = "draftworth.artifacts/1"
MANIFEST_NAME = "_ARTIFACTS.json"
_NOTHING = "(nothing)"


@dataclass(frozen=True, kw_only=True)
class ArtifactManifest:
    """What a compiled graph was made from and what it consists of.

    inputs: everything that the key is the address of (`serving.artifacts.artifact_inputs`).
    checkpoints: commit of each checkpoint it was compiled with, by role (`target`, `draft`); a role
        is missing where the pod could not know. A revision that moves, such as `main`, is in the
        key by its name only.
    folder: where the files are, `KEY/<upload id>`.
    compile_seconds: from the start of the server to the last file it wrote.
    """

    schema: str = MANIFEST_SCHEMA
    key: str
    inputs: Mapping[str, Any]
    checkpoints: Mapping[str, str]
    folder: str
    files: tuple[StoredFile, ...]
    compile_seconds: float
    uploaded_at_unix_s: float

    def __post_init__(self) -> None:
        parts = self.folder.split("/")
        if len(parts) != 2 or parts[0] != self.key or not is_below(parts[1]):
            raise ValueError(f"folder: given {self.folder!r}, allowed: {self.key}/UPLOAD")
        check_files(self.files)

    @property
    def size_bytes(self) -> int:
        """All files together."""
        return sum(file.size_bytes for file in self.files)


def manifest_key(key: str) -> str:
    """The manifest's object key, and its path below the mounted bucket."""
    return f"{key}/{MANIFEST_NAME}"


def upload_folder(key: str, upload_id: str) -> str:
    """Where one upload's files are, without a trailing slash."""
    return f"{key}/{upload_id}"


def differences(
    manifest: ArtifactManifest,
    expected_inputs: Mapping[str, Any],
    checkpoints: Mapping[str, str] | None = None,
) -> list[str]:
    """What the graph was compiled for that is not what is asked for; empty if it may be served.

    `checkpoints` are the commits that are asked for, by role; one that either side does not know is
    not compared.
    """
    built, asked = dict(_leaves(manifest.inputs)), dict(_leaves(expected_inputs))
    found = [
        f"{name}: compiled for {built.get(name, _NOTHING)}, asked for {asked.get(name, _NOTHING)}"
        for name in sorted(built.keys() | asked.keys())
        if built.get(name) != asked.get(name)
    ]
    for role, commit in sorted((checkpoints or {}).items()):
        before = manifest.checkpoints.get(role, commit)
        if before != commit:
            found.append(
                f"{role} checkpoint: compiled for commit {before}, asked for commit {commit}"
            )
    return found


def size_differences(manifest: ArtifactManifest, size_bytes: Mapping[str, int | None]) -> list[str]:
    """Files that are not there or not as long as the manifest says; sizes by `path`."""
    found = []
    for file in manifest.files:
        size = size_bytes.get(file.path)
        there = "it is not there" if size is None else f"{size} bytes are there"
        if size != file.size_bytes:
            found.append(f"{file.path}: {file.size_bytes} bytes were uploaded, {there}")
    return found


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Dotted names and values as JSON; an empty mapping is a value of its own."""
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _leaves(item, f"{name}.{key}" if name else str(key))
    elif name:
        yield name, json.dumps(value, sort_keys=True)


NEXT = (
    "Next: `python -m draftworth artifacts EXPERIMENT --run` removes graphs that do not match; the "
    "next start compiles"
)


class RefusedGraphsError(DraftworthError):
    """The bucket has the key, but what it has must not be served."""


def checked_manifest(
    artifacts: Path, key: str, inputs: Mapping[str, Any], commits: Mapping[str, str]
) -> ArtifactManifest | None:
    """The bucket's manifest of a key, compared with what is asked for; None when it has none.

    Args:
        artifacts: the mounted bucket.
        key: the artifact key.
        inputs: what the key is the address of.
        commits: of the mounted checkpoints, by role, as far as they are known.

    Raises:
        RefusedGraphsError: the graphs are another's, or not whole.
        OSError: the mount cannot be read; another try may do.
    """
    path = artifacts / manifest_key(key)
    try:
        manifest = load_record(ArtifactManifest, read_file(path))
    except FileNotFoundError:
        return None
    except (RecordError, TooLargeError) as error:
        raise RefusedGraphsError(f"{path} cannot be read: {error}. {NEXT}") from error
    found = differences(manifest, inputs, commits)
    if manifest.key != key:
        found.append(f"key: the manifest is of {manifest.key}, asked for {key}")
    mounted = artifacts / manifest.folder
    sizes = {file.path: _size(mounted / file.path) for file in manifest.files}
    found += size_differences(manifest, sizes)
    if found:
        listed = "\n  ".join(found)
        raise RefusedGraphsError(
            f"{key}/{MANIFEST_NAME} is not what is asked for:\n  {listed}\n{NEXT}"
        )
    return manifest


def mounted_commits(checkpoints: Mapping[str, Path]) -> dict[str, str]:
    """The commit of each mounted checkpoint that says its own, by role: those staged do."""
    commits = {}
    for role, folder in checkpoints.items():
        with contextlib.suppress(OSError, RecordError, TooLargeError):
            commits[role] = load_record(ReadyModel, read_file(folder / READY_MARKER)).commit
    return commits


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None
