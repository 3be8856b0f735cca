"""Phases that wait for each other, and limits that end a run before its last phase.

The phases of a run stand in the order in which they depend on each other; the last one releases
the accelerator nodes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from draftworth.planning.bounds import Bounds, Case


@dataclass(frozen=True, kw_only=True)
class Phase:
    """Something that takes time; it starts when all of `after` have ended.

    billed: accelerator nodes are held while it lasts. measured: tokens are measured in it.
    """

    name: str
    minutes: Bounds
    after: tuple[str, ...] = ()
    billed: bool = True
    measured: bool = False


@dataclass(frozen=True, kw_only=True)
class Limit:
    """Ends a run so many minutes after the end of the phase `after`."""

    name: str
    after: str
    minutes: Bounds


@dataclass(frozen=True, kw_only=True)
class Span:
    """When a phase lasts, in minutes since the first phase's start. cut: a limit ended it."""

    start: float
    end: float
    cut: bool = False

    @property
    def minutes(self) -> float:
        """How long it takes."""
        return self.end - self.start


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """A run in one case: the spans of all phases that begin, and the limit that ended it."""

    phases: tuple[Phase, ...]
    spans: Mapping[str, Span]
    ended_by: str | None = None

    @property
    def billed_minutes(self) -> float:
        """Minutes that each node is held; 0 when none is launched."""
        billed = self._spans([phase for phase in self.phases if phase.billed])
        return billed[-1].end - billed[0].start if billed else 0.0

    @property
    def billed_minutes_before_first_token(self) -> float:
        """Those before anything is measured: all of them where nothing is."""
        billed = self._spans([phase for phase in self.phases if phase.billed])
        measured = self._spans([phase for phase in self.phases if phase.measured])
        return measured[0].start - billed[0].start if measured else self.billed_minutes

    @property
    def measured_minutes(self) -> float:
        """Minutes in which tokens are measured."""
        measured = self._spans([phase for phase in self.phases if phase.measured])
        return sum(span.minutes for span in measured)

    def _spans(self, phases: Sequence[Phase]) -> list[Span]:
        return [self.spans[phase.name] for phase in phases if phase.name in self.spans]


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """A run in both cases."""

    best: Schedule
    worst: Schedule

    @classmethod
    def of(cls, phases: Sequence[Phase], limits: Sequence[Limit] = ()) -> Timeline:
        """Schedule the phases in both cases."""
        return cls(
            best=schedule(phases, "best", limits=limits),
            worst=schedule(phases, "worst", limits=limits),
        )

    def bounds(self, quantity: Callable[[Schedule], float]) -> Bounds:
        """Something about a schedule, in both cases."""
        return Bounds(quantity(self.best), quantity(self.worst))


def schedule(phases: Sequence[Phase], case: Case, *, limits: Sequence[Limit] = ()) -> Schedule:
    """Each phase as early as it can begin; what the first limit leaves of them."""
    spans: dict[str, Span] = {}
    for phase in phases:
        start = max((spans[name].end for name in phase.after), default=0.0)
        spans[phase.name] = Span(start=start, end=start + phase.minutes.at(case))
    cuts = [(spans[limit.after].end + limit.minutes.at(case), limit.name) for limit in limits]
    cut, limit_name = min(cuts, default=(math.inf, ""))
    if cut >= spans[phases[-1].name].start:
        return Schedule(phases=tuple(phases), spans=spans)
    return Schedule(phases=tuple(phases), spans=_until(cut, phases, spans), ended_by=limit_name)


def _until(cut: float, phases: Sequence[Phase], spans: Mapping[str, Span]) -> dict[str, Span]:
    """What begins before `cut` ends there; nodes that are up by then are released."""
    *others, release = phases
    kept = {
        phase.name: Span(start=span.start, end=min(span.end, cut), cut=span.end > cut)
        for phase in others
        if (span := spans[phase.name]).start < cut
    }
    if any(phase.billed for phase in others if phase.name in kept):
        kept[release.name] = Span(start=cut, end=cut + spans[release.name].minutes)
    return kept
