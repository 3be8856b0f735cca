"""Find compiled graphs for vLLM, or make room for new ones.

- Where the bucket has the key, its manifest is compared with the wanted inputs, and the sizes of
its
  files with the mounted ones. Graphs that match are served. Others are REFUSED with their
  differences: if a server compiled over them, nobody would learn that they are wrong.
- Where the bucket lacks the key, vLLM compiles onto the node's disk and serves at once; `upload`
does
  the rest.
"""

import shutil
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from draftworth.records.artifacts import (
    NEXT,
    ArtifactManifest,
    RefusedGraphsError,
    checked_manifest,
    mounted_commits,
)
from draftworth.records.checkpoints import sha256_of
from pods.compiled_graphs.scratch import (
    STARTS_NAME,
    Origin,
    StartRecord,
    is_whole,
    read_record,
    write_record,
)
from pods.log import log_line


@dataclass(frozen=True, kw_only=True)
class EngineFolders:
    """How one engine is told of compiled graphs, by its release in the catalogue
    (`draftworth/experiment/catalog.yaml`).

    variable: names the root folder that the engine works below.
    cache: None: the engine loads graphs from the root, which may be read-only, so they are read in
        place in the mounted bucket. If it cannot load them it compiles into the same folder, which
        the mount refuses: it ends with an error instead of compiling over them.
        Else a folder below the root: a cache that the engine writes and locks, so it works on a
        copy. The engine's own hash of the graph addresses each entry: one that does not fit is
        compiled again, not used.
    proof: of a cache: the variable that makes the engine end where a graph is not found in it;
    None:
        the engine has none.
    """

    variable: str
    cache: str | None = None
    proof: str | None = None

    def graphs(self, root: Path) -> Path:
        """Return the folder with the graphs of an engine that works below `root`."""
        return root / (self.cache or "")

    def take_over(self, mounted: Path, manifest: ArtifactManifest, root: Path) -> Path:
        """Make graphs of the mounted bucket usable, and return the root to work below.

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


@dataclass(frozen=True, kw_only=True)
class Order:
    """The graphs and checkpoints that a server needs.

    artifacts: the mounted bucket; scratch: the pod's own disk; checkpoints: mounted, by role.
    """

    key: str
    inputs: Mapping[str, Any]
    folders: EngineFolders
    artifacts: Path
    scratch: Path
    checkpoints: Mapping[str, Path]


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """The result for vLLM.

    environment: says where the graphs are.
    compiles: there are no graphs yet.
    proof: further environment with which vLLM ends where a restored graph is not found; empty where
        nothing was restored.
    """

    environment: Mapping[str, str]
    compiles: bool = False
    proof: Mapping[str, str]


def prepare(order: Order) -> Prepared:
    """Find graphs on the disk or in the bucket, or make room for new ones.

    Raises:
        RefusedGraphsError: the bucket has the key, and its graphs must not be served.
        OSError: mount or disk failed; another start may do.
    """
    root = order.scratch / "graphs" / order.key
    if _is_compiled(order):
        say(f"graphs of {order.key} were compiled by an earlier start of this pod")
        return Prepared(environment={order.folders.variable: str(root)}, proof={})
    # An earlier start was cut off: it may have left half a graph, or a lock that nobody holds.
    _empty(order.scratch)
    commits = mounted_commits(order.checkpoints)
    manifest = checked_manifest(order.artifacts, order.key, order.inputs, commits)
    if manifest:
        say(f"graphs of {order.key} are in the bucket: {manifest.size_bytes} bytes")
        root = order.folders.take_over(order.artifacts / manifest.folder, manifest, root)
    else:
        say(f"{order.key} is not in the bucket: compiling to {root}, may take an hour or more")
    write_record(order.scratch, _record(order, commits, manifest, root))
    return Prepared(
        environment={order.folders.variable: str(root)},
        compiles=manifest is None,
        proof={order.folders.proof: "1"} if manifest and order.folders.proof else {},
    )


def compiles_after_all(order: Order) -> None:
    """Record another start that compiles: the engine did not find the restored graphs."""
    if record := read_record(order.scratch):
        write_record(order.scratch, replace(record, **_begun("compiled")))


def say(line: str) -> None:
    """Write a line into the container's log."""
    log_line(f"compiled graphs: {line}")


def _is_compiled(order: Order) -> bool:
    earlier = read_record(order.scratch)
    if earlier is None or (earlier.key, earlier.origin) != (order.key, "compiled"):
        return False
    return is_whole(order.scratch, earlier)


def _record(
    order: Order, commits: Mapping[str, str], manifest: ArtifactManifest | None, root: Path
) -> StartRecord:
    return StartRecord(
        key=order.key,
        inputs=order.inputs,
        checkpoints=commits,
        graphs=str(order.folders.graphs(root)),
        **_begun("bucket" if manifest else "compiled"),
    )


def _begun(origin: Origin) -> dict[str, Any]:
    return {
        "start_id": uuid.uuid4().hex[:12],
        "origin": origin,
        "started_at_unix_s": time.time(),
    }


def _empty(folder: Path) -> None:
    """Remove everything but the count of this pod's starts."""
    folder.mkdir(parents=True, exist_ok=True)
    for item in folder.iterdir():
        if item.name == STARTS_NAME:
            continue
        if item.is_dir() and not item.is_symlink():
            shutil.rmtree(item)
        else:
            item.unlink()
