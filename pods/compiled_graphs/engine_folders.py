"""Where an engine looks for compiled graphs, and where it leaves them: one class a way.

Which release does it how stands in the catalogue (`draftworth/experiment/catalog.yaml`).
"""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from draftworth.records.artifact_manifest import ArtifactManifest
from draftworth.records.files import StoredFile

_READ_BYTES = 8 * 1024 * 1024


class DamagedError(Exception):
    """A file read from the bucket is not the one that was uploaded."""


class EngineFolders(Protocol):
    """How one engine is told of compiled graphs."""

    def graphs(self, root: Path) -> Path:
        """The folder with the graphs, when the engine works below `root`."""

    def environment(self, root: Path) -> dict[str, str]:
        """What tells the engine to work below `root`."""

    def take_over(self, mounted: Path, manifest: ArtifactManifest, root: Path) -> Path:
        """Make graphs of the mounted bucket usable; returns the root to work below."""


@dataclass(frozen=True, kw_only=True)
class ArtifactFolder:
    """Graphs are loaded from the folder that a variable names, also from one that is read-only.

    They are read in place: loading reads them once, so a copy would only cost its time. When they
    cannot be loaded the engine compiles into the same folder, which the mount refuses: it ends with
    an error instead of compiling over them.
    """

    variable: str

    def graphs(self, root: Path) -> Path:
        """The root itself."""
        return root

    def environment(self, root: Path) -> dict[str, str]:
        """The one variable."""
        return {self.variable: str(root)}

    def take_over(self, mounted: Path, manifest: ArtifactManifest, root: Path) -> Path:  # noqa: ARG002
        """In place."""
        return mounted


@dataclass(frozen=True, kw_only=True)
class CompilerCache:
    """Graphs are entries of a cache that the engine writes and locks, so it works on a copy.

    `folder` is where they are below the one that the variable names. Each entry is addressed by the
    engine's own hash of the graph: one that does not fit is compiled again, not used.
    """

    variable: str
    folder: str

    def graphs(self, root: Path) -> Path:
        """The cache's folder of graphs."""
        return root / self.folder

    def environment(self, root: Path) -> dict[str, str]:
        """The one variable."""
        return {self.variable: str(root)}

    def take_over(self, mounted: Path, manifest: ArtifactManifest, root: Path) -> Path:
        """A copy, every file checked on its way."""
        graphs = self.graphs(root)
        partial = graphs.with_name(f"{graphs.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        for file in manifest.files:
            _copy(mounted / file.path, partial / file.path, file)
        partial.rename(graphs)
        return root


def _copy(source: Path, target: Path, file: StoredFile) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    with source.open("rb") as reader, target.open("wb") as writer:
        while block := reader.read(_READ_BYTES):
            digest.update(block)
            writer.write(block)
    if digest.hexdigest() != file.sha256:
        raise DamagedError(f"{file.path}: its content is not what was uploaded (SHA-256)")
