"""What the report says of repetitions and of the control: how far a verdict may be off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from draftworth.analysis.clustering import MANY_REPETITIONS
from draftworth.analysis.facts import RunFacts
from draftworth.analysis.repetitions import RepetitionFacts
from draftworth.analysis.statistics import Estimate
from draftworth.analysis.verdict import Comparison
from draftworth.report.document import Section, Table, table
from draftworth.report.words import (
    ABOUT,
    INTERVAL,
    MISSING,
    change,
    change_interval,
    number,
    yes_or_no,
)


def _comparisons(facts: RunFacts) -> list[Comparison]:
    return [*facts.mixes, *(c for v in facts.speculative if (c := v.comparison))]


def repetition_sections(facts: RunFacts) -> Iterator[Section]:
    """Each repetition of each run by itself, and all of them together; nothing of a single one."""
    if not facts.repetitions:
        return
    rows = [row for c in _comparisons(facts) for row in _rows(facts, c)]
    headings = ("class", "load", "variant", "repetition", "slot", "baseline's slot")
    yield Section(
        title="Repetitions",
        paragraphs=(ABOUT["repetitions"].format(many=MANY_REPETITIONS),),
        tables=table((*headings, "cost of a token", INTERVAL), rows, names=4),
        brief=True,
    )


def _rows(facts: RunFacts, c: Comparison) -> Iterator[tuple[str, ...]]:
    who = c.traffic.name, c.traffic.load.label, c.name
    own = [r for r in facts.repetitions if (r.traffic, r.load, r.variant) == who]
    several_runs = len({repetition.run_id for repetition in own}) > 1
    for repetition in own:
        slots = (number(slot, digits=0) for slot in (repetition.slot, repetition.baseline_slot))
        name = _name(repetition, of_several_runs=several_runs)
        yield (*who, name, *slots, *_cost(repetition.cost_ratio))
    if own:
        yield (*who, _all(own), MISSING, MISSING, *_cost(c.cost_ratio))


def _name(repetition: RepetitionFacts, *, of_several_runs: bool) -> str:
    run = f"{repetition.run_id}, " if of_several_runs else ""
    rest = "" if repetition.is_whole else ", not whole"
    return f"{run}{repetition.repetition}{rest}"


def _all(repetitions: Sequence[RepetitionFacts]) -> str:
    whole = sum(repetition.is_whole for repetition in repetitions)
    return f"all {whole}" if whole == len(repetitions) else f"all, {whole} whole"


def _cost(ratio: Estimate | None) -> tuple[str, str]:
    return change(ratio), change_interval(ratio)


def control_tables(facts: RunFacts) -> tuple[Table, ...]:
    """The baseline against itself, beside every verdict whose traffic it measured."""
    rows = (
        (
            *(c.traffic.name, c.traffic.load.label, c.name),
            *(*_cost(c.floor), yes_or_no(c.clears_floor)),
        )
        for c in _comparisons(facts)
        if c.floor
    )
    headings = ("class", "load", "variant", "two servers without speculation", INTERVAL)
    return table((*headings, "verdict clears it"), rows, names=3)
