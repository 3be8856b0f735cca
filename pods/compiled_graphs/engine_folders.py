"""Where an engine looks for compiled graphs, and where it leaves them.

Which release does it how stands in the catalogue (`draftworth/experiment/catalog.yaml`).
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from draftworth.records.artifact_manifest import ArtifactManifest
from draftworth.records.files import sha256_of
from draftworth.records.mounted_graphs import NEXT, RefusedGraphsError


@dataclass(frozen=True, kw_only=True)
class EngineFolders:
    """How one engine is told of compiled graphs.

    variable: names the root folder that the engine works below.
    cache: None: graphs are loaded from the root itself, also from one that is read-only, so they
        are read in place in the mounted bucket: loading reads them once, and a copy would only cost
        its time. When they cannot be loaded the engine compiles into the same folder, which the
        mount refuses: it ends with an error instead of compiling over them.
        Else a folder below the root: a cache that the engine writes and locks, so it works on a
        copy. Each entry is addressed by the engine's own hash of the graph: one that does not fit
        is compiled again, not used.
    proof: of a cache: names the variable that makes the engine end where a graph is not found in
        it; None: the engine has none.
    """

    variable: str
    cache: str | None = None
    proof: str | None = None

    def graphs(self, root: Path) -> Path:
        """The folder with the graphs, when the engine works below `root`."""
        return root / (self.cache or "")

    def take_over(self, mounted: Path, manifest: ArtifactManifest, root: Path) -> Path:
        """Make graphs of the mounted bucket usable; returns the root to work below.

        Raises:
            RefusedGraphsError: a file is not the one that was uploaded.
            OSError: a file cannot be copied.
        """
        if self.cache is None:
            return mounted
        graphs = self.graphs(root)
        partial = graphs.with_name(f"{graphs.name}.partial")
        for file in manifest.files:
            copy = partial / file.path
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(mounted / file.path, copy)
            if sha256_of(copy) != file.sha256:
                raise RefusedGraphsError(
                    f"{manifest.folder}: {file.path}: its content is not what was uploaded "
                    f"(SHA-256). {NEXT}"
                )
        partial.rename(graphs)
        return root
