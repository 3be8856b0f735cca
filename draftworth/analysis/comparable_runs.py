"""Finds whether two runs did the same work, and in what they differ.

`report/run_differences.py` has the words for each difference.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

from draftworth.records.load_shapes import Load
from draftworth.records.results import RunResult
from draftworth.records.run_folder import Run
from draftworth.records.servers import Decoding, ServingFacts


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


def different_prompts(run: Run, other: Run) -> Iterator[PromptsDiffer]:
    """Yield the cases whose prompts differ between two runs.

    A run of fewer rounds may lack some prompts of the other: that is no difference.
    """
    ours, theirs = _prompts(run), _prompts(other)
    for prompt_class, case in sorted(ours.keys() & theirs.keys()):
        first, second = (prompts[prompt_class, case] for prompts in (ours, theirs))
        if not (first <= second or second <= first):
            yield PromptsDiffer(
                prompt_class=prompt_class,
                case=case,
                first=frozenset(first - second),
                second=frozenset(second - first),
            )


def _prompts(run: Run) -> dict[tuple[str, str], set[str]]:
    by_case: dict[tuple[str, str], set[str]] = {}
    for block in run.blocks:
        of_case = by_case.setdefault((block.prompt_class, block.case), set())
        of_case.update(request.prompt_id for request in block.requests)
    return by_case


def different_facts(
    ours: ServingFacts | Decoding, theirs: ServingFacts | Decoding
) -> Iterator[ValuesDiffer]:
    """Yield the differences of values that both have, without those of how variants decode."""
    for name in (field.name for field in fields(ours) if field.name != "decoding"):
        first, second = getattr(ours, name), getattr(theirs, name)
        if None not in (first, second):
            yield from different_values(name, first, second)


def different_servers(run: Run, other: Run) -> Iterator[ValuesDiffer]:
    """Yield the differences in what served two runs: image, devices, versions on the nodes."""
    ours, theirs = run.result, other.result
    if ours.serving is not None and theirs.serving is not None:
        yield from different_facts(ours.serving, theirs.serving)
    for field in ("driver", "runtime"):
        first, second = (_versions(result, field) for result in (ours, theirs))
        if first and second:
            yield from different_values(field, first, second)


def _versions(result: RunResult, field: str) -> str:
    """Return the versions that the self-tests of a run's servers reported, as one text."""
    every = {getattr(test, field) for test in result.self_tests.values()}
    return ", ".join(sorted(every - {""}))
