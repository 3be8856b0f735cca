"""Finds whether two runs did the same work, and names what differs in words for an error."""

from collections.abc import Iterator
from dataclasses import replace

from draftworth.records.load_shapes import Load
from draftworth.records.run_folder import Run


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


def differences(run: Run, other: Run) -> Iterator[str]:
    """Yield in words why the verdicts of two runs cannot be compared; nothing if they can.

    Both runs must have the same experiment, baseline, classes, cases, loads and temperature, and
    at least one speculative variant in common.
    """
    ours, theirs = run.result, other.result
    if ours.experiment != theirs.experiment:
        yield f"experiment {ours.experiment!r} and {theirs.experiment!r}"
    if ours.baseline != theirs.baseline:
        yield f"baseline {ours.baseline!r} and {theirs.baseline!r}"
    if not (set(ours.variants) & set(theirs.variants)) - {ours.baseline}:
        yield f"no speculative variant in both: {list(ours.variants)} and {list(theirs.variants)}"
    yield from _different(run, other)


def different_work(run: Run, other: Run) -> Iterator[str]:
    """Yield in words how the work of two runs differs, at the loads that both have.

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


def _different(run: Run, other: Run) -> Iterator[str]:
    mine, theirs_measured = measured(run), measured(other)
    if mine != theirs_measured:
        yield f"classes, cases or loads: {only_in_one(mine, theirs_measured)}"
    ours, theirs = run.result.temperature, other.result.temperature
    if ours != theirs:
        yield f"temperature {ours:g} and {theirs:g}"


def measured(run: Run) -> set[str]:
    """Return a label, `CLASS/CASE at LOAD`, for each class, case and load that a run measured."""
    return {f"{b.prompt_class}/{b.case} at {b.load.label}" for b in run.blocks}


def only_in_one(ours: set[str], theirs: set[str]) -> str:
    """Return words that name what is only in the first set and what is only in the second."""
    return f"only in the first {few(ours - theirs)}, only in the second {few(theirs - ours)}"


def few(some: set[str]) -> str:
    """Return the first three names, joined, and how many more there are; or `nothing`."""
    names = sorted(some)
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{', '.join(names[:3])}{more}" if names else "nothing"
