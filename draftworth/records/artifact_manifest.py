"""The manifest of a compiled graph: ONE definition, for who writes it, reads it and lists it.

Standard library only: the serving pods read and write it. In the artifacts bucket:

    KEY/_ARTIFACTS.json         the manifest; written last and once, so a key that has it is whole
    KEY/<upload id>/...         the files; every upload has a folder of its own

Two pods that compile the same key upload into two folders and never mix files; the manifest names
the folder of the one that was first. A folder that no manifest names is a leftover.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath
from typing import Any

from draftworth.records.results import ResultFormatError, load_record

MANIFEST_SCHEMA = "draftworth.artifacts/1"
MANIFEST_NAME = "_ARTIFACTS.json"


class ManifestError(ValueError):
    """A file is not a manifest; the message says where and why."""


@dataclass(frozen=True, kw_only=True)
class ArtifactFile:
    """One file of a compiled graph; `path` counts from the upload's folder."""

    path: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class ArtifactManifest:
    """What a compiled graph was made from and what it consists of.

    schema: `draftworth.artifacts/1`.
    inputs: everything that the key is the address of (`serving.artifacts.artifact_inputs`).
    checkpoints: commit of each checkpoint it was compiled with, by role (`target`, `draft`); a role
        is missing where the pod could not know. A revision that moves, such as `main`, is in the
        key by its name only.
    folder: where the files are, `KEY/<upload id>`.
    compile_seconds: from the start of the server to the last file it wrote.
    """

    schema: str
    key: str
    inputs: Mapping[str, Any]
    checkpoints: Mapping[str, str]
    folder: str
    files: tuple[ArtifactFile, ...]
    compile_seconds: float
    uploaded_at_unix_s: float

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


def dump_manifest(manifest: ArtifactManifest) -> bytes:
    """The manifest as JSON, for people too."""
    return json.dumps(asdict(manifest), indent=1, sort_keys=True, allow_nan=False).encode() + b"\n"


def load_manifest(data: bytes) -> ArtifactManifest:
    """Read a manifest.

    Raises:
        ManifestError: saying which key is wrong.
    """
    try:
        manifest = load_record(ArtifactManifest, data, MANIFEST_SCHEMA)
    except ResultFormatError as error:
        raise ManifestError(str(error)) from error
    _check_places(manifest)
    return manifest


def differences(
    manifest: ArtifactManifest,
    expected_inputs: Mapping[str, Any],
    checkpoints: Mapping[str, str] | None = None,
) -> list[str]:
    """What the graph was compiled for that is not what is asked for; empty if it may be served.

    `checkpoints` are the commits that are asked for, by role; one that either side does not know is
    not compared.
    """
    compiled, asked = dict(_leaves(manifest.inputs)), dict(_leaves(expected_inputs))
    names = sorted(compiled.keys() | asked.keys())
    found = [
        f"{name}: compiled for {_shown(compiled, name)}, asked for {_shown(asked, name)}"
        for name in names
        if _shown(compiled, name) != _shown(asked, name)
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


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted names and values; an empty mapping is a value of its own."""
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _leaves(item, f"{name}.{key}" if name else str(key))
    elif name:
        yield name, value


def _shown(values: Mapping[str, Any], name: str) -> str:
    return json.dumps(values[name], sort_keys=True) if name in values else "(nothing)"


def _check_places(manifest: ArtifactManifest) -> None:
    """Nothing may point out of its folder: paths are opened and objects deleted by them."""
    parts = manifest.folder.split("/")
    if len(parts) != 2 or parts[0] != manifest.key or not _is_below(parts[1]):
        raise ManifestError(f"folder: given {manifest.folder!r}, allowed: {manifest.key}/UPLOAD")
    if len({file.path for file in manifest.files}) != len(manifest.files) or not manifest.files:
        raise ManifestError("files: allowed: one or more, each path once")
    for number, file in enumerate(manifest.files):
        if not _is_below(file.path):
            raise ManifestError(f"files[{number}]: given {file.path!r}, allowed: a relative path")
        if file.size_bytes < 0:
            raise ManifestError(f"files[{number}].size_bytes: given {file.size_bytes}")


def _is_below(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return str(PurePosixPath(path)) == path and bool(parts) and not {"..", "/", "."} & set(parts)
