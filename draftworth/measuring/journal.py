"""What a run did from when to when, kept so that the next pod can continue and account for it.

A measuring Job's pod writes each entry as a file of its own, `journal/0002-0003-measured.json`: the
third entry of the second pod. A pod may be killed before it can write, so a pod that did not finish
the run is taken to have ended with its last entry, and what it did after that is lost. All times
are wall-clock time (UTC), because those of several machines are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, groupby, pairwise
from typing import Literal

from draftworth.measuring.clock import WallClock
from draftworth.records.results import Interruption, TimeAccount

JOURNAL_SCHEMA = "draftworth.journal/1"
JOURNAL_FOLDER = "journal"

# started: the pod began; waited: for servers; measured: blocks that count, with their warm-ups;
# lost: blocks whose servers were lost; ended: the pod was terminated before the run was over.
EntryKind = Literal["started", "waited", "measured", "lost", "ended"]

UNRECORDED_END = "its pod ended and recorded no reason: killed, out of memory, or its node was lost"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One stretch of time. `blocks` are stems; `reason` says why something was lost or ended."""

    schema: str = JOURNAL_SCHEMA
    attempt: int
    number: int
    kind: EntryKind
    started_at_unix_s: float
    ended_at_unix_s: float
    blocks: tuple[str, ...] = ()
    reason: str = ""

    @property
    def name(self) -> str:
        """The file's name below the run's folder."""
        return f"{JOURNAL_FOLDER}/{self.attempt:04d}-{self.number:04d}-{self.kind}.json"

    @property
    def seconds(self) -> float:
        """How long it took; never negative, whatever was done to the clock."""
        return max(0.0, self.ended_at_unix_s - self.started_at_unix_s)


@dataclass(kw_only=True)
class Journal:
    """The entries of all pods, this one's among them. `write` keeps one for the pods to come."""

    entries: list[Entry]
    attempt: int
    clock: WallClock
    write: Callable[[Entry], None]
    _numbers: Iterator[int] = field(default_factory=count)

    @property
    def started_at_unix_s(self) -> float:
        """When the first pod began."""
        return min(entry.started_at_unix_s for entry in self.entries)

    def note(
        self,
        kind: EntryKind,
        started_at_unix_s: float | None = None,
        *,
        blocks: tuple[str, ...] = (),
        reason: str = "",
    ) -> None:
        """What was done from then until now; without a start, a moment."""
        now = self.clock()
        entry = Entry(
            attempt=self.attempt,
            number=next(self._numbers),
            kind=kind,
            started_at_unix_s=now if started_at_unix_s is None else started_at_unix_s,
            ended_at_unix_s=now,
            blocks=blocks,
            reason=reason,
        )
        self.entries.append(entry)
        self.write(entry)


def unrecorded_ends(entries: Sequence[Entry]) -> int:
    """Pods that began, did not finish the run and recorded no reason."""
    recorded = {entry.attempt for entry in entries if entry.kind == "ended"}
    return len({entry.attempt for entry in entries} - recorded)


def times_lost(entries: Sequence[Entry], subject: str) -> int:
    """How often a block of this subject was lost with its servers, in all pods."""
    stems = (stem for entry in entries if entry.kind == "lost" for stem in entry.blocks)
    return sum(subject_of(stem) == subject for stem in stems)


def subject_of(stem: str) -> str:
    """A block's stem without its number: what it measures, however often that is tried."""
    return stem.partition("-")[2]


def account(entries: Sequence[Entry], *, ended_at_unix_s: float) -> TimeAccount:
    """Where the time went from the first entry to the end of the run."""
    total_s = max(0.0, ended_at_unix_s - min(e.started_at_unix_s for e in entries))
    measuring_s = sum(e.seconds for e in entries if e.kind == "measured")
    waiting_s = sum(e.seconds for e in entries if e.kind == "waited")
    lost_s = sum(i.lost_s for i in interruptions(entries))
    return TimeAccount(
        measuring_s=measuring_s,
        waiting_s=waiting_s,
        lost_s=lost_s,
        idle_s=max(0.0, total_s - measuring_s - waiting_s - lost_s),
    )


def interruptions(entries: Sequence[Entry]) -> tuple[Interruption, ...]:
    """Everything that was lost on the way, in the order of time."""
    servers = (
        Interruption(
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


def _pods_lost(entries: Sequence[Entry]) -> Iterator[Interruption]:
    """Each pod but the last ended before the run did."""
    ordered = sorted(entries, key=lambda e: (e.attempt, e.number))
    pods = [list(pod) for _, pod in groupby(ordered, key=lambda e: e.attempt)]
    for pod, following in pairwise(pods):
        last_seen = max(e.ended_at_unix_s for e in pod if e.kind != "ended")
        ends = [e for e in pod if e.kind == "ended"]
        yield Interruption(
            kind="load generator",
            at_unix_s=ends[-1].ended_at_unix_s if ends else last_seen,
            lost_s=max(0.0, following[0].started_at_unix_s - last_seen),
            blocks=(),
            reason=ends[-1].reason if ends else UNRECORDED_END,
        )
