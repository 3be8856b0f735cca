"""A small event simulation: phases that wait for each other, and limits that cut them short.

A course of phases holds rented nodes from the start of one phase (`launch`) to the end of another
(`release`). A limit starts to run when a phase ends; when it is reached, all that still runs is
cut off and the nodes are released.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field

from draftworth.planning.assumptions import Bound, Bounds


@dataclass(frozen=True, kw_only=True)
class Phase:
    """Something that takes time. Starts when all of `after` have ended.

    `how` tells a reader how `minutes` were computed.
    """

    name: str
    minutes: Bounds
    how: str
    after: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Limit:
    """Cuts a course off so many minutes after the phase `after` has ended."""

    name: str
    after: str
    minutes: Bounds


@dataclass(frozen=True, kw_only=True)
class Course:
    """Phases in the order they are told; `measure` begins with the first measured token."""

    phases: tuple[Phase, ...]
    launch: str
    measure: str
    release: str
    limits: tuple[Limit, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Span:
    """A phase as it came: minutes since the course's begin. `cut` by a limit before its end."""

    start: float
    end: float
    cut: bool = False

    @property
    def minutes(self) -> float:
        """How long it took."""
        return self.end - self.start


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """A simulated course: the spans of all phases that began, and the limit that cut it, if any."""

    course: Course
    spans: Mapping[str, Span]
    stopped_by: str | None

    @property
    def billed_minutes(self) -> float:
        """Minutes that each node was held; 0 when none was launched."""
        if self.course.launch not in self.spans:
            return 0.0
        return self.spans[self.course.release].end - self.spans[self.course.launch].start

    @property
    def billed_minutes_before_first_token(self) -> float | None:
        """Minutes that each node was held before anything was measured; None if nothing was."""
        if self.course.measure not in self.spans:
            return None
        return self.spans[self.course.measure].start - self.spans[self.course.launch].start


def simulate(course: Course, bound: Bound, *, limited: bool = True) -> Simulation:
    """Let the events of a course happen, each phase as long as in one of the two estimates."""
    run = _Run(course=course, bound=bound, limits=course.limits if limited else ())
    return run.to_the_end()


# At one and the same minute a phase that ends comes before a limit: what is complete is complete.
_PHASE_ENDS, _LIMIT_REACHED = 0, 1


@dataclass
class _Run:
    """The state of a simulation: what has begun, what is over, what will happen."""

    course: Course
    bound: Bound
    limits: tuple[Limit, ...]
    _spans: dict[str, Span] = field(default_factory=dict)
    _over: set[str] = field(default_factory=set)
    _events: list[tuple[float, int, str]] = field(default_factory=list)
    _stopped_by: str | None = None

    def to_the_end(self) -> Simulation:
        self._begin_what_may(0.0)
        while self._events:
            minute, kind, name = heapq.heappop(self._events)
            if kind == _LIMIT_REACHED:
                self._stop(minute, name)
            elif not self._spans[name].cut:
                self._end(minute, name)
        return Simulation(course=self.course, spans=self._spans, stopped_by=self._stopped_by)

    def _end(self, minute: float, name: str) -> None:
        self._over.add(name)
        for limit in self.limits:
            if limit.after == name:
                reached = minute + limit.minutes.at(self.bound)
                heapq.heappush(self._events, (reached, _LIMIT_REACHED, limit.name))
        if self._stopped_by is None:
            self._begin_what_may(minute)

    def _begin_what_may(self, minute: float) -> None:
        for phase in self.course.phases:
            if phase.name not in self._spans and self._over.issuperset(phase.after):
                self._begin(minute, phase)

    def _begin(self, minute: float, phase: Phase) -> None:
        end = minute + phase.minutes.at(self.bound)
        self._spans[phase.name] = Span(start=minute, end=end)
        heapq.heappush(self._events, (end, _PHASE_ENDS, phase.name))

    def _stop(self, minute: float, limit: str) -> None:
        """Cut off what runs and release the nodes, unless they are being released already."""
        if self._stopped_by is not None or self.course.release in self._spans:
            return
        self._stopped_by = limit
        for name, span in self._spans.items():
            if name not in self._over:
                self._spans[name] = Span(start=span.start, end=minute, cut=True)
        if self.course.launch in self._spans:
            release = next(p for p in self.course.phases if p.name == self.course.release)
            self._begin(minute, release)
