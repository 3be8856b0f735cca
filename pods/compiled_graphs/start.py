"""What runs before vLLM in its container: finds compiled graphs or makes room for new ones.

- The bucket has the key: its manifest is compared with what is asked for, and the sizes of its
  files with what is mounted. Good: serve from it. Not good: REFUSED, with the differences; nothing
  is compiled over it, because then nobody would learn that it is wrong.
- It has not: vLLM compiles onto the node's disk and serves at once; `upload` does the rest.

Then vLLM takes this process's place (`exec`), so Kubernetes signals reach it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import sys
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from draftworth.records.artifact_manifest import (
    MANIFEST_NAME,
    ArtifactManifest,
    differences,
    manifest_key,
    size_differences,
)
from draftworth.records.codec import RecordError, load_record
from draftworth.records.staging import READY_MARKER, ReadyModel
from draftworth.untrusted import TooLargeError, printable, read_file
from pods.compiled_graphs.engine_folders import EngineFolders
from pods.compiled_graphs.handover import StartRecord, is_whole, read_record, write_record

EXIT_REFUSED = 1
_NEXT = (
    "Next: `python -m draftworth artifacts EXPERIMENT --run` removes graphs that do not match; the "
    "next start compiles"
)


class RefusedError(Exception):
    """The bucket has the key, but what it has must not be served."""


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


def main(argv: list[str]) -> int:
    """Prepare, then become the command after `--`; returns only when that is refused."""
    # As process 1 without a handler this one would not get SIGTERM at all. exec puts it back.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    split = argv.index("--")
    order = _order(_parser().parse_args(argv[:split]), os.environ)
    try:
        os.environ.update(prepare(order))
    except RefusedError as refused:
        _log(f"REFUSED: {refused}")
    else:
        os.execvp(argv[split + 1], argv[split + 1 :])  # noqa: S606 (the pod's own command)
    return EXIT_REFUSED


def prepare(order: Order) -> dict[str, str]:
    """Graphs on disk or in the bucket, or room for new ones; the environment that says where.

    Raises:
        RefusedError: the bucket has the key, and its graphs must not be served.
    """
    root = order.scratch / "graphs" / order.key
    if _is_compiled(order):
        _log(f"graphs of {order.key} were compiled by an earlier start of this pod")
        return {order.folders.variable: str(root)}
    # Whatever else an earlier start left was cut off: half a graph, or a lock that nobody holds.
    _empty(order.scratch)
    commits = _commits(order)
    manifest = _manifest(order, commits)
    if manifest:
        root = _take_over(order, manifest, root)
    else:
        _log(f"{order.key} is not in the bucket: compiling to {root}, may take an hour or more")
    write_record(order.scratch, _record(order, commits, manifest, root))
    return {order.folders.variable: str(root)}


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
        start_id=uuid.uuid4().hex[:12],
        key=order.key,
        inputs=order.inputs,
        checkpoints=commits,
        origin="bucket" if manifest else "compiled",
        graphs=str(order.folders.graphs(root)),
        started_at_unix_s=time.time(),
    )


def _manifest(order: Order, commits: Mapping[str, str]) -> ArtifactManifest | None:
    """The bucket's manifest of the key, checked; None when the bucket has none."""
    path = order.artifacts / manifest_key(order.key)
    try:
        manifest = load_record(ArtifactManifest, read_file(path))
    except FileNotFoundError:
        return None
    except (OSError, RecordError, TooLargeError) as error:
        raise RefusedError(f"{path} cannot be read: {error}. {_NEXT}") from error
    found = differences(manifest, order.inputs, commits)
    if manifest.key != order.key:
        found.append(f"key: the manifest is of {manifest.key}, asked for {order.key}")
    mounted = order.artifacts / manifest.folder
    sizes = {file.path: _size(mounted / file.path) for file in manifest.files}
    found += size_differences(manifest, sizes)
    if found:
        listed = "\n  ".join(found)
        raise RefusedError(
            f"{order.key}/{MANIFEST_NAME} is not what is asked for:\n  {listed}\n{_NEXT}"
        )
    return manifest


def _take_over(order: Order, manifest: ArtifactManifest, root: Path) -> Path:
    _log(f"graphs of {order.key} are in the bucket: {manifest.size_bytes} bytes")
    try:
        return order.folders.take_over(order.artifacts / manifest.folder, manifest, root)
    except OSError as error:
        raise RefusedError(f"{manifest.folder}: {error}. {_NEXT}") from error


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None


def _commits(order: Order) -> dict[str, str]:
    """The commit of each mounted checkpoint that says its own: those that were staged do."""
    commits = {}
    for role, folder in order.checkpoints.items():
        with contextlib.suppress(OSError, RecordError, TooLargeError):
            commits[role] = load_record(ReadyModel, read_file(folder / READY_MARKER)).commit
    return commits


def _empty(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for item in folder.iterdir():
        if item.is_dir() and not item.is_symlink():
            shutil.rmtree(item)
        else:
            item.unlink()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="start", description=__doc__)
    parser.add_argument("--artifacts", required=True, type=Path, help="the mounted bucket")
    parser.add_argument("--scratch", required=True, type=Path, help="a folder on the node's disk")
    parser.add_argument(
        "--checkpoint",
        action="append",
        default=[],
        metavar="ROLE=FOLDER",
        help="a mounted checkpoint, whose commit is compared where it says one",
    )
    way = parser.add_mutually_exclusive_group(required=True)
    way.add_argument("--artifact-folder", metavar="VARIABLE", help="the engine reads a folder")
    way.add_argument(
        "--compiler-cache",
        nargs=2,
        metavar=("VARIABLE", "FOLDER"),
        help="the engine keeps a cache, with the graphs in FOLDER below it",
    )
    return parser


def _order(arguments: argparse.Namespace, environment: Mapping[str, str]) -> Order:
    pairs = (pair.partition("=") for pair in arguments.checkpoint)
    variable, cache = arguments.compiler_cache or (arguments.artifact_folder, None)
    return Order(
        key=environment["ARTIFACT_KEY"],
        inputs=json.loads(environment["ARTIFACT_INPUTS"]),
        folders=EngineFolders(variable=variable, cache=cache),
        artifacts=arguments.artifacts,
        scratch=arguments.scratch,
        checkpoints={role: Path(folder) for role, _, folder in pairs},
    )


def _log(line: str) -> None:
    text = printable(f"compiled graphs: {line}")
    print(text, file=sys.stderr, flush=True)  # noqa: T201 (a pod's log)
