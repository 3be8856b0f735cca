"""How long a search takes: candidates that are certainly measured, then those that may be.

Each takes the slot beside the baseline in turn: its graph is compiled where none is there, its
server loads, and both are measured as in a run of two variants.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from draftworth.experiment.search import Stop
from draftworth.planning.assumptions import Assumptions
from draftworth.planning.bounds import Bounds
from draftworth.planning.loading_time import load_minutes, starting_phases
from draftworth.planning.measuring_time import RoundCounts, round_minutes
from draftworth.planning.phases import Phase
from draftworth.planning.resolved import NeuronVariant, ResolvedNeuron
from draftworth.records.search import Candidate
from draftworth.searching.extent import Extent

# Candidates that are not certain, together.
OTHERS = "other candidates"


@dataclass(frozen=True, kw_only=True)
class SearchTime:
    """The candidates after the first one. compiled: variants whose graph is in the bucket."""

    experiment: ResolvedNeuron
    extent: Extent
    assumed: Assumptions
    compiled: Collection[str]

    def certain_phases(self, *, after: str) -> Iterator[Phase]:
        """Of the certain ones after the first, each after the one before."""
        for variant in self._certain[1:]:
            yield from starting_phases(
                variant,
                self.assumed,
                is_compiled=variant.name in self.compiled,
                after=after,
            )
            after = f"measure {variant.name}"
            loaded = (f"load {variant.name}",)
            yield Phase(name=after, minutes=self._measuring, after=loaded, measured=True)

    def others_phases(self, begun: Bounds, *, after: str) -> Iterator[Phase]:
        """Of the others, if there are any: best, none is worth it; worst, all are, or `search.stop`
        ends it first.

        begun: minutes of the search by then. The last one may begin just before the stop, in a case
        between the two, and is measured to its end.
        """
        if not self._others:
            return
        most = self.others_minutes(self.extent.most)
        ends = self.stop_minutes + self.one.worst
        room = max(0.0, ends - begun.worst) if begun.best < self.stop_minutes else 0.0
        words = f"0 to {len(self._others)} x candidate_minutes {self.one.text(digits=1)}"
        if room < most.worst:
            words += f", until search.stop ends it: at most {room:.1f}"
        minutes = Bounds(0.0, min(most.worst, room), (words,))
        yield Phase(name=OTHERS, minutes=minutes, after=(after,))

    @cached_property
    def one(self) -> Bounds:
        """Minutes of one of the others, from the end of the one before; 0 where there are none.

        Each as the one that takes longest to load, and compiled unless the graphs of all are there.
        """
        if not self._others:
            return Bounds(0.0, 0.0)
        slowest = max(self._others, key=lambda v: load_minutes(v, self.assumed).worst)
        loading = load_minutes(slowest, self.assumed).called(f"load {slowest.name}")
        starting = loading + self._measuring
        if all(variant.name in self.compiled for variant in self._others):
            return starting
        return self.assumed.bounds("compile_minutes") + starting

    def others_minutes(self, candidates: float) -> Bounds:
        """Beside the certain ones, of so many candidates in all; `search.stop` left out."""
        return self.one.called("candidate_minutes") * (candidates - len(self.extent.certain))

    def begun_in_all(self, begun: Bounds) -> Bounds:
        """Candidates that `search.stop` lets begin; `begun` as in `others_phases`."""
        certain, most = len(self.extent.certain), self.extent.most

        def count(passed: float, one: float) -> int:
            left = max(0.0, self.stop_minutes - passed)
            return most if left >= (most - certain) * one else certain + math.ceil(left / one)

        return Bounds(count(begun.best, self.one.best), count(begun.worst, self.one.worst))

    @property
    def stop_minutes(self) -> float:
        """How long a search may last before no further candidate begins, by its time and its money;
        without a price, by its time."""
        search, limits = self.experiment.spec.search, [math.inf]
        stop = search.stop if search else Stop()
        if stop.hours is not None:
            limits.append(stop.hours * 60)
        if stop.usd is not None and self.experiment.spec.aws.price is not None:
            limits.append(stop.usd / self.experiment.usd_per_hour * 60)
        return min(limits)

    @cached_property
    def _measuring(self) -> Bounds:
        """Of one candidate beside the baseline, the speeds being those of the first one."""
        counts, (load,) = RoundCounts.of(self.experiment), self.experiment.loads
        rounds = Bounds(
            counts.least + counts.needed_further(1), counts.least + counts.further(1)
        ).called("rounds", digits=None)
        one = round_minutes(self.experiment, load, self.assumed)
        return rounds * one.called(f"round_minutes at {load.label}")

    @cached_property
    def _certain(self) -> list[NeuronVariant]:
        return self._variants(self.extent.certain)

    @cached_property
    def _others(self) -> list[NeuronVariant]:
        return self._variants(self.extent.others)

    def _variants(self, candidates: Iterable[Candidate]) -> list[NeuronVariant]:
        by_name = {variant.name: variant for variant in self.experiment.variants}
        return [by_name[candidate.variant] for candidate in candidates]
