"""The journal of a run: what each of its pods did, and when, so that the next pod can continue.

A process of `measure` or `compare` that begins or resumes a run counts as a pod here.

A measuring Job's pod writes each entry as a file of its own, `journal/0002-0003-measured.json`:
entry 3 (counted from 0) of pod 2. A pod may be killed before it can write, so a pod that did not
finish the run counts as ended at its last entry, and what it did afterwards is lost. All times are
wall-clock time (UTC), because times of several machines are compared.

A block counts as measured if its result file exists: files are never partial, and this file is
written after the block's transcripts. A block number is used up as soon as a file has it: file
names are written once, so a block without a result file is measured again under the next free
number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count, groupby, pairwise
from typing import Any, Literal, NamedTuple

from draftworth.errors import DraftworthError
from draftworth.measuring.clock import WallClock
from draftworth.measuring.result_files import Store
from draftworth.records import results
from draftworth.records.codec import RecordError, load_record
from draftworth.records.load_shapes import Load
from draftworth.records.servers import SelfTest

JOURNAL_SCHEMA = "draftworth.journal/2"
JOURNAL_FOLDER = "journal"

# started: the pod began. waited: it waited for servers, or for their answer to a first prompt (a
# gate). measured: it sent blocks that count. lost: blocks whose servers were lost. ended: the pod
# was terminated before the run was over.
EntryKind = Literal["started", "waited", "measured", "lost", "ended"]

UNRECORDED_END = (
    "its process ended and recorded no reason: killed, out of memory, or its machine was lost"
)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """An entry of the journal: what one pod did in one period.

    attempt: the pod's number, from 1. number: the entry's number in its pod, from 0.
    blocks: the blocks that were measured or lost, by the stems of their file names.
    reason: why blocks were lost, or why the pod ended; empty in other entries.
    starts: how long the last start of each of the blocks' servers took, by variant.
    self_tests: the result of each serving pod's test of its node, by the server's name.
    """

    schema: str = JOURNAL_SCHEMA
    attempt: int
    number: int
    kind: EntryKind
    started_at_unix_s: float
    ended_at_unix_s: float
    blocks: tuple[str, ...] = ()
    reason: str = ""
    starts: Mapping[str, results.ServerStart] = field(default_factory=dict)
    gates: tuple[results.PassedGate, ...] = ()
    self_tests: Mapping[str, SelfTest] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{JOURNAL_FOLDER}/{self.attempt:04d}-{self.number:04d}-{self.kind}.json"

    @property
    def seconds(self) -> float:
        return max(0.0, self.ended_at_unix_s - self.started_at_unix_s)


@dataclass(kw_only=True)
class Journal:
    """The journal of a run, to which this pod adds entries.

    entries: those of all pods. attempt: this pod's number, from 1.
    write: a function that stores a new entry.
    """

    entries: list[Entry]
    attempt: int
    clock: WallClock
    write: Callable[[Entry], None]
    _numbers: Iterator[int] = field(default_factory=count)

    @property
    def started_at_unix_s(self) -> float:
        return min(entry.started_at_unix_s for entry in self.entries)

    def note(
        self,
        kind: EntryKind,
        started_at_unix_s: float | None = None,
        **about: Any,
    ) -> None:
        """Add an entry for the period from `started_at_unix_s` (None: also now) to now.

        about: other fields of `Entry`.
        """
        now = self.clock()
        entry = Entry(
            attempt=self.attempt,
            number=next(self._numbers),
            kind=kind,
            started_at_unix_s=now if started_at_unix_s is None else started_at_unix_s,
            ended_at_unix_s=now,
            **about,
        )
        self.entries.append(entry)
        self.write(entry)


def unrecorded_ends(entries: Sequence[Entry]) -> int:
    """Return how many pods have begun and have not recorded in an `ended` entry why they ended."""
    recorded = {entry.attempt for entry in entries if entry.kind == "ended"}
    return len({entry.attempt for entry in entries} - recorded)


def times_lost(entries: Sequence[Entry], subject: str) -> int:
    """Return how often all pods together lost the block that measures `subject`.

    subject: what `subject_of` returns for the stem of the block's file name. It is equal for all
        tries of the block.
    """
    stems = (stem for entry in entries if entry.kind == "lost" for stem in entry.blocks)
    return sum(subject_of(stem) == subject for stem in stems)


def subject_of(stem: str) -> str:
    """Return what a block measures: its stem (file name) without the block's number.

    Each new try of a block gets a new number.
    """
    return stem.partition("-")[2]


def server_starts(entries: Sequence[Entry]) -> dict[str, results.ServerStart]:
    """Return, by variant, the newest record of how long its server's last start took."""
    return {variant: start for entry in entries for variant, start in entry.starts.items()}


