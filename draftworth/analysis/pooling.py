"""Merges several runs that measured the same work into one run with the repetitions of all."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace

from draftworth.analysis.comparable_runs import may_be_compared, measured, only_in_one
from draftworth.errors import UserInputError
from draftworth.records.results import CONTROL, RunResult, TimeAccount
from draftworth.records.run_folder import Run
from draftworth.records.servers import Decoding, ServingFacts

# Values that must be the same in all runs that are merged. Classes, cases and loads must be the
# same too, and are compared separately.
_QUESTION: dict[str, Callable[[Run], object]] = {
    "experiment": lambda run: run.result.experiment,
    "baseline": lambda run: run.result.baseline,
    "variants": lambda run: sorted({*run.result.variants} - {CONTROL}),
    "model": lambda run: sorted({block.model for block in run.blocks}),
    "most tokens a step": lambda run: {
        name: most for name, most in run.result.max_tokens_per_step.items() if name != CONTROL
    },
    "weights of classes": lambda run: dict(sorted(run.result.class_weights.items())),
    "limits": lambda run: vars(run.result.limits),
    "prices": lambda run: dict(run.result.price.node_shares) if run.result.price else {},
    "load generator": lambda run: run.result.load_generator,
    "temperature": lambda run: run.result.temperature,
}


def pooled(runs: Sequence[Run]) -> Run:
    """Return one run with the blocks of all runs, and the price of the latest run.

    Raise UserInputError if there are several runs and one of them is a search (which chooses its
    variants while it measures), is given twice, or differs from the first in experiment, servers or
    work.
    """
    first, *later_runs = runs
    if not later_runs:
        return first
    for run in runs:
        # A search chooses which variants it measures by its own blocks, so two searches of one
        # experiment measure different variants.
        if run.search:
            raise UserInputError(
                f"RUN: given {run.result.run_id}, which is a search, among several, allowed: a "
                "search alone; next: measure its best candidate in an experiment of its own, and "
                "put runs of that together"
            )
    ids = [run.result.run_id for run in runs]
    for place, run in enumerate(later_runs, start=1):
        name = run.result.run_id
        if name in ids[:place]:
            raise UserInputError(f"RUN: given {name} twice, allowed: each run once")
        if differences := list(_differences(first, run)):
            instead = ", or compare both with --against" if may_be_compared(first, run) else ""
            raise UserInputError(
                f"RUN: {ids[0]} and {name} cannot be put together: {'; '.join(differences)}. Give "
                f"runs of the same experiment file{instead}"
            )
    ordered = sorted(runs, key=lambda run: run.result.started_at_unix_s)
    return Run(
        result=_result([run.result for run in ordered]),
        blocks=tuple(block for run in ordered for block in run.blocks),
        unlisted=tuple(name for run in ordered for name in run.unlisted),
        likelihoods=tuple(check for run in ordered for check in run.likelihoods),
    )


def _differences(run: Run, other: Run) -> Iterator[str]:
    for name, value_of in _QUESTION.items():
        mine, theirs = value_of(run), value_of(other)
        if mine != theirs:
            yield f"{name} {mine!r:.200} and {theirs!r:.200}"
    mine, theirs = measured(run), measured(other)
    if mine != theirs:
        yield f"classes, cases or loads: {only_in_one(mine, theirs)}"
    yield from _different_prompts(run, other)
    yield from _different_serving(run.result.serving, other.result.serving)


def _different_prompts(run: Run, other: Run) -> Iterator[str]:
    """Yield in words the cases whose prompts differ between two runs.

    A run of fewer rounds may lack some prompts of the other: that is no difference.
    """
    ours, theirs = _prompts(run), _prompts(other)
    for case in sorted(ours.keys() & theirs.keys()):
        mine, other_prompts = ours[case], theirs[case]
        if not (mine <= other_prompts or other_prompts <= mine):
            yield f"prompts of {case}: {only_in_one(mine, other_prompts)}"


def _prompts(run: Run) -> dict[str, set[str]]:
    by_case: dict[str, set[str]] = {}
    for block in run.blocks:
        of_case = by_case.setdefault(f"{block.prompt_class}/{block.case}", set())
        of_case.update(request.prompt_id for request in block.requests)
    return by_case


def _different_serving(ours: ServingFacts | None, theirs: ServingFacts | None) -> Iterator[str]:
    if ours is None or theirs is None:
        return
    yield from _different_facts(ours, theirs)
    for variant in sorted(ours.decoding.keys() & theirs.decoding.keys()):
        both = ours.decoding[variant], theirs.decoding[variant]
        yield from (f"{variant}: {words}" for words in _different_facts(*both))


def _different_facts(
    ours: ServingFacts | Decoding, theirs: ServingFacts | Decoding
) -> Iterator[str]:
    for name in (field.name for field in fields(ours) if field.name != "decoding"):
        mine, other_value = getattr(ours, name), getattr(theirs, name)
        if mine != other_value and None not in (mine, other_value):
            yield f"{name} {mine!r:.200} and {other_value!r:.200}"


def _result(results: Sequence[RunResult]) -> RunResult:
    latest = results[-1]
    return replace(
        latest,
        run_id=" + ".join(result.run_id for result in results),
        status="failed" if any(r.status == "failed" for r in results) else "complete",
        reason=_of_each(results, lambda result: result.reason),
        started_at_unix_s=results[0].started_at_unix_s,
        ended_at_unix_s=max(result.ended_at_unix_s for result in results),
        variants=tuple(dict.fromkeys(name for result in results for name in result.variants)),
        blocks=(),
        scheduling=", ".join(dict.fromkeys(result.scheduling for result in results)),
        repetitions=sum(result.repetitions for result in results),
        shortened=_of_each(results, lambda result: result.shortened),
        time=TimeAccount(
            **{part: sum(getattr(r.time, part) for r in results) for part in vars(latest.time)}
        ),
        interruptions=tuple(i for result in results for i in result.interruptions),
    )


def _of_each(results: Sequence[RunResult], text: Callable[[RunResult], str]) -> str:
    return "; ".join(f"{result.run_id}: {text(result)}" for result in results if text(result))
