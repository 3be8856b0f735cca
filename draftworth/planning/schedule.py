"""The phases of a run with their times, and how a deadline or a budget cuts them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from draftworth.planning.assumptions import Bounds

DEPLOY = "deploy"
STAGE = "stage checkpoints"
SCALE_UP = "scale up"
NODE_START = "node start"
IMAGE_PULL = "image pull"
# The phase of all candidates that are not certain.
OTHERS = "other candidates"
TEARDOWN = "nodes to zero"


@dataclass(frozen=True, kw_only=True)
class Span:
    """The time of a phase, in minutes from the start of the deploy.

    billed: accelerator nodes exist meanwhile. measured: tokens are measured in it. cut: a limit
    ended it.
    """

    start: float
    end: float
    billed: bool = True
    measured: bool = False
    cut: bool = False

    @property
    def minutes(self) -> float:
        return self.end - self.start


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """A run in one case: each phase that begins, by name, and the limit that ended the run."""

    spans: Mapping[str, Span]
    ended_by: str | None = None

    @property
    def billed_minutes(self) -> float:
        billed = [span for span in self.spans.values() if span.billed]
        return billed[-1].end - billed[0].start if billed else 0.0

    @property
    def measured_minutes(self) -> float:
        return sum(span.minutes for span in self.spans.values() if span.measured)

    @property
    def end(self) -> float:
        return max(span.end for span in self.spans.values())

    @property
    def certain_search_minutes(self) -> float:
        """Minutes from the first node that is up until the certain candidates are measured."""
        measured = [span for span in self.spans.values() if span.measured]
        return measured[-1].end - self.spans[NODE_START].end

    def minutes_of(self, name: str) -> float:
        return self.spans[name].minutes if name in self.spans else 0.0

    def until(self, limits: Iterable[tuple[float, str]]) -> Schedule:
        """Cut the run at the first limit, given as a minute and a name.

        Phases that have begun end there, and nodes that are up are released.
        """
        cut, limit_name = min(limits)
        release = self.spans[TEARDOWN]
        if cut >= release.start:
            return self
        kept = {
            name: replace(span, end=min(span.end, cut), cut=span.end > cut)
            for name, span in self.spans.items()
            if name != TEARDOWN and span.start < cut
        }
        if any(span.billed for span in kept.values()):
            kept[TEARDOWN] = replace(release, start=cut, end=cut + release.minutes)
        return Schedule(spans=kept, ended_by=limit_name)


@dataclass(frozen=True, kw_only=True)
class Schedules:
    """A run in both cases."""

    best: Schedule
    worst: Schedule

    def bounds(self, quantity: Callable[[Schedule], float]) -> Bounds:
        return Bounds(quantity(self.best), quantity(self.worst))
