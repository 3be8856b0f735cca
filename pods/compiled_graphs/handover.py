"""What `start` tells `upload`: a record on the pod's scratch volume.

The volume is an emptyDir: it outlives its containers, so a record may be of an earlier start. The
record says what is being served; the mark beside it, made once the server was healthy, that what it
compiled is whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from draftworth.records.codec import RecordError, dump_record, load_record
from draftworth.records.files import replace_file
from draftworth.untrusted import TooLargeError, read_file

RECORD_NAME = "start.json"
MARK_NAME = "compiled-whole.json"

Origin = Literal["bucket", "compiled"]


@dataclass(frozen=True, kw_only=True)
class StartRecord:
    """One start of the server.

    origin: `bucket`: the graphs were there; `compiled`: the server compiles them, or did.
    graphs: folder with the graphs, in the pod.
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
    """What a start compiled is whole. sizes: of its files, in bytes, by relative path."""

    start_id: str
    sizes: Mapping[str, int]


def write_record(scratch: Path, record: StartRecord) -> None:
    """Replace the record, all of it at once."""
    replace_file(scratch / RECORD_NAME, dump_record(record))


def read_record(scratch: Path) -> StartRecord | None:
    """The record; None when there is none, or none of this version."""
    try:
        return load_record(StartRecord, read_file(scratch / RECORD_NAME))
    except (OSError, RecordError, TooLargeError):
        return None


def mark_whole(scratch: Path, record: StartRecord) -> None:
    """Say that what this start compiled is whole, and how long each file is."""
    sizes = {name: path.stat().st_size for name, path in compiled_files(Path(record.graphs))}
    mark = WholeMark(start_id=record.start_id, sizes=sizes)
    replace_file(scratch / MARK_NAME, dump_record(mark))


def compiled_files(graphs: Path) -> Iterator[tuple[str, Path]]:
    """Relative and full path of every file, in order; locks belong to processes, so not those."""
    for path in sorted(graphs.rglob("*")):
        if path.is_file() and path.suffix != ".lock":
            yield path.relative_to(graphs).as_posix(), path


def is_whole(scratch: Path, record: StartRecord) -> bool:
    """Whether what this start compiled was whole and is still there, every file of it."""
    graphs = Path(record.graphs)
    try:
        mark = load_record(WholeMark, read_file(scratch / MARK_NAME))
        there = {path: (graphs / path).stat().st_size for path in mark.sizes}
    except (OSError, ValueError, RecordError, TooLargeError):  # ValueError: a name with a NUL
        return False
    return bool(there) and mark.start_id == record.start_id and there == mark.sizes