def self_tests(entries: Sequence[Entry]) -> dict[str, SelfTest]:
    """Return the newest result of each server's test of its node, by the server's name."""
    return {name: test for entry in entries for name, test in entry.self_tests.items()}


def account(entries: Sequence[Entry], *, ended_at_unix_s: float) -> results.TimeAccount:
    """Return the seconds that a run spent on measuring, waiting, interruptions and the rest.

    entries: the journal; the time from its first entry to `ended_at_unix_s` is divided.
    """
    total_s = elapsed_seconds(entries, until_unix_s=ended_at_unix_s)
    measuring_s = sum(e.seconds for e in entries if e.kind == "measured")
    waiting_s = sum(e.seconds for e in entries if e.kind == "waited")
    lost_s = sum(i.lost_s for i in interruptions(entries))
    return results.TimeAccount(
        measuring_s=measuring_s,
        waiting_s=waiting_s,
        lost_s=lost_s,
        idle_s=max(0.0, total_s - measuring_s - waiting_s - lost_s),
    )


def elapsed_seconds(entries: Sequence[Entry], *, until_unix_s: float) -> float:
    """Return the seconds from the first entry to `until_unix_s`, a time of the last pod's clock.

    The time that a pod ran is measured by that pod's clock. So if the clocks of two machines
    differ, only the gap between two pods can be wrong. A negative gap counts as 0.
    """
    *earlier, last = _pods(entries)
    ends = [max(entry.ended_at_unix_s for entry in pod) for pod in earlier]
    parts = [end - pod[0].started_at_unix_s for pod, end in zip(earlier, ends, strict=True)]
    following = [pod[0].started_at_unix_s for pod in (*earlier[1:], last)]
    gaps = [start - end for start, end in zip(following, ends, strict=False)]
    return sum(max(0.0, s) for s in (*parts, *gaps, until_unix_s - last[0].started_at_unix_s))


def _pods(entries: Sequence[Entry]) -> list[list[Entry]]:
    ordered = sorted(entries, key=lambda e: (e.attempt, e.number))
    return [list(pod) for _, pod in groupby(ordered, key=lambda e: e.attempt)]


def interruptions(entries: Sequence[Entry]) -> tuple[results.Interruption, ...]:
    """Return all losses of servers and of pods during a run, in the order of time."""
    servers = (
        results.Interruption(
            kind="servers",
            at_unix_s=entry.ended_at_unix_s,
            lost_s=entry.seconds,
            blocks=entry.blocks,
            reason=entry.reason,
        )
        for entry in entries
        if entry.kind == "lost"
    )
    return tuple(sorted((*servers, *_pods_lost(entries)), key=lambda i: i.at_unix_s))


def _pods_lost(entries: Sequence[Entry]) -> Iterator[results.Interruption]:
    for pod, following in pairwise(_pods(entries)):
        last_seen = max(e.ended_at_unix_s for e in pod if e.kind != "ended")
        ends = [e for e in pod if e.kind == "ended"]
        yield results.Interruption(
            kind="load generator",
            at_unix_s=ends[-1].ended_at_unix_s if ends else last_seen,
            lost_s=max(0.0, following[0].started_at_unix_s - last_seen),
            blocks=(),
            reason=ends[-1].reason if ends else UNRECORDED_END,
        )


