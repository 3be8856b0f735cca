"""Computes what each use of a run's time costs, and the time and tokens of decoding steps.

A run is paid for also while it waits, is interrupted or is idle (`RunResult.time`).

The time between a request's first and last chunk is the time of its steps. The sum of these times
over all requests, divided by the number of all their steps, is the mean step latency. Step latency
divided by tokens per step is the inter-token latency, the time that a reader waits for a token.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from draftworth.analysis.clustering import Sample
from draftworth.analysis.pairing import Traffic, samples_of, weighted
from draftworth.analysis.ratios import Amounts, log_of_sums, share_ratio
from draftworth.analysis.statistics import Estimate
from draftworth.analysis.summary import groups_of
from draftworth.metrics import definitions
from draftworth.metrics.steps import StepCounting, step_counting
from draftworth.records.load_shapes import Load
from draftworth.records.readings import Reading
from draftworth.records.results import CONTROL, BlockResult, RequestRecord, RunResult
from draftworth.records.run_folder import Run
from draftworth.records.step_costs import StepCost, StepCostCard


@dataclass(frozen=True, kw_only=True)
class RunPart:
    """The time that a run spent in one way, such as waiting, and what it cost.

    usd: cost of all nodes during `seconds`, in US dollars; None: the run has no price.
    """

    name: str
    seconds: float
    usd: float | None


def run_parts(run: RunResult) -> tuple[RunPart, ...]:
    """Return how long a run measured, waited, was interrupted and was idle, and what that cost.

    The parts add up to the time from the run's first start to its end. Its nodes also run for some
    minutes before and after; those are not included.
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
    """Return the sum of a run's parts, a `RunPart` named `total`; `usd` is None without a price."""
    paid = [part.usd for part in parts if part.usd is not None]
    return RunPart(
        name="total", seconds=sum(part.seconds for part in parts), usd=sum(paid) if paid else None
    )


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
        for load in dict.fromkeys(group.load for group in groups_of(run.blocks)):
            blocks = [b for b in run.blocks if (b.variant, b.load) == (variant, load)]
            # The control is a second baseline server: it would only repeat the baseline's figures.
            if blocks and variant != CONTROL:
                yield _cost(blocks, variant, load)


def step_cost_ratio(run: Run, load: Load, variant: str) -> Estimate | None:
    """Return how many times as much a variant's step costs as a baseline step, over all classes.

    The result is (variant / baseline of the step latencies at this load) x (variant / baseline of
    the servers' prices). A baseline step yields one token, so a variant's step must yield this many
    tokens to cost as little per token. None if one of the two step latencies is not known.
    """
    result = run.result
    sides = []
    for name in (variant, result.baseline):
        blocks = [b for b in run.blocks if (b.variant, b.load) == (name, load)]
        sides.append(log_of_sums(_samples(blocks, name), _seconds_and_steps(step_counting(blocks))))
    drafted, plain = sides
    if not drafted or not plain:
        return None
    share = share_ratio(result.price, variant, result.baseline)
    return drafted.beside(plain).times(share).estimate()


def tokens_per_step(blocks: Sequence[BlockResult], variant: str) -> Estimate | None:
    """Return a variant's mean tokens per step with its interval; None if steps are not known."""
    count = step_counting(blocks)
    log_ratio = log_of_sums(_samples(blocks, variant), count.of_request) if count else None
    return log_ratio.estimate() if log_ratio else None


def _cost(blocks: Sequence[BlockResult], variant: str, load: Load) -> StepCost:
    """Return a variant's `StepCost` (step latency, tokens per step) at a load, over all classes."""
    count = step_counting(blocks)
    seconds_and_steps = _seconds_and_steps(count)
    samples = _samples(blocks, variant)
    log_ratio = log_of_sums(samples, seconds_and_steps)
    latency = log_ratio.estimate() if log_ratio else None
    used = [record for _, record in samples if seconds_and_steps(record)]
    amounts = [count.of_request(record) or (0.0, 0.0) for record in used] if count else []
    steps = math.fsum(each for _, each in amounts)
    return StepCost(
        variant=variant,
        load=load,
        mean_context_tokens=_mean_context(zip(used, amounts, strict=True)),
        step_latency_s=latency.value if latency else None,
        step_latency_low_s=latency.low if latency else None,
        step_latency_high_s=latency.high if latency else None,
        steps_by=count.by if count and latency else None,
        steps=round(steps),
        requests=len(used),
        tokens_per_step=math.fsum(tokens for tokens, _ in amounts) / steps if steps else None,
    )


def _samples(blocks: Sequence[BlockResult], variant: str) -> list[tuple[Sample, RequestRecord]]:
    return [sample for group in groups_of(blocks) for sample in samples_of(blocks, group, variant)]


def _seconds_and_steps(count: StepCounting | None) -> Amounts:
    def amounts(record: RequestRecord) -> tuple[float, float] | None:
        tokens_and_steps, seconds = count and count.of_request(record), _decoding_s(record)
        return (seconds, tokens_and_steps[1]) if tokens_and_steps and seconds is not None else None

    return amounts


def _decoding_s(record: RequestRecord) -> float | None:
    if record.end_to_end_latency_s is None or record.ttft_s is None:
        return None
    return record.end_to_end_latency_s - record.ttft_s


def _mean_context(
    requests: Iterable[tuple[RequestRecord, tuple[float, float]]],
) -> float | None:
    """Return the mean context length of all steps, in tokens; None: lengths are not known.

    A step's context is taken as its request's input and half of its output. requests: pairs of a
    request and its (tokens, steps).
    """
    sized = [
        (steps, record.number_input_tokens + record.number_output_tokens / 2)
        for record, (_, steps) in requests
        if record.number_input_tokens is not None and record.number_output_tokens is not None
    ]
    total = math.fsum(steps for steps, _ in sized)
    return math.fsum(steps * context for steps, context in sized) / total if total else None


def hit_rate(readings: Iterable[Reading]) -> float | None:
    """Return the share (0 to 1) of the target's output tokens that a draft model predicts right.

    None if there are no output tokens.

    The first token of each output is left out, because the prefill yields it.
    readings: the results of the draft model's passes over the target's outputs.
    """
    hits = "".join(reading.hits for reading in readings)
    return hits.count("1") / len(hits) if hits else None


def tokens_per_step_in(
    blocks: Sequence[BlockResult], traffic: Traffic, variant: str
) -> float | None:
    """Return a variant's mean tokens per step over the classes of a traffic.

    None if they are not known for one of the classes.
    """
    steps_per_token = weighted(blocks, traffic, variant, definitions.TOKENS_PER_STEP, power=-1)
    return 1 / steps_per_token if steps_per_token else None
