"""What happens before vLLM runs: finds compiled graphs or makes room for new ones.

- The bucket has the key: its manifest is compared with what is asked for, and the sizes of its
  files with what is mounted. Good: serve from it. Not good: REFUSED, with the differences; nothing
  is compiled over it, because then nobody would learn that it is wrong.
- It has not: vLLM compiles onto the node's disk and serves at once; `upload` does the rest.
"""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from draftworth.records.artifact_manifest import ArtifactManifest
from draftworth.records.mounted_graphs import checked_manifest, mounted_commits
from pods.compiled_graphs.engine_folders import EngineFolders
from pods.compiled_graphs.handover import (
    Origin,
    StartRecord,
    is_whole,
    read_record,
    write_record,
)
from pods.compiled_graphs.starts import STARTS_NAME
from pods.log import log_line


@dataclass(frozen=True, kw_only=True)
class Order:
    """What is to be served.

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
    """What vLLM is given.

    environment: says where the graphs are.
    compiles: there are none yet.
    proof: further environment with which vLLM ends where a restored graph is not found; empty where
        there is nothing to prove.
    """

    environment: Mapping[str, str]
    compiles: bool = False
    proof: Mapping[str, str]


def prepare(order: Order) -> Prepared:
    """Graphs on disk or in the bucket, or room for new ones.

    Raises:
        RefusedGraphsError: the bucket has the key, and its graphs must not be served.
        OSError: mount or disk failed; another start may do.
    """
    root = order.scratch / "graphs" / order.key
    if _is_compiled(order):
        say(f"graphs of {order.key} were compiled by an earlier start of this pod")
        return Prepared(environment={order.folders.variable: str(root)}, proof={})
    # Whatever else an earlier start left was cut off: half a graph, or a lock that nobody holds.
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
    """What was restored was not hit, so this is another start, and its graphs are its own."""
    if record := read_record(order.scratch):
        write_record(order.scratch, replace(record, **_begun("compiled")))


def say(line: str) -> None:
    """A line of the container's log."""
    log_line(f"compiled graphs: {line}")


def _is_compiled(order: Order) -> bool:
    """Whether an earlier start of this pod compiled the key and its graphs are whole."""
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
    """Everything goes but the count of this pod's starts."""
    folder.mkdir(parents=True, exist_ok=True)
    for item in folder.iterdir():
        if item.name == STARTS_NAME:
            continue
        if item.is_dir() and not item.is_symlink():
            shutil.rmtree(item)
        else:
            item.unlink()
