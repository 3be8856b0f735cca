"""The phases in which servers are measured: repetitions, loads, controls, starts between them."""

from __future__ import annotations

from collections.abc import Iterator

from draftworth.planning.assumptions import Assumptions
from draftworth.planning.bounds import Bounds, exactly, longest, total
from draftworth.planning.loading_time import load_minutes
from draftworth.planning.measuring_time import (
    RoundCounts,
    control_round_minutes,
    round_minutes,
    slowest_load,
)
from draftworth.planning.phases import Phase
from draftworth.planning.resolved import ResolvedNeuron
from draftworth.records.load import Load


def measuring_phases(
    experiment: ResolvedNeuron, assumed: Assumptions, *, after: tuple[str, ...]
) -> Iterator[Phase]:
    """One after the other, from servers that are loaded: best, the least rounds; worst, the whole
    budget at the load where a round takes longest. Of a search, those of the first candidate."""
    for phase in _unordered(experiment, assumed):
        yield Phase(name=phase.name, minutes=phase.minutes, after=after, measured=phase.measured)
        after = (phase.name,)


def _unordered(experiment: ResolvedNeuron, assumed: Assumptions) -> Iterator[Phase]:
    repetitions, counts = experiment.spec.repetitions, RoundCounts.of(experiment)
    for number in range(1, repetitions + 1):
        place = f", repetition {number}" if repetitions > 1 else ""
        if number > 1:
            yield Phase(name=f"load again{place}", minutes=_load_all(experiment, assumed))
        for load in experiment.loads:
            rounds = exactly(counts.least, _words(counts.least))
            minutes = rounds * _one_round(experiment, load, assumed)
            yield Phase(name=f"measure {load.label}{place}", minutes=minutes, measured=True)
        if counts.further(number):
            minutes = _further_minutes(experiment, assumed, counts, number)
            yield Phase(name=f"measure further{place}", minutes=minutes, measured=True)
        if experiment.spec.control:
            yield from _control_phases(experiment, assumed, place)


def _further_minutes(
    experiment: ResolvedNeuron, assumed: Assumptions, counts: RoundCounts, repetition: int
) -> Bounds:
    """Best, what every load needs for an interval; worst, the rest of the budget where a round
    takes longest."""
    slowest = _one_round(experiment, slowest_load(experiment, assumed), assumed)
    needed, most = counts.needed_further(repetition), counts.further(repetition)
    if not needed:
        return Bounds(0, most).called("further rounds", digits=None) * slowest
    first = [_one_round(experiment, load, assumed) for load in experiment.loads[:needed]]
    words = f"{total(first).how}, to {most} x {slowest.how}"
    return Bounds(total(first).best, most * slowest.worst, (words,))


def _control_phases(
    experiment: ResolvedNeuron, assumed: Assumptions, place: str
) -> Iterator[Phase]:
    """The baseline's second server starts in the other slot; both are measured at every load."""
    baseline = next(variant for variant in experiment.variants if variant.is_baseline)
    loading = load_minutes(baseline, assumed)
    yield Phase(name=f"load control{place}", minutes=loading)
    least = RoundCounts.of(experiment).least
    rounds = total(
        [
            control_round_minutes(experiment, load, assumed).called(
                f"control_round_minutes at {load.label}"
            )
            for load in experiment.loads
        ]
    )
    minutes = exactly(least, _words(least)) * rounds
    yield Phase(name=f"measure control{place}", minutes=minutes, measured=True)


def _one_round(experiment: ResolvedNeuron, load: Load, assumed: Assumptions) -> Bounds:
    minutes = round_minutes(experiment, load, assumed)
    return minutes.called(f"round_minutes at {load.label}")


def _load_all(experiment: ResolvedNeuron, assumed: Assumptions) -> Bounds:
    """All servers anew: their graphs are there."""
    return longest(
        [
            load_minutes(variant, assumed).called(f"load {variant.name}")
            for variant in experiment.variants
        ]
    )


def _words(rounds: int) -> str:
    return f"{rounds} round{'s' if rounds > 1 else ''}"
