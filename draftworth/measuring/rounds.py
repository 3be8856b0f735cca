"""Which rounds a run measures, and in which order.

A round sends so many requests of each case to each variant at one load. `max_requests` is a budget:
in each repetition every load and class first gets what `min_requests` asks for, and then one round
after the other goes where the interval is widest, until all are narrow enough or the repetition's
part of the budget is spent. Only widths decide, never what they are around (`precision`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from draftworth.analysis.summary import Group
from draftworth.measuring.precision import Precision
from draftworth.measuring.run_specification import RunSpec, Sampling
from draftworth.measuring.stages import Stage
from draftworth.records.load import Load
from draftworth.records.results import BlockResult


def least_rounds(sampling: Sampling, *, repetitions: int, loads: int) -> int:
    """Rounds of each load in each repetition, whatever they show; at least one."""
    needed = math.ceil(sampling.min_requests / sampling.requests_per_round)
    room = sampling.max_requests // sampling.requests_per_round
    return max(1, min(math.ceil(needed / repetitions), room // (repetitions * loads)))


def further_rounds(sampling: Sampling, *, repetition: int, repetitions: int, loads: int) -> int:
    """Rounds that a repetition may send beside the least, after ones that sent all they may."""
    parts = {"repetitions": repetitions, "loads": loads}
    most = most_rounds(sampling, **parts)
    own = most * repetition // repetitions - most * (repetition - 1) // repetitions
    return own - least_rounds(sampling, **parts) * loads


def most_rounds(sampling: Sampling, *, repetitions: int, loads: int) -> int:
    """Rounds of a class at all loads, in all repetitions together."""
    room = sampling.max_requests // sampling.requests_per_round
    least = least_rounds(sampling, repetitions=repetitions, loads=loads)
    return max(room, least * repetitions * loads)


@dataclass(frozen=True, kw_only=True)
class Round:
    """One round: the cases of `classes` at a load. number: of all rounds at this load, from 1."""

    stage: Stage
    load: Load
    number: int
    classes: frozenset[str]


@dataclass(kw_only=True)
class Rounds:
    """The rounds of a run.

    blocks: what has been measured; it grows while rounds are asked for. numbers: of the last round
    at each load. stages: whose rounds these are.
    """

    spec: RunSpec
    precision: Precision
    blocks: Sequence[BlockResult]
    stages: Sequence[Stage]
    numbers: Counter[Load] = field(default_factory=Counter)
    _measured: Counter[Group] = field(default_factory=Counter)

    def __iter__(self) -> Iterator[Round]:
        """One round after the other; each is asked for when the one before is measured."""
        for stage in self.stages:
            yield from self._least(stage)
            if not stage.is_control:
                yield from self._more(stage)
        for group in self._groups:
            if not self._is_enough(group, self.spec.repetitions):
                self.precision.report_missing(self.blocks, group)

    @property
    def _classes(self) -> frozenset[str]:
        return frozenset(case.prompt_class for case in self.spec.cases)

    @property
    def _groups(self) -> list[Group]:
        names = dict.fromkeys(case.prompt_class for case in self.spec.cases)
        return [Group(prompt_class=n, load=load) for load in self.spec.loads for n in names]

    @property
    def _parts(self) -> dict[str, int]:
        """What the budget is divided over."""
        return {"repetitions": self.spec.repetitions, "loads": len(self.spec.loads)}

    def _least(self, stage: Stage) -> Iterator[Round]:
        for load in self.spec.loads:
            for _ in range(least_rounds(self.spec.sampling, **self._parts)):
                yield self._next(stage, load, self._classes)

    def _more(self, stage: Stage) -> Iterator[Round]:
        """Where the interval is widest; a group that is known well enough stays so."""
        open_groups = self._groups
        changed = set(self.spec.loads)
        while True:
            open_groups = [
                group
                for group in open_groups
                if self._has_budget(group.prompt_class, stage.repetition)
                and not (group.load in changed and self._is_enough(group, stage.repetition))
            ]
            if not open_groups:
                return
            load = self._widest(open_groups).load
            changed = {load}
            classes = frozenset(g.prompt_class for g in open_groups if g.load == load)
            yield self._next(stage, load, classes)

    def _next(self, stage: Stage, load: Load, classes: frozenset[str]) -> Round:
        self.numbers[load] += 1
        if not stage.is_control:
            self._measured.update(Group(prompt_class=name, load=load) for name in classes)
        return Round(stage=stage, load=load, number=self.numbers[load], classes=classes)

    def _has_budget(self, prompt_class: str, repetition: int) -> bool:
        """Whether a class may have another round in this repetition."""
        most = most_rounds(self.spec.sampling, **self._parts)
        spent = sum(n for group, n in self._measured.items() if group.prompt_class == prompt_class)
        return spent < most * repetition // self.spec.repetitions

    def _is_enough(self, group: Group, repetition: int) -> bool:
        """By now: the repetitions to come bring their own part of `min_requests`."""
        sampling = self.spec.sampling
        requests = self._measured[group] * sampling.requests_per_round
        if requests < sampling.min_requests * repetition / self.spec.repetitions:
            return False
        return self.precision.is_enough(self.blocks, group, requests=requests)

    def _widest(self, groups: Sequence[Group]) -> Group:
        """Of groups as wide as each other, the one with the fewest rounds."""
        if len({group.load for group in groups}) == 1:
            return groups[0]
        return max(groups, key=lambda g: (self.precision.width(self.blocks, g), -self._measured[g]))
