"""Merges several runs that measured the same work into one run with the repetitions of all."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from draftworth.analysis.comparable_runs import (
    Difference,
    ValuesDiffer,
    different_cases,
    different_facts,
    different_prompts,
    different_values,
    may_be_compared,
)
from draftworth.records.results import CONTROL, RunResult, TimeAccount
from draftworth.records.run_folder import Run
from draftworth.records.servers import ServingFacts

# By the name of a field in `RunResult` or `BlockResult`: the value that must be the same in all
# runs that are merged. Classes, cases and loads must be the same too, and are compared separately.
_SAME_IN_ALL: Mapping[str, Callable[[Run], object]] = {
    "experiment": lambda run: run.result.experiment,
    "baseline": lambda run: run.result.baseline,
    "variants": lambda run: tuple(sorted({*run.result.variants} - {CONTROL})),
    "model": lambda run: tuple(sorted({block.model for block in run.blocks})),
    "max_tokens_per_step": lambda run: {
        name: most for name, most in run.result.max_tokens_per_step.items() if name != CONTROL
    },
    "class_weights": lambda run: dict(sorted(run.result.class_weights.items())),
    "limits": lambda run: vars(run.result.limits),
    "price": lambda run: dict(run.result.price.node_shares) if run.result.price else {},
    "load_generator": lambda run: run.result.load_generator,
    "temperature": lambda run: run.result.temperature,
    "prompts_are_new": lambda run: run.result.prompts_are_new,
}


@dataclass(frozen=True, kw_only=True)
class SearchAmongRuns:
    """One of several runs is a search.

    A search chooses from the blocks measured so far which variants to measure next, so two searches
    of one experiment measure different variants.
    """

    run_id: str


@dataclass(frozen=True, kw_only=True)
class RunTwice:
    """A run is given twice."""

    run_id: str


@dataclass(frozen=True, kw_only=True)
class RunsDiffer:
    """Two runs differ in experiment, servers or work.

    first, second: their ids. may_be_compared: whether they did the same work, so that they can be
        compared with each other although they cannot be merged.
    """

    first: str
    second: str
    differences: tuple[Difference, ...]
    may_be_compared: bool


WhyNotPooled = SearchAmongRuns | RunTwice | RunsDiffer


class NotPooledError(Exception):
    """Raised if runs cannot be merged. `report/run_differences.py` has the words for `why`."""

    def __init__(self, why: WhyNotPooled) -> None:
        super().__init__(why)
        self.why = why


def pooled(runs: Sequence[Run]) -> Run:
    """Return one run with the blocks of all runs, and the price of the latest run.

    Raise NotPooledError if there are several runs and one of them is a search, is given twice, or
    differs from the first in experiment, servers or work.
    """
    first, *later_runs = runs
    if not later_runs:
        return first
    if why := _why_not_pooled(runs):
        raise NotPooledError(why)
    ordered = sorted(runs, key=lambda run: run.result.started_at_unix_s)
    return Run(
        result=_result([run.result for run in ordered]),
        blocks=tuple(block for run in ordered for block in run.blocks),
        unlisted=tuple(name for run in ordered for name in run.unlisted),
        likelihoods=tuple(check for run in ordered for check in run.likelihoods),
        allowed_steps=tuple(record for run in ordered for record in run.allowed_steps),
    )


def _why_not_pooled(runs: Sequence[Run]) -> WhyNotPooled | None:
    ids = [run.result.run_id for run in runs]
    for run in runs:
        if run.search:
            return SearchAmongRuns(run_id=run.result.run_id)
    first = runs[0]
    for place, run in enumerate(runs[1:], start=1):
        if ids[place] in ids[:place]:
            return RunTwice(run_id=ids[place])
        if differences := tuple(_differences(first, run)):
            return RunsDiffer(
                first=ids[0],
                second=ids[place],
                differences=differences,
                may_be_compared=may_be_compared(first, run),
            )
    return None


def _differences(run: Run, other: Run) -> Iterator[Difference]:
    for field, value_of in _SAME_IN_ALL.items():
        yield from different_values(field, value_of(run), value_of(other))
    yield from different_cases(run, other)
    yield from different_prompts(run, other)
    yield from _different_choices(run.result.chosen_by, other.result.chosen_by)
    yield from _different_serving(run.result.serving, other.result.serving)


def _different_choices(
    ours: Mapping[str, str], theirs: Mapping[str, str]
) -> Iterator[ValuesDiffer]:
    for prompt_class in sorted(ours.keys() & theirs.keys()):
        yield from different_values("chosen_by", ours[prompt_class], theirs[prompt_class])


def _different_serving(
    ours: ServingFacts | None, theirs: ServingFacts | None
) -> Iterator[ValuesDiffer]:
    if ours is None or theirs is None:
        return
    yield from different_facts(ours, theirs)
    for variant in sorted(ours.decoding.keys() & theirs.decoding.keys()):
        for difference in different_facts(ours.decoding[variant], theirs.decoding[variant]):
            yield replace(difference, variant=variant)


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
        looks=_looks(results),
        repetitions=sum(result.repetitions for result in results),
        shortened=_of_each(results, lambda result: result.shortened),
        time=TimeAccount(
            **{part: sum(getattr(r.time, part) for r in results) for part in vars(latest.time)}
        ),
        interruptions=tuple(i for result in results for i in result.interruptions),
        chosen_by={name: sha for result in results for name, sha in result.chosen_by.items()},
    )


def _of_each(results: Sequence[RunResult], text: Callable[[RunResult], str]) -> str:
    return "; ".join(f"{result.run_id}: {text(result)}" for result in results if text(result))


def _looks(results: Sequence[RunResult]) -> int:
    """Return the most times that runs together were looked at.

    Who adds a run because of what a first one showed has looked again, so the looks add up. If no
    run could be ended by what it showed, there is one.
    """
    counts = [result.looks for result in results]
    return sum(counts) if max(counts) > 1 else 1
