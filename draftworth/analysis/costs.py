"""Computes the cost of a run's parts, and the time and the tokens of decoding steps.

A run is paid for also while it waits, is interrupted or is idle (`RunResult.time`).

The time between a request's first and last chunk is the time of its steps. The sum of these times
divided by the sum of steps is the mean step latency. Step latency divided by tokens per step is the
inter-token latency, the time that a reader waits for a token.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from draftworth.analysis.checks import AcceptanceCheck
from draftworth.analysis.clustering import Sample
from draftworth.analysis.pairing import samples_of
from draftworth.analysis.ratios import Amounts, log_of_sums, share_ratio
from draftworth.analysis.statistics import Estimate
from draftworth.analysis.summary import groups_of
from draftworth.metrics import definitions
from draftworth.records.findings import StepCost, StepCostCard, StepsBy
from draftworth.records.load import Load
from draftworth.records.reading import Run
from draftworth.records.readings import Reading
from draftworth.records.results import CONTROL, BlockResult, RequestRecord, RunResult


@dataclass(frozen=True, kw_only=True)
class RunPart:
    """A use of a run's time, such as waiting. usd: cost of all nodes in it; None: no price."""

    name: str
    seconds: float
    usd: float | None


def run_parts(run: RunResult) -> tuple[RunPart, ...]:
    """Return the parts of a run's time, from its first start to its end.

    The nodes also run for some minutes before and after that time; those minutes are not included.
    """
    usd_per_second = definitions.nodes_usd_per_second(run.price)
    return tuple(
        RunPart(
            name=name.removesuffix("_s"),
            seconds=seconds,
            usd=None if usd_per_second is None else seconds * usd_per_second,
        )
        for name, seconds in vars(run.time).items()
    )


def total(parts: tuple[RunPart, ...]) -> RunPart:
    """Return a part named `total`, with the seconds and the US dollars of all parts together."""
    paid = [part.usd for part in parts if part.usd is not None]
    return RunPart(
        name="total", seconds=sum(part.seconds for part in parts), usd=sum(paid) if paid else None
    )


# Returns the number of a request's steps after its first chunk; None: not known.
_CountSteps = Callable[[RequestRecord], int | None]


def step_costs_of(run: Run) -> StepCostCard:
    """Return a run's step-cost card (`step_costs.json`), with a hash that shows later changes."""
    return StepCostCard(
        run_id=run.result.run_id,
        experiment=run.result.experiment,
        serving=run.result.serving,
        costs=tuple(_costs(run)),
    ).sealed()


def _costs(run: Run) -> Iterator[StepCost]:
    for variant in run.result.variants:
        # The control is left out below: it is the baseline once more.
        for load in dict.fromkeys(group.load for group in groups_of(run.blocks)):
            blocks = [b for b in run.blocks if (b.variant, b.load) == (variant, load)]
            if blocks and variant != CONTROL:
                yield _cost(blocks, variant, load, run.result.max_tokens_per_step.get(variant))


def step_cost_ratio(run: Run, load: Load, variant: str) -> Estimate | None:
    """Return what a variant's step costs at a load in baseline steps, over all classes.

    It is (ratio of the step latencies) x (ratio of the servers' prices). A step must yield this
    many tokens to break even in decoding. None if one of the latencies is not known
    (`StepCost.step_latency_s`).
    """
    result = run.result
    sides = []
    for name in (variant, result.baseline):
        blocks = [b for b in run.blocks if (b.variant, b.load) == (name, load)]
        count = _counting(_steps_by(blocks, result.max_tokens_per_step.get(name)))
        sides.append(log_of_sums(_samples(blocks, name), _seconds_and_steps(count)))
    drafted, plain = sides
    if not drafted or not plain:
        return None
    share = share_ratio(result.price, variant, result.baseline)
    return drafted.beside(plain).times(share).estimate()


def tokens_per_step(
    blocks: Sequence[BlockResult], variant: str, most: int | None
) -> Estimate | None:
    """Return a variant's mean tokens per step, without the tokens of each request's first chunk.

    most: the most tokens that a step can yield, 1 without speculation; None: not known. The result
    is None if steps cannot be counted (`_steps_by`), or if the server counts no output tokens.
    """
    count = _counting(_steps_by(blocks, most))

    def amounts(record: RequestRecord) -> tuple[float, float] | None:
        steps, tokens = count(record), _tokens_steps(record)
        return (float(tokens), float(steps)) if record.counts and steps and tokens else None

    found = log_of_sums(_samples(blocks, variant), amounts)
    return found.estimate() if found else None


