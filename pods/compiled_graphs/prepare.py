"""What happens before vLLM runs: finds compiled graphs or makes room for new ones.

- The bucket has the key: its manifest is compared with what is asked for, and the sizes of its
  files with what is mounted. Good: serve from it. Not good: REFUSED, with the differences; nothing
  is compiled over it, because then nobody would learn that it is wrong.
- It has such that were compiled without a device, unproven: compared in the same way, copied, and
  tried. What is wrong with them is no refusal: they are rejected, for all, and vLLM compiles.
- It has neither: vLLM compiles onto the node's disk and serves at once; `upload` does the rest.
"""

from __future__ import annotations

import contextlib
import shutil
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from draftworth.records.artifact_manifest import ArtifactManifest
from draftworth.records.mounted_graphs import (
    RefusedGraphsError,
    checked_manifest,
    mismatches,
    mounted_commits,
    mounted_rejection,
    unproven_manifest,
)
from draftworth.records.server_state import GraphsFrom
from draftworth.records.unproven_graphs import Rejection
from draftworth.untrusted import one_line
from pods.compiled_graphs.engine_folders import EngineFolders
from pods.compiled_graphs.handover import (
    REJECTION_NAME,
    Origin,
    StartRecord,
    is_proven,
    is_whole,
    read_record,
    read_rejection,
    write_record,
    write_rejection,
)
from pods.compiled_graphs.starts import STARTS_NAME
from pods.log import log_line

REASON_CHARACTERS = 1000


@dataclass(frozen=True, kw_only=True)
class Order:
    """What is to be served.

    artifacts: the mounted bucket; scratch: the pod's own disk; checkpoints: mounted, by role.
    server, pod: who serves it, for a rejection.
    """

    key: str
    inputs: Mapping[str, Any]
    folders: EngineFolders
    artifacts: Path
    scratch: Path
    checkpoints: Mapping[str, Path]
    server: str
    pod: str


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """What vLLM is given.

    environment: says where the graphs are.
    graphs: where they are from. compiles: there are none yet.
    proof: further environment with which vLLM ends where a restored graph is not found; empty where
        there is nothing to prove.
    unproven: what was copied and no device has loaded before.
    """

    environment: Mapping[str, str]
    graphs: GraphsFrom
    compiles: bool = False
    proof: Mapping[str, str]
    unproven: ArtifactManifest | None = None


def prepare(order: Order, *, try_unproven: bool = True) -> Prepared:
    """Graphs on disk or in the bucket, or room for new ones.

    Raises:
        RefusedGraphsError: the bucket has the key, and its graphs must not be served.
        OSError: mount or disk failed; another start may do.
    """
    root = order.scratch / "graphs" / order.key
    if _is_compiled(order):
        say(f"graphs of {order.key} were compiled by an earlier start of this pod")
        return _prepared(order, root, own=True)
    _reject_what_ended_without_a_word(order)
    # Whatever else an earlier start left was cut off: half a graph, or a lock that nobody holds.
    _empty(order.scratch)
    commits = mounted_commits(order.checkpoints)
    manifest = checked_manifest(order.artifacts, order.key, order.inputs, commits)
    if manifest:
        say(f"graphs of {order.key} are in the bucket: {manifest.size_bytes} bytes")
        root = order.folders.take_over(order.artifacts / manifest.folder, manifest, root)
        write_record(order.scratch, _record(order, commits, root, "bucket"))
        return _prepared(order, root)
    if try_unproven and (unproven := _copied_unproven(order, commits, root)):
        write_record(order.scratch, _record(order, commits, root, "unproven", unproven.folder))
        return _prepared(order, root, unproven=unproven)
    say(f"{order.key} is not in the bucket: compiling to {root}, may take an hour or more")
    write_record(order.scratch, _record(order, commits, root, "compiled"))
    return replace(_prepared(order, root, own=True), compiles=True)


def compiles_after_all(order: Order, *, since_unix_s: float | None = None) -> None:
    """What was restored is not what is served, so this is another start, with graphs of its own.

    since_unix_s: when it began; None: now.
    """
    if record := read_record(order.scratch):
        begun = _begun("compiled", since_unix_s)
        write_record(order.scratch, replace(record, upload="", **begun))


