"""The stages of a run: which servers run when, and which of them are measured.

A repetition is what one start of all servers measures. What differs between two starts (the node,
its neighbours, the slot) is in no single one, so a run that repeats starts its servers again, and
in every second repetition each variant has its other slot: with two variants, they swap.

In a search each candidate has a stage of its own beside the baseline, which stays up. Which
candidates, and in which order, is decided while it lasts (`search`).

In a control the baseline is measured against itself: its second server takes its other slot, and
the variant that has that slot is down meanwhile. Both servers are new then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from draftworth.measuring.run_specification import Endpoint, RunSpec
from draftworth.records.results import CONTROL
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
