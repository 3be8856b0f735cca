"""Compiled graphs in the mounted artifacts bucket, compared with what is asked for.

A server does it before it starts, and its canary before any accelerator exists: what the one
refuses, the other has refused. Standard library only.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from draftworth.errors import DraftworthError
from draftworth.records.artifact_manifest import (
    MANIFEST_NAME,
    ArtifactManifest,
    differences,
    manifest_key,
    size_differences,
)
from draftworth.records.codec import RecordError, load_record
from draftworth.records.staging import READY_MARKER, ReadyModel
from draftworth.untrusted import TooLargeError, read_file

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
