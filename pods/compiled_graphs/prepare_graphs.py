"""Finds compiled graphs for vLLM, or prepares an empty folder for new graphs.

- If the bucket has graphs of the artifact key (a hash of all that determines the graphs), their
  manifest is compared with the wanted inputs and with the sizes of the mounted files. If they
  match, the graphs are used. Otherwise the start is REFUSED with the differences: new graphs must
  not silently replace wrong ones.
- If the bucket has none, vLLM compiles onto the node's disk and serves at once; `upload`
  copies the graphs to the bucket.
"""

import shutil
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from draftworth.records import graph_manifests
from draftworth.records.checkpoints import sha256_of
from pods.compiled_graphs import scratch_records
from pods.log import log_line


@dataclass(frozen=True, kw_only=True)
class Order:
    """The graphs and checkpoints that a server needs, and how its engine finds the graphs.

    key, inputs: the artifact key of the graphs, and the values whose hash is the key.
    variable: the environment variable with the root folder of the engine's graphs.
    cache: the folder, below the root, of the engine's own cache. The engine writes to it and locks
        it, so stored graphs are copied there from the bucket. The engine looks up each graph by a
        hash that the engine computes (not by `key`), and compiles a graph that it does not find.
        None: the engine has no cache. If the bucket has the graphs, the root is their folder in
        the mounted bucket, which is read-only. If the engine cannot load a graph there, it tries
        to compile into the root, fails at the write, and ends: no stored graph is overwritten.
    proof: an environment variable; if it is set, the engine ends instead of compiling a graph that
        its cache lacks. None: the engine has no such variable.
    artifacts: mount of the bucket with graphs. scratch: folder on the node's disk.
    checkpoints: mounts of the checkpoints, by role (`target` or `draft`).
    """

    key: str
    inputs: Mapping[str, Any]
    variable: str
    cache: str | None = None
    proof: str | None = None
    artifacts: Path
    scratch: Path
    checkpoints: Mapping[str, Path]


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """How vLLM must be started, so that it finds its graphs or compiles them.

    environment: the environment variables that say where the graphs are.
    compiles: there are no graphs yet, so vLLM compiles them.
    proof: more environment variables, with which vLLM ends if it lacks a graph in its cache;
        empty if no graphs were copied from the bucket, or if the engine has no such variable.
    """

    environment: Mapping[str, str]
    compiles: bool = False
    proof: Mapping[str, str]


def prepare(order: Order) -> Prepared:
    """Find graphs on the disk or in the bucket, or prepare an empty folder for new graphs.

    It raises RefusedGraphsError if the bucket's graphs do not match the order, and OSError if the
    mount or the disk failed: another start may then succeed.
    """
    root = order.scratch / scratch_records.GRAPHS_FOLDER / order.key
    before = scratch_records.read_record(order.scratch)
    is_ours = before and (before.key, before.origin) == (order.key, "compiled")
    if before and is_ours and scratch_records.is_whole(order.scratch, before):
        say(f"graphs of {order.key} were compiled by an earlier start of this pod")
        return Prepared(environment={order.variable: str(root)}, proof={})
    # An earlier start that was killed may have left part of a graph, or a lock file.
    _empty(order.scratch)
    commits = graph_manifests.mounted_commits(order.checkpoints)
    manifest = graph_manifests.checked_manifest(order.artifacts, order.key, order.inputs, commits)
    if manifest:
        say(f"graphs of {order.key} are in the bucket: {manifest.size_bytes} bytes")
        root = _take_over(order, manifest, root)
    else:
        say(f"{order.key} is not in the bucket: compiling to {root}, may take an hour or more")
    record = scratch_records.StartRecord(
        key=order.key,
        inputs=order.inputs,
        checkpoints=commits,
        graphs=str(root / (order.cache or "")),
        **_begun("bucket" if manifest else "compiled"),
    )
    scratch_records.write_record(order.scratch, record)
    return Prepared(
        environment={order.variable: str(root)},
        compiles=manifest is None,
        proof={order.proof: "1"} if manifest and order.proof else {},
    )


def record_compiling_start(order: Order) -> None:
    """Write into `start.json` that this start compiles its graphs.

    It is a second start: in the first, the engine did not find the graphs from the bucket.
    """
    if record := scratch_records.read_record(order.scratch):
        scratch_records.write_record(order.scratch, replace(record, **_begun("compiled")))


def say(line: str) -> None:
    """Write a line into the container's log."""
    log_line(f"compiled graphs: {line}")


def _take_over(order: Order, manifest: graph_manifests.ArtifactManifest, root: Path) -> Path:
    mounted = order.artifacts / manifest.folder
    if order.cache is None:
        return mounted
    graphs = root / order.cache
    partial = graphs.with_name(f"{graphs.name}.partial")
    for file in manifest.files:
        copy = partial / file.path
        copy.parent.mkdir(parents=True, exist_ok=True)
        # A wrong copy may be the fault of the mount or the disk. Only if a second copy is wrong
        # too, the bucket's graphs are refused.
        hashes = (_copied(mounted / file.path, copy) for _ in range(2))
        if file.sha256 not in hashes:
            raise graph_manifests.RefusedGraphsError(
                f"{manifest.folder}: {file.path}: its content is not what was uploaded "
                f"(SHA-256, of two copies). Next: delete {manifest.key}/ in the artifacts bucket; "
                "the next start compiles"
            )
    partial.rename(graphs)
    return root


def _copied(source: Path, target: Path) -> str:
    shutil.copyfile(source, target)
    return sha256_of(target)


def _begun(origin: scratch_records.Origin) -> dict[str, Any]:
    start_id = uuid.uuid4().hex[:12]
    return {"start_id": start_id, "origin": origin, "started_at_unix_s": time.time()}


def _empty(folder: Path) -> None:
    """Remove everything in the folder except `starts.json`."""
    folder.mkdir(parents=True, exist_ok=True)
    for item in folder.iterdir():
        if item.name == scratch_records.STARTS_NAME:
            continue
        if item.is_dir() and not item.is_symlink():
            shutil.rmtree(item)
        else:
            item.unlink()
