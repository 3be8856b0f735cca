"""What earlier pods of the same Job left of a run: read back, so that the next one continues.

A block is measured when its result file is there: files appear whole, and the result file comes
after the raw evidence. A number that any file of a block has is taken, also when the block's result
never came: names are written once, so the block that is measured again gets the next free number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

from draftworth.errors import DraftworthError
from draftworth.measuring.journal import JOURNAL_FOLDER, Entry
from draftworth.measuring.sink import Store
from draftworth.records.codec import RecordError, load_record
from draftworth.records.load import Load
from draftworth.records.results import (
    BLOCKS_FOLDER,
    INTERRUPTED_FOLDER,
    RESULT_SUFFIX,
    RUN_FILE,
    BlockResult,
    RunResult,
)

_PARALLEL_READS = 8


class BlockKey(NamedTuple):
    """What a block measures: no two blocks of a run have the same."""

    load: Load
    round: int
    prompt_class: str
    case: str
    variant: str

    @classmethod
    def of(cls, block: BlockResult) -> BlockKey:
        """The key of a block that was measured."""
        return cls._make(getattr(block, field) for field in cls._fields)


@dataclass(frozen=True, kw_only=True)
class History:
    """A run so far. `result` is there when it is over; `names` are relative to the run's folder."""

    result: RunResult | None = None
    blocks: tuple[BlockResult, ...] = ()
    entries: tuple[Entry, ...] = ()
    names: frozenset[str] = frozenset()

    @property
    def attempt(self) -> int:
        """The number of the pod that continues, from 1."""
        return max((entry.attempt for entry in self.entries), default=0) + 1

    @property
    def next_block(self) -> int:
        """The first block number that no file has."""
        return max(_numbers(self.names), default=0) + 1


def read_history(store: Store, run_id: str) -> History:
    """Read what there is of a run; empty where nothing was started.

    Raises:
        SinkError: the store cannot be read.
        DraftworthError: a file of the run is not what its name says.
    """
    folder = f"{run_id}/"
    names = [name.removeprefix(folder) for name in store.names(run_id)]

    def load(name: str) -> RunResult | BlockResult | Entry | None:
        kind = _kind(name)
        try:
            return load_record(kind, store.read(f"{folder}{name}")) if kind else None
        except RecordError as error:
            raise DraftworthError(f"{folder}{name}: not a file of this version: {error}") from error

    with ThreadPoolExecutor(_PARALLEL_READS) as pool:
        files = list(pool.map(load, names))
    blocks = [file for file in files if isinstance(file, BlockResult)]
    blocks.sort(key=lambda block: block.block)
    entries = [file for file in files if isinstance(file, Entry)]
    entries.sort(key=lambda entry: (entry.attempt, entry.number))
    return History(
        result=next((file for file in files if isinstance(file, RunResult)), None),
        blocks=tuple(blocks),
        entries=(*entries, *_without_entry(blocks, entries)),
        names=frozenset(names),
    )


def _kind(name: str) -> type[RunResult | BlockResult | Entry] | None:
    """What a file of a run holds; None for what only tools and people read."""
    if name == RUN_FILE:
        return RunResult
    if name.startswith(f"{JOURNAL_FOLDER}/"):
        return Entry
    is_block = name.startswith(f"{BLOCKS_FOLDER}/") and name.endswith(RESULT_SUFFIX)
    return BlockResult if is_block else None


def _numbers(names: frozenset[str]) -> Iterator[int]:
    for name in names:
        folder, _, file = name.rpartition("/")
        number = file.partition("-")[0]
        if folder in (BLOCKS_FOLDER, INTERRUPTED_FOLDER) and number.isdecimal():
            yield int(number)


def _without_entry(blocks: Sequence[BlockResult], entries: Sequence[Entry]) -> Iterator[Entry]:
    """Entries of blocks whose pod ended between the result file and the journal."""
    known = {stem for entry in entries for stem in entry.blocks}
    for block in blocks:
        before = [e for e in entries if e.started_at_unix_s <= block.started_at_unix_s]
        if block.stem not in known and before:
            yield Entry(
                attempt=max(e.attempt for e in before),
                number=block.block,
                kind="measured",
                started_at_unix_s=block.started_at_unix_s,
                ended_at_unix_s=block.ended_at_unix_s,
                blocks=(block.stem,),
            )
