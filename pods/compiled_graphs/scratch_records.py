"""Records on a pod's scratch volume: its server's starts, and what the uploader must know of them.

The volume is an emptyDir. It outlives the pod's containers and is deleted with the pod, so a record
may be of an earlier container, and a new pod has no records.

- `starts.json` counts the server's starts, and has the time of the first start since the server was
  last healthy, in seconds since the node's boot: all containers share this clock, and nobody can
  set it.
- `start.json` describes the current start and its graphs.
- `compiled-whole.json` is written when the server is healthy: its compiled graphs are complete.
"""

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from io import BufferedReader
from pathlib import Path, PurePath
from typing import Any, Literal, TypeVar

from draftworth.records.codec import RecordError, dump_record, load_record
from draftworth.records.servers import SelfTest
from draftworth.safe_writing import write_file
from draftworth.untrusted import TooLargeError, read_file

R = TypeVar("R")

STARTS_NAME = "starts.json"
RECORD_NAME = "start.json"
MARK_NAME = "compiled-whole.json"
GRAPHS_FOLDER = "graphs"

Origin = Literal["bucket", "compiled"]


@dataclass(frozen=True, kw_only=True)
class Starts:
    """How often one pod has started its server, and what it learned about later starts.

    number: the number of the current start, from 1.
    without_health: starts since the server was last healthy, including the current one. A start
        counts when it begins, so a start that was killed counts too.
    first_at_seconds: when the first start that `without_health` counts began (after the self-test),
        in seconds since the node's boot.
    cache_missed: whether the engine, in a start of this pod, did not find the graphs that were
        copied from the bucket; all later starts of the pod then compile.
    given_up: why the server is not started again; empty if it may be.
    self_test: what this pod's self-test found; None until it has ended.
    """

    number: int
    without_health: int
    first_at_seconds: float
    cache_missed: bool = False
    given_up: str = ""
    self_test: SelfTest | None = None


def begin(scratch: Path, clock: Callable[[], float] = time.monotonic) -> Starts:
    """Count a new start in `starts.json`, and return the record.

    A record that cannot be read is treated as missing.
    clock: returns seconds since the node's boot.
    """
    now = clock()
    earlier = _read(Starts, scratch / STARTS_NAME)
    if earlier is None or not earlier.number >= earlier.without_health >= 0:
        earlier = Starts(number=0, without_health=0, first_at_seconds=now)
    # The clock counts from the node's boot, so a recorded time after `now` is of an earlier boot.
    first = min(earlier.first_at_seconds, now) if earlier.without_health else now
    begun = replace(
        earlier,
        number=earlier.number + 1,
        without_health=earlier.without_health + 1,
        first_at_seconds=first,
    )
    keep(scratch, begun)
    return begun


def keep(scratch: Path, starts: Starts) -> None:
    """Replace `starts.json` atomically. Ignore an error (a full disk): the server must go on."""
    with contextlib.suppress(OSError):
        scratch.mkdir(parents=True, exist_ok=True)
        write_file(scratch / STARTS_NAME, dump_record(starts))


def _read(kind: type[R], path: Path) -> R | None:
    try:
        return load_record(kind, read_file(path))
    except (OSError, RecordError, TooLargeError):
        return None


@dataclass(frozen=True, kw_only=True)
class StartRecord:
    """One start of the server.

    start_id: 12 random hex digits.
    key, inputs: the artifact key of the server's graphs, and the values that the key is a hash of.
    checkpoints: by role, the commit of each mounted checkpoint whose commit is known.
    origin: `bucket` if the bucket had the graphs, `compiled` if this pod compiled them.
    graphs: the path of the folder with the graphs, in the pod.
    """

    start_id: str
    key: str
    inputs: Mapping[str, Any]
    checkpoints: Mapping[str, str]
    origin: Origin
    graphs: str
    started_at_unix_s: float


@dataclass(frozen=True, kw_only=True)
class WholeMark:
    """Says that the compiled graphs of one start are complete.

    sizes: the size of each file in bytes, by its path in the folder with the graphs.
    """

    start_id: str
    sizes: Mapping[str, int]


def write_record(scratch: Path, record: StartRecord) -> None:
    """Write the current start's record into `start.json`, which is replaced atomically."""
    write_file(scratch / RECORD_NAME, dump_record(record))


def read_record(scratch: Path) -> StartRecord | None:
    """Return the record in `start.json`; None if missing, unreadable or of another version."""
    return _read(StartRecord, scratch / RECORD_NAME)


def mark_whole(scratch: Path, record: StartRecord) -> None:
    """Write into `compiled-whole.json` that the graphs that this start compiled are complete.

    The size of each file is written too, so that `is_whole` can notice a change.
    """
    sizes = {name: path.stat().st_size for name, path in compiled_files(Path(record.graphs))}
    mark = WholeMark(start_id=record.start_id, sizes=sizes)
    write_file(scratch / MARK_NAME, dump_record(mark))


def compiled_files(graphs: Path) -> Iterator[tuple[str, Path]]:
    """Yield the relative and the full path of every file except locks and links, sorted by path."""
    for path in sorted(graphs.rglob("*")):
        if path.is_file() and not path.is_symlink() and path.suffix != ".lock":
            yield path.relative_to(graphs).as_posix(), path


def links_in(graphs: Path) -> list[str]:
    """Return the relative paths of all symbolic links below a folder, sorted.

    The caller must not upload them, because a link can name any file.
    """
    return sorted(p.relative_to(graphs).as_posix() for p in graphs.rglob("*") if p.is_symlink())


def graphs_below(scratch: Path, record: StartRecord) -> PurePath | None:
    """Return the path of the record's folder with graphs, relative to `scratch`.

    None: that folder is not below `scratch/graphs`, so nothing in it may be uploaded. vLLM's
    container can write the record too, and could name any folder of the pod.
    """
    root, folder = scratch.resolve(), Path(record.graphs).resolve()
    return folder.relative_to(root) if folder.is_relative_to(root / GRAPHS_FOLDER) else None


def open_without_links(scratch: Path, path: PurePath) -> BufferedReader:
    """Open a file below `scratch`; OSError: the file, or a folder on the way to it, is a link."""
    opened = os.open(scratch, os.O_RDONLY | os.O_DIRECTORY)
    for part in path.parts:
        outer, flags = opened, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            opened = os.open(part, flags, dir_fd=outer)
        finally:
            os.close(outer)
    return os.fdopen(opened, "rb")


def is_whole(scratch: Path, record: StartRecord) -> bool:
    """Return whether this start's compiled graphs were marked as complete and are unchanged."""
    graphs, mark = Path(record.graphs), _read(WholeMark, scratch / MARK_NAME)
    if mark is None or mark.start_id != record.start_id:
        return False
    try:
        there = {path: (graphs / path).stat().st_size for path in mark.sizes}
    except (OSError, ValueError):  # ValueError: a path with a NUL
        return False
    return bool(there) and there == mark.sizes
