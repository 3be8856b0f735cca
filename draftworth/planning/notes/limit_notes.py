"""Notes on limits that end a run too early: deadline, budget, `search.stop`, Capacity Block.

A deadline or a budget that no run can keep is refused here; the other limits only get notes.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from draftworth.errors import UserInputError
from draftworth.planning.assumptions import Bounds
from draftworth.planning.capacity_block import PaidBlock
from draftworth.planning.notes.note import Note
from draftworth.planning.timeline import BUDGET, DEADLINE, NODE_START, RunForecast

_MORE = "raise it, or ask for less (max_requests, concurrency, cases, output_tokens or repetitions)"


def limit_notes(run: RunForecast) -> Iterator[Note]:
    """Yield the notes on limits that may end a run too early; `run`: the run's forecast."""
    for limit in _limits(run):
        yield from _limit_ends_search(limit) if run.search else _limit_ends_run(limit)
    yield from _stop_leaves_out_a_candidate(run)
    if block := PaidBlock.of(run.experiment):
        yield from _block_is_too_short(block, run)
        yield from _budget_is_below_the_block(block, run)


@dataclass(frozen=True, kw_only=True)
class _Limit:
    """The deadline or the budget (`value`), and how much of it the run needs, in minutes or in USD.

    setting: the key with its value. needs: words for an amount, as `costs {:.2f} USD`.
    certain: the amount that a search needs to measure the candidates that it measures in any case.
    average: the amount for as many candidates as an average search measures.
    most: the amount for all candidates. Without a search the three amounts are equal.
    """

    setting: str
    value: float
    needs: str
    certain: Bounds
    average: Bounds
    most: Bounds


def _limits(run: RunForecast) -> Iterator[_Limit]:
    aws = run.experiment.spec.aws
    certain, average, most = _needed(run, run.released_minutes)
    yield _Limit(
        setting=f"{DEADLINE} {aws.deadline_minutes}",
        value=aws.deadline_minutes,
        needs="needs {:.0f} minutes",
        certain=certain,
        average=average,
        most=most,
    )
    if aws.price is None:
        return
    certain, average, most = map(run.usd, _needed(run, run.needed_minutes))
    yield _Limit(
        setting=f"{BUDGET} {aws.accelerator_budget_usd:.2f}",
        value=aws.accelerator_budget_usd,
        needs="costs {:.2f} USD",
        certain=certain,
        average=average,
        most=most,
    )


def _needed(run: RunForecast, minutes: Bounds) -> tuple[Bounds, Bounds, Bounds]:
    """Return the minutes of a run for three numbers of candidates that its search measures.

    First only the candidates that are measured in any case, then as many as an average search
    measures, then all. Without a search, all three results are `minutes`.
    minutes: those of the run; the worst case is that its search measures all candidates.
    """
    if run.search is None:
        return minutes, minutes, minutes
    certain = minutes.worst - run.further_minutes.worst
    average = certain + run.search.further_minutes(run.search.extent.average).worst
    return (
        Bounds(minutes.best, certain),
        Bounds(minutes.best, min(average, minutes.worst)),
        minutes,
    )


def _limit_ends_search(limit: _Limit) -> Iterator[Note]:
    average, most = (limit.needs.format(need.worst) for need in (limit.average, limit.most))
    if limit.average.worst > limit.value:
        fewer_than = "are certain" if limit.certain.worst > limit.value else "an average search has"
        yield Note(
            "search-ends-with-few-candidates",
            f"{limit.setting} may end the search with fewer candidates than {fewer_than}: raise "
            f"it; in the worst case an average search {average}, and all that may be measured "
            f"{most}",
        )
    elif limit.most.worst > limit.value:
        yield Note(
            "search-ends-early",
            f"{limit.setting} may end the search before it ends by itself: the worst case {most}; "
            "its answer is then of the candidates that were measured",
        )


def _limit_ends_run(limit: _Limit) -> Iterator[Note]:
    best, worst = (limit.needs.format(need) for need in (limit.most.best, limit.most.worst))
    if limit.most.best > limit.value:
        yield Note(
            "run-ends-unfinished",
            f"{limit.setting} ends the run unfinished: even the best case {best}, the worst case "
            f"{worst}",
        )
    elif limit.most.worst > limit.value:
        yield Note(
            "run-may-end-unfinished",
            f"{limit.setting} may end the run unfinished: the worst case {worst}; raise it",
        )


def _stop_leaves_out_a_candidate(run: RunForecast) -> Iterator[Note]:
    # `search.stop` never leaves out the first candidate, so a search that measures only one for
    # certain gets no note.
    if run.search is None or len(run.search.extent.certain) < 2:
        return
    spans, last = run.unlimited.worst.spans, run.search.extent.certain[-1].variant
    begin = min(span.start for name, span in spans.items() if name.partition(" ")[2] == last)
    due_minutes = begin - spans[NODE_START].end
    if due_minutes >= run.search.stop_minutes:
        yield Note(
            "stop-leaves-out-a-candidate",
            f"search.stop may leave out {last}, which is certainly measured otherwise: in the "
            f"worst case it is due {due_minutes:.0f} minutes after `{NODE_START}`, and none begins "
            f"later than {run.search.stop_minutes:.0f}",
        )


def _block_is_too_short(block: PaidBlock, run: RunForecast) -> Iterator[Note]:
    if run.needed_minutes.worst > block.usable_minutes:
        is_certain = run.needed_minutes.best > block.usable_minutes
        yield Note(
            "block-is-too-short",
            f"a Capacity Block of {block.hours:g} hours {'ends' if is_certain else 'may end'} the "
            f"run unfinished: its nodes may run for {block.usable_minutes:.0f} minutes, the run "
            f"needs {run.needed_minutes:.0f}",
        )


def _budget_is_below_the_block(block: PaidBlock, run: RunForecast) -> Iterator[Note]:
    budget_usd = run.experiment.spec.aws.accelerator_budget_usd
    if budget_usd < block.usd:
        yield Note(
            "budget-is-below-the-block",
            f"aws.accelerator_budget_usd {budget_usd:.2f} is less than the Capacity Block's "
            f"{block.usd:.2f} USD, which are paid in any case: to end a run at the budget saves "
            "nothing; give the block's price",
        )


def refuse_hopeless_limits(run: RunForecast) -> None:
    """Raise UserInputError if the deadline or the budget is less than the best case needs."""
    aws = run.experiment.spec.aws
    # The budget does not end the nodes of a Capacity Block, which is paid in advance. Without a
    # price, the cost is not known. In both cases the budget is not checked.
    is_free = aws.price is None or aws.capacity.is_block
    usd = 0.0 if is_free else run.usd(run.needed_minutes).best
    for key, value, best, unit in (
        (DEADLINE, float(aws.deadline_minutes), run.released_minutes.best, "minutes"),
        (BUDGET, aws.accelerator_budget_usd, usd, "USD"),
    ):
        if best > value:
            raise UserInputError(
                f"{run.experiment.path}: {key}: given {value:g}, allowed: {math.ceil(best)} or "
                f"more, because even the best case needs {best:.0f} {unit}; next: {_MORE}"
            )