_PARALLEL_READS = 8


class BlockKey(NamedTuple):
    """Identifies a block by what it measures: no two blocks of a run have the same key.

    round: number of the block's round among all rounds at its load, from 1.
    """

    load: Load
    round: int
    prompt_class: str
    case: str
    variant: str

    @classmethod
    def of(cls, block: results.BlockResult) -> BlockKey:
        return cls._make(getattr(block, field) for field in cls._fields)


@dataclass(frozen=True, kw_only=True)
class History:
    """The files of a run that earlier pods have written.

    result: the content of `run.json`; None while the run is not over.
    names: the names of all files of the run, relative to the run's folder.
    """

    result: results.RunResult | None = None
    blocks: tuple[results.BlockResult, ...] = ()
    entries: tuple[Entry, ...] = ()
    names: frozenset[str] = frozenset()

    @property
    def attempt(self) -> int:
        """The number of the pod that continues the run; the first pod has 1."""
        return max((entry.attempt for entry in self.entries), default=0) + 1

    @property
    def next_block(self) -> int:
        return max(_numbers(self.names), default=0) + 1


def read_history(store: Store, run_id: str) -> History:
    """Read the files of a run that earlier pods have written; empty if no pod has begun.

    SinkError: the store cannot be read. DraftworthError: a file is not what its name says.
    """
    folder = f"{run_id}/"
    names = [name.removeprefix(folder) for name in store.names(run_id)]

    def load(name: str) -> results.RunResult | results.BlockResult | Entry | None:
        kind = _kind(name)
        try:
            return load_record(kind, store.read(f"{folder}{name}")) if kind else None
        except RecordError as error:
            raise DraftworthError(f"{folder}{name}: not a file of this version: {error}") from error

    with ThreadPoolExecutor(_PARALLEL_READS) as pool:
        files = list(pool.map(load, names))
    blocks = [file for file in files if isinstance(file, results.BlockResult)]
    blocks.sort(key=lambda block: block.block)
    entries = [file for file in files if isinstance(file, Entry)]
    entries.sort(key=lambda entry: (entry.attempt, entry.number))
    return History(
        result=next((file for file in files if isinstance(file, results.RunResult)), None),
        blocks=tuple(blocks),
        entries=(*entries, *_without_entry(blocks, entries)),
        names=frozenset(names),
    )


def _kind(name: str) -> type[results.RunResult | results.BlockResult | Entry] | None:
    if name == results.RUN_FILE:
        return results.RunResult
    if name.startswith(f"{JOURNAL_FOLDER}/"):
        return Entry
    is_block = name.startswith(f"{results.BLOCKS_FOLDER}/") and name.endswith(results.RESULT_SUFFIX)
    return results.BlockResult if is_block else None


def _numbers(names: frozenset[str]) -> Iterator[int]:
    for name in names:
        folder, _, file = name.rpartition("/")
        number = file.partition("-")[0]
        if folder in (results.BLOCKS_FOLDER, results.INTERRUPTED_FOLDER) and number.isdecimal():
            yield int(number)


def _without_entry(
    blocks: Sequence[results.BlockResult], entries: Sequence[Entry]
) -> Iterator[Entry]:
    noted = {stem for entry in entries for stem in entry.blocks}
    for block in blocks:
        before = [e for e in entries if e.started_at_unix_s <= block.started_at_unix_s]
        if block.stem not in noted and before:
            yield Entry(
                attempt=max(e.attempt for e in before),
                number=block.block,
                kind="measured",
                started_at_unix_s=block.started_at_unix_s,
                ended_at_unix_s=block.ended_at_unix_s,
                blocks=(block.stem,),
            )
