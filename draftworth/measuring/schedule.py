"""The schedule of a run: its stages, their rounds, and whether another round is needed.

Each repetition begins with one start of all servers. A slot is the devices of one server; in every
second repetition, each variant runs in its other slot (docs/decisions, 18 and 19). In a search,
each candidate has its own stage beside the baseline, whose server keeps running (`search_plan`). In
a control, a second baseline server runs in the baseline's other slot, and the variant that has run
there is stopped. A control starts all servers anew.

A round sends `requests_per_round` requests of each case to each variant at one load. In each
repetition every load and class first gets its part of `min_requests`. Then each round goes to the
load at which a cost ratio (a variant's cost per token / the baseline's) has the widest confidence
interval, until all intervals are narrow enough (`precision`), or decide (`decided`), or the
repetition's part of the budget (`max_requests`) is spent.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from draftworth.analysis.summary import Group
from draftworth.measuring.decided import Decided
from draftworth.measuring.precision import Precision
from draftworth.measuring.round_counts import RoundCounts
from draftworth.measuring.run_specification import Endpoint, RunSpec
from draftworth.measuring.stopping import StoppingRule
from draftworth.records.load_shapes import Load
from draftworth.records.results import CONTROL, BlockResult, StopWhen
from draftworth.records.search_result import SearchResult
from draftworth.searching.next_candidate import first_candidate

_RULES: Mapping[StopWhen, type[StoppingRule]] = {"precise": Precision, "decided": Decided}


def stopping_rule(spec: RunSpec) -> type[StoppingRule]:
    """Return the rule that ends the rounds of a run."""
    return _RULES[spec.sampling.stop]


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A part of a run, during which the set of running servers does not change.

    running: the endpoints of all servers that run.
    measured: the endpoints that get requests.
    candidate: the variant that a search measures in this stage; empty in a run without a search.
    """

    repetition: int
    running: tuple[Endpoint, ...]
    measured: tuple[Endpoint, ...]
    is_control: bool = False
    candidate: str = ""

    @property
    def label(self) -> str:
        """The stage's name in messages, for example `repetition 2, control` or `candidate NAME`."""
        if self.candidate:
            return f"candidate {self.candidate}"
        return f"repetition {self.repetition}{', control' if self.is_control else ''}"


def first_stage(spec: RunSpec) -> Stage:
    """Return the first stage; a run that ends during it has measured too little for a verdict."""
    if spec.search:
        return candidate_stage(spec, first_candidate(spec.search.candidates).variant)
    return next(stages(spec))


def candidate_stage(spec: RunSpec, variant: str) -> Stage:
    """Return the stage of a search that measures a candidate beside the baseline."""
    (stage,) = stages(spec.beside_baseline(variant))
    return replace(stage, candidate=variant)


def stages(spec: RunSpec) -> Iterator[Stage]:
    """Return the stages of a run without a search, in the order of measuring."""
    for repetition in range(1, spec.repetitions + 1):
        running = spec.in_repetition(repetition)
        yield Stage(repetition=repetition, running=running, measured=running)
        if spec.control:
            yield _control(spec, repetition, running)


def _control(spec: RunSpec, repetition: int, running: tuple[Endpoint, ...]) -> Stage:
    baseline, other = (
        next(e for e in spec.in_repetition(number) if e.is_baseline)
        for number in (repetition, repetition + 1)
    )
    control = replace(other, variant=CONTROL, is_baseline=False)
    staying = tuple(e for e in running if e.slot != other.slot)
    return Stage(
        repetition=repetition,
        running=(*staying, control),
        measured=(baseline, control),
        is_control=True,
    )


@dataclass(frozen=True, kw_only=True)
class Round:
    """One round: all cases of the prompt classes `classes` are measured at `load`.

    number: the number of this round among all rounds at its load, from 1.
    """

    stage: Stage
    load: Load
    number: int
    classes: frozenset[str]

    def order(self, prompt_class: str, case: str, *, run_id: str) -> Sequence[Endpoint]:
        """Return the measured endpoints in the random order in which they get a case's requests.

        In a fixed order, a disturbance that repeats in the same rhythm could always meet the same
        variant. The random order follows from the arguments and the round alone, so a pod that
        continues a run has the same order.
        """
        seed = f"{run_id}/{self.load.label}/{self.number}/{prompt_class}/{case}"
        measured = self.stage.measured
        return random.Random(seed).sample(measured, len(measured))  # noqa: S311 (not a secret)