def reject(order: Order, folder: str, reason: str, last_lines: tuple[str, ...] = ()) -> None:
    """Graphs that could not be used: for this pod here, and for all through `upload`.

    A disk that is full ends no server: then nobody is told.
    """
    say(f"{folder} is rejected: {reason}")
    rejection = Rejection(
        key=order.key,
        folder=folder,
        server=order.server,
        pod=order.pod,
        reason=one_line(reason, characters=REASON_CHARACTERS),
        last_lines=last_lines,
        rejected_at_unix_s=time.time(),
    )
    with contextlib.suppress(OSError):
        write_rejection(order.scratch, rejection)


def say(line: str) -> None:
    """A line of the container's log."""
    log_line(f"compiled graphs: {line}")


def _is_compiled(order: Order) -> bool:
    """Whether an earlier start of this pod compiled the key and its graphs are whole."""
    earlier = read_record(order.scratch)
    if earlier is None or (earlier.key, earlier.origin) != (order.key, "compiled"):
        return False
    return is_whole(order.scratch, earlier)


def _prepared(
    order: Order, root: Path, *, own: bool = False, unproven: ArtifactManifest | None = None
) -> Prepared:
    """own: the graphs are this pod's, or will be."""
    word: GraphsFrom = "unproven" if unproven else "proven"
    if own:
        word = "rejected" if read_rejection(order.scratch) else "compiled"
    proof = order.folders.proof
    return Prepared(
        environment={order.folders.variable: str(root)},
        graphs=word,
        proof={proof: "1"} if proof and not own else {},
        unproven=unproven,
    )


def _copied_unproven(
    order: Order, commits: Mapping[str, str], root: Path
) -> ArtifactManifest | None:
    """Unproven graphs as the engine may use them; None where there are none to be tried."""
    try:
        found = unproven_manifest(order.artifacts, order.key)
        rejected = mounted_rejection(order.artifacts, order.key)
    except RefusedGraphsError as error:
        say(f"not tried: {error}")
        return None
    if found is None:
        return None
    graphs = found.graphs
    own = read_rejection(order.scratch)
    if rejected and rejected.folder == graphs.folder and own is None:
        write_rejection(order.scratch, rejected)
    if graphs.folder in {r.folder for r in (own, rejected) if r}:
        say(f"{graphs.folder} was rejected before: not tried again")
        return None
    say(f"{graphs.folder} was compiled without a device and is not proven yet: tried")
    problems = mismatches(
        order.artifacts, graphs, key=order.key, inputs=order.inputs, commits=commits
    )
    try:
        if not problems:
            order.folders.copy(order.artifacts / graphs.folder, graphs, root)
            return graphs
    except RefusedGraphsError as error:
        problems = [str(error)]
    _empty(order.scratch)
    reject(order, graphs.folder, "; ".join(problems))
    return None


def _reject_what_ended_without_a_word(order: Order) -> None:
    """An earlier start with unproven graphs was killed, and this container with it."""
    earlier = read_record(order.scratch)
    if earlier is None or (earlier.key, earlier.origin) != (order.key, "unproven"):
        return
    if not is_proven(order.scratch, earlier):
        reject(
            order,
            earlier.upload,
            "a start with them ended without a word, as when it has no memory left",
        )


def _record(
    order: Order, commits: Mapping[str, str], root: Path, origin: Origin, upload: str = ""
) -> StartRecord:
    return StartRecord(
        key=order.key,
        inputs=order.inputs,
        checkpoints=commits,
        graphs=str(order.folders.graphs(root)),
        upload=upload,
        **_begun(origin),
    )


def _begun(origin: Origin, since_unix_s: float | None = None) -> dict[str, Any]:
    return {
        "start_id": uuid.uuid4().hex[:12],
        "origin": origin,
        "started_at_unix_s": time.time() if since_unix_s is None else since_unix_s,
    }


def _empty(folder: Path) -> None:
    """Everything goes but the count of this pod's starts, and what it has rejected."""
    folder.mkdir(parents=True, exist_ok=True)
    for item in folder.iterdir():
        if item.name in (STARTS_NAME, REJECTION_NAME):
            continue
        if item.is_dir() and not item.is_symlink():
            shutil.rmtree(item)
        else:
            item.unlink()
