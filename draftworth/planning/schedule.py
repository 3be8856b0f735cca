"""When each phase of a run begins and ends, and what a deadline or a budget leaves of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from draftworth.planning.assumptions import Bounds

DEPLOY = "deploy"
STAGE = "stage checkpoints"
SCALE_UP = "scale up"
NODE_START = "node start"
IMAGE_PULL = "image pull"
# All candidates that are not certain, together.
OTHERS = "other candidates"
TEARDOWN = "nodes to zero"


@dataclass(frozen=True, kw_only=True)
class Span:
    """When a phase lasts, in minutes from the start of the deploy.

    billed: accelerator nodes are held meanwhile. measured: tokens are measured in it. cut: a limit
    ended it.
    """

    start: float
    end: float
    billed: bool = True
    measured: bool = False
    cut: bool = False

    @property
    def minutes(self) -> float:
        """How long it takes."""
        return self.end - self.start


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """A run in one case: each phase that begins, by name, and the limit that ended the run."""

    spans: Mapping[str, Span]
    ended_by: str | None = None

    @property
    def billed_minutes(self) -> float:
        """Minutes that each node is held; 0 when none is launched."""
        billed = [span for span in self.spans.values() if span.billed]
        return billed[-1].end - billed[0].start if billed else 0.0

    @property
    def measured_minutes(self) -> float:
        """Minutes in which tokens are measured."""
        return sum(span.minutes for span in self.spans.values() if span.measured)

    @property
    def end(self) -> float:
        """When the last phase has ended."""
        return max(span.end for span in self.spans.values())

    @property
    def certain_search_minutes(self) -> float:
        """Minutes from the load generator's start until all that is certain is measured.

        It starts with the first node that is up.
        """
        measured = [span for span in self.spans.values() if span.measured]
        return measured[-1].end - self.spans[NODE_START].end

    def minutes_of(self, name: str) -> float:
        """How long a phase takes; 0 for one that the run does not have."""
        return self.spans[name].minutes if name in self.spans else 0.0

    def until(self, limits: Iterable[tuple[float, str]]) -> Schedule:
        """What is left of it when the first limit, a minute and its name, is reached.

        What begins before ends there, and nodes that are up by then are released.
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
        """Something about a schedule, in both cases."""
        return Bounds(quantity(self.best), quantity(self.worst))