@dataclass(frozen=True, kw_only=True)
class PlannedBlocks:
    """How many blocks a run measures, at least and at most."""

    least: int
    most: int

    @property
    def words(self) -> str:
        return f"{self.least}" if self.least == self.most else f"{self.least} to {self.most}"


def planned_blocks(spec: RunSpec) -> PlannedBlocks:
    """Return how many blocks a run measures; a search measures at least one candidate."""
    if spec.search:
        each = _blocks_of(spec, [first_stage(spec)])
        return PlannedBlocks(least=each.least, most=each.most * len(spec.search.candidates))
    return _blocks_of(spec, [*stages(spec)])


def _blocks_of(spec: RunSpec, measured: Sequence[Stage]) -> PlannedBlocks:
    counts, cases = RoundCounts.of(spec), len(spec.cases)
    least = sum(counts.least * counts.loads * cases * len(stage.measured) for stage in measured)
    more = sum(
        counts.further(stage.repetition) * cases * len(stage.measured)
        for stage in measured
        if not stage.is_control
    )
    return PlannedBlocks(least=least, most=least + more)


class Plan(ABC):
    """The rounds of a run; each round may depend on what earlier rounds measured."""

    @abstractmethod
    def __iter__(self) -> Iterator[Round]:
        """Yield the rounds; the caller measures each one before it asks for the next one."""

    @abstractmethod
    def has_answer(self, stage: Stage) -> bool:
        """Return whether a run that ends during `stage` has measured enough for an answer."""

    def leave_out(self, _stage: Stage, _reason: str) -> bool:
        """Leave out a stage that cannot be measured; return whether the run goes on without it."""
        return False

    def left_out(self) -> Mapping[str, str]:
        return {}

    def search_result(self, _run_id: str) -> SearchResult | None:
        return None


@dataclass(kw_only=True)
class Rounds(Plan):
    """The rounds of the given stages of a run.

    blocks: all blocks measured so far; the list grows with every round.
    numbers: at each load, the number of its last round so far.
    """

    spec: RunSpec
    progress: Callable[[str], None]
    blocks: Sequence[BlockResult]
    stages: Sequence[Stage]
    numbers: Counter[Load] = field(default_factory=Counter)
    stopping: StoppingRule = field(init=False)
    _measured: Counter[Group] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        rule = stopping_rule(self.spec)
        self.stopping = rule(spec=self.spec, progress=self.progress, blocks=self.blocks)

    def __iter__(self) -> Iterator[Round]:
        for stage in self.stages:
            yield from self._least(stage)
            if not stage.is_control:
                yield from self._more(stage)
        for group in self._groups:
            if not self.stopping.is_reached(group) and not self._is_enough(
                group, self.spec.repetitions
            ):
                self.stopping.report_missing(group)

    def has_answer(self, stage: Stage) -> bool:
        """Return whether a run that ends during `stage` has completed its first stage.

        This is enough for an answer: later stages only narrow the intervals.
        """
        return stage != self.stages[0]

    @property
    def _classes(self) -> frozenset[str]:
        return frozenset(case.prompt_class for case in self.spec.cases)

    @property
    def _groups(self) -> list[Group]:
        names = dict.fromkeys(case.prompt_class for case in self.spec.cases)
        return [Group(prompt_class=n, load=load) for load in self.spec.loads for n in names]

    def _least(self, stage: Stage) -> Iterator[Round]:
        for load in self.spec.loads:
            for _ in range(RoundCounts.of(self.spec).least):
                yield self._next(stage, load, self._classes)

    def _more(self, stage: Stage) -> Iterator[Round]:
        """Yield a stage's rounds beyond the least number, which `_least` yields.

        A group (a prompt class at a load) is open until the stopping rule says that it needs no
        more, or its class has had all rounds of this repetition. Each round has the load of the
        open group with the widest interval, and measures all open groups at this load.
        """
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
        spent = sum(n for group, n in self._measured.items() if group.prompt_class == prompt_class)
        return spent < RoundCounts.of(self.spec).until(repetition)

    def _is_enough(self, group: Group, repetition: int) -> bool:
        sampling = self.spec.sampling
        requests = self._measured[group] * sampling.requests_per_round
        if requests < sampling.min_requests * repetition / self.spec.repetitions:
            return False
        return self.stopping.needs_no_more(group, requests=requests)

    def _widest(self, groups: Sequence[Group]) -> Group:
        if len({group.load for group in groups}) == 1:
            return groups[0]
        return max(groups, key=lambda g: (self.stopping.width(g), -self._measured[g]))
