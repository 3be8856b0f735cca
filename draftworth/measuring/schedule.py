"""The schedule of a run: its stages, their rounds, and whether another round is needed.

A repetition is what one start of all servers measures. What differs between two starts (the node,
its neighbours, the slot) is in no single one, so a run that repeats starts its servers again, and
in every second repetition each variant has its other slot: with two variants, they swap.

In a search each candidate has a stage of its own beside the baseline, which stays up. Which
candidates, and in which order, is decided while it lasts (`search`).

In a control the baseline is measured against itself: its second server takes its other slot, and
the variant that has that slot is down meanwhile. Both servers are new then.

A round sends so many requests of each case to each variant at one load. `max_requests` is a budget:
in each repetition every load and class first gets what `min_requests` asks for, and then one round
after the other goes where the interval is widest, until all are narrow enough or the repetition's
part of the budget is spent. Only widths decide, never what they are around (`precision`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from draftworth.analysis.pairing import Traffic, paired
from draftworth.analysis.ratios import log_cost_ratio
from draftworth.analysis.repetitions import Shortfall, more_rounds_help, shortfall
from draftworth.analysis.statistics import Estimate
from draftworth.analysis.summary import Group
from draftworth.measuring.run_specification import Endpoint, RunSpec, Sampling
from draftworth.records.load import Load
from draftworth.records.results import CONTROL, BlockResult
from draftworth.searching.step_costs import first_candidate


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A part of a run in which the same servers run.

    running: the endpoints of all servers that run. measured: those that get requests.
    candidate: of a search, whose stage it is.
    """

    repetition: int
    running: tuple[Endpoint, ...]
    measured: tuple[Endpoint, ...]
    is_control: bool = False
    candidate: str = ""

    @property
    def label(self) -> str:
        """`repetition 2, control`; of a search, the candidate."""
        if self.candidate:
            return f"candidate {self.candidate}"
        return f"repetition {self.repetition}{', control' if self.is_control else ''}"


def first_stage(spec: RunSpec) -> Stage:
    """What a run begins with: where it gets no further, there is no answer."""
    if spec.search:
        return candidate_stage(spec, first_candidate(spec.search.candidates).variant)
    return next(stages(spec))


def candidate_stage(spec: RunSpec, variant: str) -> Stage:
    """A candidate of a search beside the baseline."""
    (stage,) = stages(spec.beside_baseline(variant))
    return replace(stage, candidate=variant)


def stages(spec: RunSpec) -> Iterator[Stage]:
    """The stages of a run without a search, in their order."""
    for repetition in range(1, spec.repetitions + 1):
        running = spec.in_repetition(repetition)
        yield Stage(repetition=repetition, running=running, measured=running)
        if spec.control:
            yield _control(spec, repetition, running)


def _control(spec: RunSpec, repetition: int, running: tuple[Endpoint, ...]) -> Stage:
    own, other = (
        next(e for e in spec.in_repetition(number) if e.is_baseline)
        for number in (repetition, repetition + 1)
    )
    control = replace(other, variant=CONTROL, is_baseline=False)
    staying = tuple(e for e in running if e.slot != other.slot)
    return Stage(
        repetition=repetition,
        running=(*staying, control),
        measured=(own, control),
        is_control=True,
    )


@dataclass(frozen=True, kw_only=True)
class Precision:
    """Compares the intervals of the cost ratios with the width that the specification wants.

    Only widths are looked at, never which way a ratio lies: a run that stops when it likes what it
    sees would be right less often than it says. What looking at widths costs is in the calibration
    (`benchmarks/calibration.py`).
    """

    spec: RunSpec
    progress: Callable[[str], None]

    def is_enough(self, blocks: Sequence[BlockResult], group: Group, *, requests: int) -> bool:
        """Whether a group needs no more than the requests it has of each case and variant.

        Never with less than what `min_requests` asks of one repetition.
        """
        if requests < self.spec.sampling.min_requests / self.spec.repetitions:
            return False
        target = self.spec.sampling.target_interval_width
        missing = [
            (ratio, shortfall(ratio, target_width=target))
            for ratio in self._ratios(blocks, group).values()
        ]
        if all(lacks is not None and not lacks for _, lacks in missing):
            widths = [ratio.relative_width or 0.0 for ratio, _ in missing if ratio]
            if widths:
                self._say(group, f"cost ratio known to {max(widths):.1%}", requests)
            return True
        return self._is_at_its_best(group, missing, requests)

    def width(self, blocks: Sequence[BlockResult], group: Group) -> float:
        """Of the widest interval of a group, relative; infinite where there is one to come."""
        widths = [r.relative_width if r else None for r in self._ratios(blocks, group).values()]
        return max((math.inf if width is None else width for width in widths), default=0.0)

    def report_missing(self, blocks: Sequence[BlockResult], group: Group) -> None:
        """Report how well a group is known that got all its requests, and what more would take."""
        target = self.spec.sampling.target_interval_width
        for variant, ratio in self._ratios(blocks, group).items():
            width = ratio.relative_width if ratio else None
            known = f"known to {width:.1%}" if width is not None else "not known"
            lacks = shortfall(ratio, target_width=target)
            more = f"; {lacks.words(target)}" if lacks else ""
            self.progress(f"{group.label}: cost ratio of {variant} {known}{more}")

    def _is_at_its_best(
        self,
        group: Group,
        missing: Sequence[tuple[Estimate | None, Shortfall | None]],
        requests: int,
    ) -> bool:
        """Whether every interval that is too wide is so because of the prompts, which have all
        been sent, or because of the repetitions, which rounds do not change."""
        target = self.spec.sampling.target_interval_width
        cases = [case for case in self.spec.cases if case.prompt_class == group.prompt_class]
        if any(requests < len(case.prompts) for case in cases):
            return False
        wide = [(ratio, lacks) for ratio, lacks in missing if lacks is None or lacks]
        if any(ratio is None or more_rounds_help(ratio, target_width=target) for ratio, _ in wide):
            return False
        words = next(lacks.words(target) for _, lacks in wide if lacks)
        self._say(group, f"more rounds would hardly narrow the interval; {words}", requests)
        return True

    def _say(self, group: Group, text: str, requests: int) -> None:
        self.progress(f"{group.label}: {text} after {requests} requests a case and variant")

    def _ratios(self, blocks: Sequence[BlockResult], group: Group) -> Mapping[str, Estimate | None]:
        traffic, baseline = Traffic.of(group), self.spec.baseline
        found = {
            endpoint.variant: log_cost_ratio(
                paired(blocks, traffic, variant=endpoint.variant, baseline=baseline), traffic
            )
            for endpoint in self.spec.variants
            if not endpoint.is_baseline
        }
        return {variant: ratio.estimate() if ratio else None for variant, ratio in found.items()}


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
