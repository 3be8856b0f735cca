"""`draftworth plan`, the time line: a table that a reader can check by hand, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from draftworth.errors import UserInputError, suggestion
from draftworth.experiment.model import CapacityBlock
from draftworth.planning.assumptions import OPTION, Assumptions, Bounds, assumption_data
from draftworth.planning.pace import block_seconds, pace_of
from draftworth.planning.phases import Phase
from draftworth.planning.resolved import NeuronVariant, ResolvedNeuron
from draftworth.planning.timeline import BUDGET, Forecast, InPlace, forecast, in_place_after_a_run
from draftworth.records.load import Load

COMPILED_OPTION = "--compiled"
# Wide enough for minutes of a day, with one decimal.
_NUMBER_WIDTH = 7


@dataclass(frozen=True, kw_only=True)
class Given:
    """What the user says of the time line: assumptions as text, variants that are compiled."""

    assume: tuple[str, ...] = ()
    compiled: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Times:
    """The forecasts of an experiment's first run and of a second one."""

    experiment: ResolvedNeuron
    assumed: Assumptions
    first: Forecast
    second: Forecast


def plan_times(experiment: ResolvedNeuron, *, given: Given) -> Times:
    """Simulate both runs.

    Raises:
        UserInputError: an option of the time line is wrong.
    """
    assumed = assumption_data().for_target(experiment.spec.target.model).replaced(given.assume)
    first = InPlace(artifact_keys=_compiled_keys(experiment, given.compiled))
    second = in_place_after_a_run(experiment)
    return Times(
        experiment=experiment,
        assumed=assumed,
        first=forecast(experiment, assumed=assumed, in_place=first),
        second=forecast(experiment, assumed=assumed, in_place=second),
    )


def _compiled_keys(experiment: ResolvedNeuron, names: tuple[str, ...]) -> frozenset[str]:
    variants = {variant.name: variant for variant in experiment.variants}
    for name in names:
        if name not in variants:
            raise UserInputError(
                f"{COMPILED_OPTION}: given {name!r}, allowed: {', '.join(variants)}"
                f"{suggestion(name, variants)}"
            )
    return frozenset(variants[name].artifact_key for name in names)


def time_lines(times: Times) -> Iterator[str]:
    """The time line and its cost as lines of text."""
    yield ""
    yield (
        "time line   minutes from the start of `cdk deploy` in the best and in the worst case, by "
        f"the assumptions of docs/timeline.md ({OPTION} replaces one)"
    )
    yield from _table(times.first)
    yield from _measuring_lines(times)
    yield ""
    yield from _cost_lines(times)


def _table(run: Forecast) -> Iterator[str]:
    phases = run.low.course.phases
    width = max(len(phase.name) for phase in phases)
    ends = "".join(f"{word:>{_NUMBER_WIDTH}}" for word in ("best", "worst"))
    yield f"    {'':<{width}}{'starts':>{2 * _NUMBER_WIDTH}}{'takes':>{2 * _NUMBER_WIDTH}}"
    yield f"    {'':<{width}}{ends}{ends}   computed as, best to worst"
    billed = False
    for phase in phases:
        billed = billed or phase.name == run.low.course.launch
        mark = "*" if billed else " "
        cells = _cells(run, phase)
        yield f"  {mark} {phase.name:<{width}}{cells}   {phase.how}{_cut(run, phase)}"
    yield "  * accelerator nodes are billed; waiting for capacity is in none of this"


def _cells(run: Forecast, phase: Phase) -> str:
    spans = [simulation.spans.get(phase.name) for simulation in (run.low, run.high)]
    numbers = [*(span and span.start for span in spans), *(span and span.minutes for span in spans)]
    return "".join(
        f"{'-' if number is None else f'{number:.1f}':>{_NUMBER_WIDTH}}" for number in numbers
    )


def _cut(run: Forecast, phase: Phase) -> str:
    """Says where a limit left less time than the phase needs."""
    ends = (("best", run.low, phase.minutes.low), ("worst", run.high, phase.minutes.high))
    return "".join(
        f"; {name} case: {needed:.1f} cut by {simulation.stopped_by}"
        for name, simulation, needed in ends
        if phase.name in simulation.spans and simulation.spans[phase.name].cut
    )


