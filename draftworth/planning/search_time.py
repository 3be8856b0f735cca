"""Estimates how long a search takes: for the candidates that it always measures, and for the rest.

Candidates are compiled, loaded and measured one after another, in the slot beside the baseline.
"""

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property

from draftworth.planning.assumptions import Bounds
from draftworth.planning.durations import Durations
from draftworth.planning.resolved import NeuronVariant, ResolvedNeuron
from draftworth.records.search import Candidate
from draftworth.searching.extent import Extent


@dataclass(frozen=True, kw_only=True)
class SearchTime:
    """The candidates of a search, and the time that they need in the best and in the worst case.

    extent: which candidates are measured in any case (`certain`), and which may be (`others`).
    best, worst: the durations in each case. compiled: names of variants whose graph is stored.
    """

    experiment: ResolvedNeuron
    extent: Extent
    best: Durations
    worst: Durations
    compiled: Collection[str]

    @cached_property
    def certain(self) -> list[NeuronVariant]:
        return self._variants(self.extent.certain)

    @cached_property
    def candidate_minutes(self) -> Bounds:
        """Minutes that one of `extent.others` takes, from the end of the previous candidate.

        Each is assumed to load as slowly as the slowest of them, and to be compiled unless the
        graphs of all of them exist. The result is 0 if `extent.others` is empty.
        """
        others = self._variants(self.extent.others)
        if not others:
            return Bounds(0.0, 0.0)
        is_compiled = all(variant.name in self.compiled for variant in others)

        def minutes(durations: Durations) -> float:
            loading = max(durations.load_minutes(variant) for variant in others)
            compiling = 0.0 if is_compiled else durations.assumption("compile_minutes")
            return compiling + loading + durations.candidate_rounds_minutes()

        return Bounds(minutes(self.best), minutes(self.worst))

    def further_minutes(self, candidates: float) -> Bounds:
        return self.candidate_minutes.times(candidates - len(self.extent.certain))

    def most_further_minutes(self, begun: Bounds) -> float:
        """Return the most minutes for those of `extent.others` that begin before `search.stop`.

        begun: minutes from the search's start until all of `extent.certain` are measured. In
        the worst case, the last candidate begins just before the stop and is measured to its end.
        """
        if begun.best >= self.stop_minutes:
            return 0.0
        ends = self.stop_minutes + self.candidate_minutes.worst
        room = max(0.0, ends - begun.worst)
        return min(self.further_minutes(self.extent.most).worst, room)

    def begun_in_all(self, begun: Bounds) -> Bounds:
        """Return how many candidates begin in the search; `begun`: see `most_further_minutes`."""
        certain, most = len(self.extent.certain), self.extent.most

        def count(passed: float, one: float) -> int:
            left = max(0.0, self.stop_minutes - passed)
            return most if left >= (most - certain) * one else certain + math.ceil(left / one)

        one = self.candidate_minutes
        return Bounds(count(begun.best, one.best), count(begun.worst, one.worst))

    @property
    def stop_minutes(self) -> float:
        """Minutes of search after which no candidate begins; infinite if the file sets no limit."""
        search, limits = self.experiment.spec.search, [math.inf]
        if search and search.stop.last_start_hours is not None:
            limits.append(search.stop.last_start_hours * 60)
        usd = search.stop.last_start_usd if search else None
        if usd is not None and self.experiment.spec.aws.price is not None:
            limits.append(usd / self.experiment.usd_per_hour * 60)
        return min(limits)

    def _variants(self, candidates: Iterable[Candidate]) -> list[NeuronVariant]:
        by_name = {variant.name: variant for variant in self.experiment.variants}
        return [by_name[candidate.variant] for candidate in candidates]
