"""Manifests of compiled graphs, and the check of mounted graphs against them.

In the artifacts bucket, by artifact key (a hash of all that changes the graphs):

    KEY/_ARTIFACTS.json         the manifest, written last and once: the upload is complete
    KEY/<upload id>/...         the files; every upload has its own folder

Two pods that compile the graphs of one key upload them into two folders and never mix files; the
manifest names the folder of the pod that finished first. A folder that no manifest names is unused.
"""

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

MANIFEST_NAME = "_ARTIFACTS.json"
_NOTHING = "(nothing)"


@dataclass(frozen=True, kw_only=True)
class ArtifactManifest:
    """The inputs and the files of a compiled graph.

    inputs: everything that the key is a hash of (`serving.dialects.artifact_inputs`).
    checkpoints: commit of each checkpoint that the graph was compiled with, by role (`target`,
        `draft`); a role is missing if its commit was unknown. The key contains only the revision,
        such as `main`, which can name another commit later.
    folder: the folder of the files, `KEY/<upload id>`.
    compile_seconds: seconds from the start of the server to the last file that it wrote.
    """

    schema: str = "draftworth.artifacts/1"
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
        return sum(file.size_bytes for file in self.files)


def manifest_key(key: str) -> str:
    """Return the object key of the manifest for an artifact key.

    Where the bucket is mounted, this is also the manifest's path below the mount point.
    """
    return f"{key}/{MANIFEST_NAME}"


def upload_folder(key: str, upload_id: str) -> str:
    """Return the folder in the bucket of one upload's files, without a trailing slash."""
    return f"{key}/{upload_id}"


def differences(
    manifest: ArtifactManifest,
    expected_inputs: Mapping[str, Any],
    checkpoints: Mapping[str, str],
) -> list[str]:
    """Describe each input of a graph that differs from the expected one; empty if none differs.

    checkpoints: the expected commits by role. A role without a known commit is not compared.
    """
    built, expected = dict(_leaves(manifest.inputs)), dict(_leaves(expected_inputs))
    problems = [
        f"{name}: compiled for {built.get(name, _NOTHING)}, "
        f"asked for {expected.get(name, _NOTHING)}"
        for name in sorted(built.keys() | expected.keys())
        if built.get(name) != expected.get(name)
    ]
    for role, commit in sorted(checkpoints.items()):
        before = manifest.checkpoints.get(role, commit)
        if before != commit:
            problems.append(
                f"{role} checkpoint: compiled for commit {before}, asked for commit {commit}"
            )
    return problems


def size_differences(manifest: ArtifactManifest, size_bytes: Mapping[str, int]) -> list[str]:
    """Describe each file that is missing or whose size differs from that in the manifest.

    size_bytes: the sizes of the files that exist, by path.
    """
    problems = []
    for file in manifest.files:
        size = size_bytes.get(file.path)
        there = "it is not there" if size is None else f"{size} bytes are there"
        if size != file.size_bytes:
            problems.append(f"{file.path}: {file.size_bytes} bytes were uploaded, {there}")
    return problems


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _leaves(item, f"{name}.{key}" if name else str(key))
    elif name:
        yield name, json.dumps(value, sort_keys=True)


NEXT = (
    "Next: `draftworth artifacts EXPERIMENT --run` removes graphs that do not match; the "
    "next start compiles"
)


class RefusedGraphsError(DraftworthError):
    """The bucket has compiled graphs under the artifact key, but they must not be served."""


def checked_manifest(
    artifacts: Path, key: str, inputs: Mapping[str, Any], commits: Mapping[str, str]
) -> ArtifactManifest | None:
    """Return an artifact key's manifest after a check of it and its files; None if none exists.

    artifacts: the mounted bucket. inputs: the values that the key is a hash of. commits: the known
    commits of the mounted checkpoints, by role. RefusedGraphsError is raised if the graphs were
    compiled for other inputs or commits, or are incomplete; OSError if a retry may succeed.
    """
    path = artifacts / manifest_key(key)
    try:
        manifest = load_record(ArtifactManifest, read_file(path))
    except FileNotFoundError:
        return None
    except (RecordError, TooLargeError) as error:
        raise RefusedGraphsError(f"{path} cannot be read: {error}. {NEXT}") from error
    problems = differences(manifest, inputs, commits)
    if manifest.key != key:
        problems.append(f"key: the manifest belongs to {manifest.key}, asked for {key}")
    mounted = artifacts / manifest.folder
    files = {file.path: mounted / file.path for file in manifest.files}
    sizes = {name: path.stat().st_size for name, path in files.items() if path.exists()}
    problems += size_differences(manifest, sizes)
    if problems:
        listed = "\n  ".join(problems)
        raise RefusedGraphsError(
            f"{key}/{MANIFEST_NAME} is not what is asked for:\n  {listed}\n{NEXT}"
        )
    return manifest


def mounted_commits(checkpoints: Mapping[str, Path]) -> dict[str, str]:
    """Return the commit of each mounted checkpoint whose `_READY.json` is readable, by role.

    checkpoints: the mounted folders by role (`target`, `draft`).
    """
    commits = {}
    for role, folder in checkpoints.items():
        with contextlib.suppress(OSError, RecordError, TooLargeError):
            commits[role] = load_record(ReadyModel, read_file(folder / READY_MARKER)).commit
    return commits
