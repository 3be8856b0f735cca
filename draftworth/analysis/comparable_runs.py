"""Finds whether two runs did the same work, and in what they differ.

`report/run_differences.py` has the words for each difference.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from draftworth.records.load_shapes import Load
from draftworth.records.run_folder import Run


@dataclass(frozen=True, kw_only=True)
class ValuesDiffer:
    """A value that is not the same in two runs.

    field: the name of the value's field in `RunResult`, `BlockResult`, `ServingFacts` or
        `Decoding`. first, second: its values in the two runs.
    variant: the variant that the value is of; None: it is of the whole run.
    """

    field: str
    first: object
    second: object
    variant: str | None = None


@dataclass(frozen=True, kw_only=True)
class NoVariantInBoth:
    """No variant but the baseline is in both runs. first, second: all variants of each run."""

    first: tuple[str, ...]
    second: tuple[str, ...]


class Work(NamedTuple):
    """A case of a prompt class that a run measured at a load."""

    prompt_class: str
    case: str
    load: Load


@dataclass(frozen=True, kw_only=True)
class WorkDiffers:
    """Two runs measured different cases or loads. first, second: what that run alone measured."""

    first: frozenset[Work]
    second: frozenset[Work]


@dataclass(frozen=True, kw_only=True)
class PromptsDiffer:
    """Two runs sent different prompts of a case.

    first, second: the ids of the prompts that were sent in that run alone.
    """

    prompt_class: str
    case: str
    first: frozenset[str]
    second: frozenset[str]


Difference = ValuesDiffer | NoVariantInBoth | WorkDiffers | PromptsDiffer


def is_same_experiment(run: Run, other: Run) -> bool:
    """Return whether two runs are of one experiment, so that their verdicts can be compared.

    False also if each run has a single variant, because then neither has a verdict.
    """
    alone = len(run.result.variants) == len(other.result.variants) == 1
    return run.result.experiment == other.result.experiment and not alone


def may_be_compared(run: Run, other: Run) -> bool:
    """Return whether two runs did the same work, so that they can be compared."""
    same = is_same_experiment(run, other)
    return not any(differences(run, other) if same else different_work(run, other))


def differences(run: Run, other: Run) -> Iterator[Difference]:
    """Yield why the verdicts of two runs cannot be compared; nothing if they can.

    Both runs must have the same experiment, baseline, classes, cases, loads and temperature, and
    at least one speculative variant in common. Both or neither must be about new prompts.
    """
    ours, theirs = run.result, other.result
    for field in ("experiment", "baseline"):
        yield from different_values(field, getattr(ours, field), getattr(theirs, field))
    if not (set(ours.variants) & set(theirs.variants)) - {ours.baseline}:
        yield NoVariantInBoth(first=ours.variants, second=theirs.variants)
    yield from _different(run, other)


def different_work(run: Run, other: Run) -> Iterator[Difference]:
    """Yield how the work of two runs differs, at the loads that both have.

    If they have no load in common, their work at all loads is compared, so differences are always
    yielded then.
    """
    loads = loads_of(run) & loads_of(other)
    ours, theirs = (
        replace(r, blocks=tuple(b for b in r.blocks if b.load in loads)) if loads else r
        for r in (run, other)
    )
    yield from _different(ours, theirs)


def loads_of(run: Run) -> set[Load]:
    """Return the loads that a run measured."""
    return {block.load for block in run.blocks}


def _different(run: Run, other: Run) -> Iterator[Difference]:
    yield from different_cases(run, other)
    for field in ("temperature", "prompts_are_new"):
        yield from different_values(field, getattr(run.result, field), getattr(other.result, field))


def different_values(field: str, first: object, second: object) -> Iterator[ValuesDiffer]:
    """Yield the difference of two runs' values of a field; nothing if they are equal."""
    if first != second:
        yield ValuesDiffer(field=field, first=first, second=second)


def different_cases(run: Run, other: Run) -> Iterator[WorkDiffers]:
    """Yield the difference of two runs' classes, cases and loads; nothing if they are the same."""
    ours, theirs = (
        frozenset(Work(b.prompt_class, b.case, b.load) for b in r.blocks) for r in (run, other)
    )
    if ours != theirs:
        yield WorkDiffers(first=ours - theirs, second=theirs - ours)