def _measuring_lines(times: Times) -> Iterator[str]:
    """How a round's minutes come about, for every load."""
    cases = len(times.experiment.cases)
    for load in times.experiment.loads:
        blocks = {v.name: _block(times, v, load) for v in times.experiment.variants}
        low = _put_together(times, [block.low for block in blocks.values()])
        high = _put_together(times, [block.high for block in blocks.values()])
        yield f"    a round at {load.label}: {cases} cases x {low} to {high} seconds / 60"
        for variant in times.experiment.variants:
            seconds = blocks[variant.name].text(digits=1)
            yield f"      {variant.name}: {_block_words(times, variant, load)} = {seconds}"


def _block(times: Times, variant: NeuronVariant, load: Load) -> Bounds:
    return Bounds.of(
        lambda bound: block_seconds(times.experiment, variant, times.assumed, load, bound=bound)
    )


def _put_together(times: Times, seconds: Sequence[float]) -> str:
    numbers = [f"{value:.1f}" for value in seconds]
    if times.experiment.spec.workload.parallel:
        return f"max({', '.join(numbers)})"
    return f"({' + '.join(numbers)})"


def _block_words(times: Times, variant: NeuronVariant, load: Load) -> str:
    """A block's seconds in numbers."""
    work, seats = times.experiment.spec.workload, times.experiment.spec.serving.max_num_seqs
    pace = pace_of(times.experiment, variant, times.assumed)
    request = (
        f"(first_token_seconds {pace.first_token_seconds.text()} + {pace.output_tokens} tokens x "
        f"{pace.ms_per_token.text()} ms)"
    )
    sending = load.sending_words((work.warmup_requests, work.requests_per_round), seats=seats)
    overhead = times.assumed.block_overhead_seconds.bounds.text()
    return f"{sending} {request} + block_overhead_seconds {overhead}"


def _cost_lines(times: Times) -> Iterator[str]:
    price, first, second = times.experiment.spec.aws.price, times.first, times.second
    rate = f"{first.nodes} x {price.usd_per_hour:.2f}"
    yield (
        f"cost        {first.nodes * price.usd_per_hour:.2f} USD an hour while the accelerator "
        f"nodes are up ({rate}; {price.source}, {price.as_of.isoformat()})"
    )
    minutes, usd = first.billed_minutes, first.usd(first.billed_minutes)
    nodes = f"{first.nodes} node{'s' if first.nodes > 1 else ''}"
    yield (
        f"  first run   {minutes.text(digits=1)} billed minutes, from `{first.low.course.launch}` "
        f"to the end of `{first.low.course.release}`, on {nodes}:"
    )
    yield (
        f"              {minutes.low:.1f} / 60 x {rate} = {usd.low:.2f} USD to "
        f"{minutes.high:.1f} / 60 x {rate} = {usd.high:.2f} USD; {BUDGET} "
        f"{times.experiment.spec.aws.budget_usd:.2f}"
    )
    minutes, usd = second.billed_minutes, second.usd(second.billed_minutes)
    yield (
        f"  second run  {minutes.text(digits=1)} billed minutes, {usd.text(digits=2)} USD: the "
        "cluster, checkpoints and compiled graphs are there"
    )
    yield from _capacity_lines(times.experiment)
    yield from _standing_lines()


def _capacity_lines(experiment: ResolvedNeuron) -> Iterator[str]:
    if isinstance(experiment.spec.aws.capacity, CapacityBlock):
        yield (
            "  a Capacity Block is paid in advance for its whole window, however much of it a run "
            "uses, and the nodes go 40 minutes before it ends"
        )


def _standing_lines() -> Iterator[str]:
    """What is paid from deploy to destroy, whatever runs."""
    items = assumption_data().standing
    total_usd = sum(item.count * item.usd_per_hour for item in items)
    parts = " + ".join(f"{item.count} x {item.what} {item.usd_per_hour:g}" for item in items)
    dates = sorted(item.as_of for item in items)
    yield (
        f"  beside it   about {total_usd:.2f} USD an hour from deploy to destroy ({parts}; "
        f"{dates[0].isoformat()} to {dates[-1].isoformat()}); storage, logs and traffic on top"
    )