def _cost(blocks: Sequence[BlockResult], variant: str, load: Load, most: int | None) -> StepCost:
    """Return a variant's step latency at a load, over all classes. most: see `tokens_per_step`."""
    steps_by = _steps_by(blocks, most)
    count = _counting(steps_by)
    amounts = _seconds_and_steps(count)
    samples = _samples(blocks, variant)
    found = log_of_sums(samples, amounts)
    latency = found.estimate() if found else None
    used = [record for _, record in samples if amounts(record)]
    steps = sum(count(record) or 0 for record in used)
    after_first = sum((r.number_output_tokens or 0) - (r.first_chunk_tokens or 0) for r in used)
    return StepCost(
        variant=variant,
        load=load,
        mean_context_tokens=_mean_context(used, count),
        step_latency_s=latency.value if latency else None,
        step_latency_low_s=latency.low if latency else None,
        step_latency_high_s=latency.high if latency else None,
        steps_by=steps_by if latency else None,
        steps=steps,
        requests=len(used),
        tokens_per_step=after_first / steps if steps else None,
    )


def _samples(blocks: Sequence[BlockResult], variant: str) -> list[tuple[Sample, RequestRecord]]:
    return [sample for group in groups_of(blocks) for sample in samples_of(blocks, group, variant)]


def _counting(steps_by: StepsBy | None) -> _CountSteps:
    return _COUNTS[steps_by] if steps_by else lambda _: None


def _seconds_and_steps(count: _CountSteps) -> Amounts:
    def amounts(record: RequestRecord) -> tuple[float, float] | None:
        steps, seconds = count(record), _decoding_s(record)
        return (seconds, float(steps)) if record.counts and steps and seconds is not None else None

    return amounts


def _steps_by(blocks: Sequence[BlockResult], most: int | None) -> StepsBy | None:
    """Return what to count as a variant's steps; None if several steps arrived in one chunk, and
    the server did not count each request's steps. most: see `tokens_per_step`."""
    if most == 1:
        return "tokens"
    pooled = definitions.TOKENS_PER_STEP.pooled
    check = AcceptanceCheck(
        counted=None,
        tokens_per_step=pooled(blocks, None) if pooled else None,
        most=most,
        tokens_per_chunk=definitions.tokens_per_chunk(blocks),
    )
    if not check.merged:
        return "chunks"
    counting = [r for block in blocks for r in block.requests if r.counts]
    told = all(r.verification_steps is not None for r in counting)
    return "verification steps" if told else None


def _tokens_steps(record: RequestRecord) -> int | None:
    if record.number_output_tokens is None or record.first_chunk_tokens is None:
        return None
    return record.number_output_tokens - record.first_chunk_tokens


_COUNTS: dict[StepsBy, _CountSteps] = {
    "chunks": lambda record: record.chunks - 1,
    "tokens": _tokens_steps,
    "verification steps": lambda record: record.verification_steps,
}


def _decoding_s(record: RequestRecord) -> float | None:
    if record.end_to_end_latency_s is None or record.ttft_s is None:
        return None
    return record.end_to_end_latency_s - record.ttft_s


def _mean_context(records: Sequence[RequestRecord], count: _CountSteps) -> float | None:
    """Return the mean context of a step in tokens: its request's input and half of the output."""
    sized = [
        (count(r) or 0, r.number_input_tokens + r.number_output_tokens / 2)
        for r in records
        if r.number_input_tokens is not None and r.number_output_tokens is not None
    ]
    steps = sum(n for n, _ in sized)
    return math.fsum(n * context for n, context in sized) / steps if steps else None


def hit_rate(readings: Iterable[Reading]) -> float | None:
    """Return the share of output tokens after the first that the draft predicts; None: there is
    no such token. readings: the results of the draft's passes over the target's outputs."""
    hits = "".join(reading.hits for reading in readings)
    return hits.count("1") / len(hits) if hits else None
