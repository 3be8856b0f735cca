"""Simulates runs whose true cost ratio is known: makes the blocks that a real run would have.

A cell is the settings of such runs. The prompts' cost ratios are log-normal with the cell's
`cost_ratio` as their mean, so a few prompts differ much. Output lengths vary by prompt. Each
block's cost has a random error (3%), and so has each request's (2%). With a drift, costs rise (in
half of the runs) or fall from the first block to the last. Each start of the servers multiplies the
variant's cost by a log-normal factor (mean 1).
"""

import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count, islice

from benchmarks.shared_server import served
from draftworth.analysis.summary import Group
from draftworth.decision.verdict import INDIFFERENCE, TTFT_MARGIN
from draftworth.measuring.round_counts import RoundCounts
from draftworth.measuring.run_specification import Endpoint, RequestShape, RunSpec, Sampling
from draftworth.measuring.schedule import Round, Rounds, stages
from draftworth.records.load_shapes import ConcurrencyLoad
from draftworth.records.prompt_files import Case, Prompt
from draftworth.records.results import CONTROL, BlockResult, RequestRecord, StopWhen

BASELINE, VARIANT, CLASS = "baseline", "variant", "planted"
LOADS = tuple(ConcurrencyLoad(concurrency=c) for c in (1, 2, 4))
GROUP = Group(prompt_class=CLASS, load=LOADS[0])
SAMPLING = Sampling(
    requests_per_round=8,
    min_requests=16,
    max_requests=64,
    target_interval_width=0.1,
    warmup_requests=0,
)
# If the true cost ratio is below this number, the right verdict is "cheaper per token".
BOUNDARY = 1 / (1 + INDIFFERENCE)
_BLOCK_ERROR, _REQUEST_ERROR, _LENGTH_SPREAD, _TTFT_SPREAD = 0.03, 0.02, 0.4, 0.1
_MEAN_TOKENS, _PREFILL_S = 300, 0.05
FAILURE_FACTOR, _PERIOD_DEVIATION = 2.0, 0.1
_BASELINE_S_PER_TOKEN, _TTFT_S, _TIMEOUT_S = 0.02, 0.2, 300.0
# All requests begin at this time. The verdict depends on the durations of requests alone.
_START_UNIX_S = 1_795_168_800.0


@dataclass(frozen=True, kw_only=True)
class Cell:
    """The settings of simulated runs: the true cost ratio, and the disturbances added to it.

    name: the special property of this cell, in words.
    unseen: why a run of ordinary size cannot show this property; empty if it can.
    cost_ratio: the variant's cost divided by the baseline's, averaged over prompts.
    gains: pairs (factor, probability): each prompt's cost ratio is proportional to one of these
        factors, drawn with these probabilities; empty: the cost ratios are log-normal.
    cases, prompts: the number of cases, and of prompts in each case.
    spread: standard deviation of the logarithm of the prompts' cost ratios.
    drift: relative change of cost from a run's first block to its last one.
    outliers: share of all requests that take five times as long. errors: share of all requests that
        fail, at a random moment. time_outs: share of the variant's requests that time out.
    failures: share of the variant's requests that take `FAILURE_FACTOR` times as long and then
        fail. The others are faster, so that `cost_ratio` stays true.
    repetitions: how often all servers are started. between: standard deviation of the logarithm of
        the factor by which a start changes the variant's cost. loads: number of measured loads,
        which share the rounds.
    slots: each server runs in one of two slots (the devices of one server). In each run, all costs
        in the second slot have one random factor; `slots` is the standard deviation of its
        logarithm. A control's two servers differ by it and by a start's factor.
    weights: each case's share of the traffic, if each case is a prompt class; empty: one class.
    prompts_of, tokens_of: each case's number of prompts, and the factor on its output tokens.
        If they are empty, each case has `prompts` prompts and the factor 1.
    lengths: standard deviation of the logarithm of each case's own factor on its output tokens.
    block_error: standard deviation of the logarithm of a block's random factor on cost.
    stalls: (share of the variant's requests that stall, factor on their time).
    slow_starts: (share of the variant's starts that are slow, factor on their cost).
    ttft_ratios: pairs (factor, probability): a prompt's TTFT ratio is proportional to one of these
        factors; the geometric mean of the TTFT ratios is at the margin, 1 + `TTFT_MARGIN`.
    in_flight: number of requests that a server decodes together (`shared_server`). A prefill
        takes the same time for variant and baseline; `cost_ratio` includes prefills and decoding.
    slow_blocks: (share of the variant's blocks that are slow, factor on their cost).
    carry_over: by what share a block that follows one of the variant costs more.
    carry_over_half_life: after how many of such a block's requests half of that is left.
    warmup_requests: how many requests at the beginning of each block are not measured.
    warm_up: how much more a token costs the baseline in the first round after each start of its
        server, as a share; it halves with each further round.
    period: number of blocks after which a disturbance of cost repeats; 0: no disturbance. It gives
        the logarithm of a block's cost a standard deviation of 0.1; each run has a random phase.
    stop: what ends a run's rounds (`Sampling.stop`).
    """

    cost_ratio: float
    name: str = ""
    unseen: str = ""
    cases: int = 1
    prompts: int = 8
    spread: float = 0.2
    drift: float = 0.0
    outliers: float = 0.0
    errors: float = 0.0
    time_outs: float = 0.0
    failures: float = 0.0
    gains: tuple[tuple[float, float], ...] = ()
    repetitions: int = 1
    between: float = 0.0
    loads: int = 1
    control: bool = False
    slots: float = 0.0
    weights: tuple[float, ...] = ()
    prompts_of: tuple[int, ...] = ()
    tokens_of: tuple[float, ...] = ()
    lengths: float = 0.0
    block_error: float = _BLOCK_ERROR
    stalls: tuple[float, float] = (0.0, 1.0)
    slow_starts: tuple[float, float] = (0.0, 1.0)
    ttft_ratios: tuple[tuple[float, float], ...] = ()
    slow_blocks: tuple[float, float] = (0.0, 1.0)
    carry_over: float = 0.0
    carry_over_half_life: float = math.inf
    warmup_requests: int = 0
    warm_up: float = 0.0
    period: int = 0
    in_flight: int = 1
    stop: StopWhen = "precise"
    sampling: Sampling = SAMPLING

    @property
    def traffic(self) -> Mapping[str, float]:
        """Each prompt class's share of the output tokens."""
        return {f"{CLASS}-{i}": w for i, w in enumerate(self.weights)} or {CLASS: 1.0}

    @property
    def decoding_ratio(self) -> float:
        """The mean cost ratio of decoding alone; with the prefills, the ratio is `cost_ratio`."""
        prefills_s = 0.0 if self.in_flight == 1 else self.in_flight * _PREFILL_S
        decoding_s = _BASELINE_S_PER_TOKEN * _MEAN_TOKENS
        return (self.cost_ratio * (decoding_s + prefills_s) - prefills_s) / decoding_s

    def prompts_in(self, case: int) -> int:
        return self.prompts_of[case] if self.prompts_of else self.prompts

    def class_of(self, case: int) -> str:
        return f"{CLASS}-{case}" if self.weights else CLASS

    @property
    def rounds(self) -> int:
        """The most rounds that a run can have, at all loads and in all repetitions together."""
        return RoundCounts.of(planted_spec(self)).most


@dataclass(frozen=True, kw_only=True)
class PlantedPrompt:
    """A simulated prompt.

    tokens: number of output tokens. ttft_factor: factor on the TTFT of baseline and variant.
    cost_ratio, ttft_ratio: the variant's cost and TTFT divided by the baseline's.
    """

    id: str
    tokens: int
    cost_ratio: float
    ttft_factor: float
    ttft_ratio: float


class PlantedRun:
    """A simulated run of a cell; each simulated round adds its blocks to `blocks`.

    starts: for each repetition, the factor by which its start changes the variant's cost.
    """

    def __init__(self, cell: Cell, seed: int) -> None:
        self.cell = cell
        self._id = f"planted-{seed}"
        self.blocks: list[BlockResult] = []
        self._first_rounds: dict[int, int] = {}
        self._generator = random.Random(seed)  # noqa: S311 (reproducible draws, not a secret)
        self._cases = {f"case-{i}": _prompts(cell, i, self._generator) for i in range(cell.cases)}
        self._drift = cell.drift * self._generator.choice((-1, 1))
        # The factors of the starts have their own generator, so that cells that differ only in the
        # number of repetitions have the same prompts.
        of_starts = random.Random(f"starts {seed}")  # noqa: S311
        self.starts, self._control_starts = (
            [_start(cell, of_starts) for _ in range(cell.repetitions)] for _ in range(2)
        )
        self._phase = of_starts.uniform(0, math.tau) if cell.period else 0.0
        self._second_slot = of_starts.lognormvariate(-(cell.slots**2) / 2, cell.slots)

    def measure(self) -> None:
        spec = planted_spec(self.cell)
        all_stages = [*stages(spec)]
        for turn in Rounds(
            spec=spec, progress=lambda _: None, blocks=self.blocks, stages=all_stages
        ):
            self.add(turn)

    def add(self, turn: Round) -> None:
        """Simulate a round's blocks, in the order of a real run, and append them to `blocks`."""
        cell = self.cell
        per_round = cell.sampling.requests_per_round
        last = cell.rounds * len(self._cases) * 2
        for index, (case, prompts) in enumerate(self._cases.items()):
            if cell.class_of(index) not in turn.classes:
                continue
            first = (turn.number - 1) * per_round - cell.warmup_requests
            for endpoint in turn.order(cell.class_of(index), case, run_id=self._id):
                number, side = len(self.blocks), endpoint.variant
                error = self._generator.gauss(0, cell.block_error)
                factor = math.exp(self._drift * number / last + error + self._periodic(number))
                factor *= self._server(endpoint, turn.stage.repetition)
                factor *= self._misled(endpoint, turn)
                carried = self._carried_over()
                sent = (
                    _record(cell, side, prompts[n % len(prompts)], factor * c, self._generator)
                    for n, c in zip(count(first), carried, strict=False)
                )
                warm = islice(sent, cell.warmup_requests, None)
                records = _together(cell, warm) if cell.in_flight > 1 else islice(warm, per_round)
                block = BlockResult(
                    run_id=self._id,
                    experiment=CLASS,
                    variant=side,
                    prompt_class=cell.class_of(index),
                    case=case,
                    repetition=turn.stage.repetition,
                    round=turn.number,
                    block=number,
                    model=CLASS,
                    load=turn.load,
                    started_at_unix_s=_START_UNIX_S,
                    ended_at_unix_s=_START_UNIX_S,
                    warmup_requests=cell.warmup_requests,
                    speculation=None,
                    server=None,
                    requests=tuple(records),
                )
                self.blocks.append(block)

    def _periodic(self, block: int) -> float:
        if not self.cell.period:
            return 0.0
        angle = math.tau * block / self.cell.period + self._phase
        return _PERIOD_DEVIATION * math.sqrt(2) * math.sin(angle)

    def _misled(self, endpoint: Endpoint, turn: Round) -> float:
        """Return the factor on a block's cost by a server that warms up, or by a slow block."""
        factor = 1.0
        if endpoint.is_baseline:
            factor *= 1 + self.cell.warm_up / 2 ** self._earlier_rounds(turn)
        else:
            factor *= _rare(self.cell.slow_blocks, self._generator)
        return factor

    def _carried_over(self) -> Iterator[float]:
        """Yield the factor on the cost of each of a block's requests by the block before."""
        follows = bool(self.blocks) and self.blocks[-1].variant == VARIANT
        share, half_life = self.cell.carry_over * follows, self.cell.carry_over_half_life
        return (1 + share / 2 ** (number / half_life) for number in count())

    def _earlier_rounds(self, turn: Round) -> int:
        """Return how many rounds the servers have measured since their last start."""
        start = self._first_rounds.setdefault(turn.stage.repetition, turn.number)
        return turn.number - start

    def _server(self, endpoint: Endpoint, repetition: int) -> float:
        starts = {VARIANT: self.starts, CONTROL: self._control_starts}.get(endpoint.variant)
        start = starts[repetition - 1] if starts else 1.0
        return start * (self._second_slot if endpoint.slot else 1.0)

    def truth_of(self, load: ConcurrencyLoad) -> float:
        rounds = {(b.repetition, b.round) for b in self.blocks if b.load == load}
        starts = [self.starts[repetition - 1] for repetition, _ in rounds]
        return self.cell.cost_ratio * math.fsum(starts) / len(starts)


def planted_blocks(cell: Cell, *, rounds: int, seed: int) -> list[BlockResult]:
    """Return the blocks of a simulated run of exactly `rounds` rounds, without a stopping rule."""
    run = PlantedRun(cell, seed)
    (stage,) = stages(planted_spec(cell))
    for number in range(1, rounds + 1):
        classes = frozenset(cell.traffic)
        run.add(Round(stage=stage, load=LOADS[0], number=number, classes=classes))
    return run.blocks


def _start(cell: Cell, generator: random.Random) -> float:
    """Return a random factor, with mean 1, by which a server's start changes the variant's cost."""
    factor = generator.lognormvariate(-(cell.between**2) / 2, cell.between)
    return factor * _rare(cell.slow_starts, generator)


def _rare(event: tuple[float, float], generator: random.Random) -> float:
    """Return a random factor on cost or time, which a rare event makes larger; its mean is 1.

    event: (share, times): with the probability `share`, a request stalls or a server's start is
        slow, and the factor is `times` times as large as otherwise.
    """
    share, times = event
    if not share:
        return 1.0
    return (times if generator.random() < share else 1.0) / (1 + share * (times - 1))


def _prompts(cell: Cell, case: int, generator: random.Random) -> list[PlantedPrompt]:
    def factor(mean: float, spread: float) -> float:
        return mean * generator.lognormvariate(-(spread**2) / 2, spread)

    def one_of(choices: tuple[tuple[float, float], ...]) -> float:
        values, probabilities = zip(*choices, strict=True)
        return float(generator.choices(values, probabilities)[0])

    def ttft_ratio() -> float:
        if cell.ttft_ratios:
            middle = math.exp(math.fsum(p * math.log(value) for value, p in cell.ttft_ratios))
            return one_of(cell.ttft_ratios) / middle * (1 + TTFT_MARGIN)
        return math.exp(generator.gauss(math.log(1 + TTFT_MARGIN), _TTFT_SPREAD / 2))

    def cost_ratio() -> float:
        if cell.gains:
            mean = math.fsum(value * p for value, p in cell.gains)
            return one_of(cell.gains) / mean * cell.cost_ratio
        return factor(cell.decoding_ratio, cell.spread)

    mean_tokens = _MEAN_TOKENS * (cell.tokens_of[case] if cell.tokens_of else 1.0)
    if cell.lengths:
        mean_tokens *= factor(1.0, cell.lengths)

    return [
        PlantedPrompt(
            id=f"case-{case}-{index}",
            tokens=max(8, round(mean_tokens * factor(1.0, _LENGTH_SPREAD))),
            cost_ratio=cost_ratio(),
            ttft_factor=factor(1.0, _TTFT_SPREAD),
            ttft_ratio=ttft_ratio(),
        )
        for index in range(cell.prompts_in(case))
    ]


def _record(
    cell: Cell, side: str, prompt: PlantedPrompt, factor: float, generator: random.Random
) -> RequestRecord:
    if side == VARIANT and cell.time_outs and generator.random() < cell.time_outs:
        return replace(_failed(prompt, -2), timed_out_after_s=_TIMEOUT_S)
    is_error = bool(cell.errors) and generator.random() < cell.errors
    factor *= math.exp(generator.gauss(0, _REQUEST_ERROR))
    if cell.outliers and generator.random() < cell.outliers:
        factor *= 5
    if side == VARIANT:
        factor *= _rare(cell.stalls, generator)
    ratio, ttft_ratio = (prompt.cost_ratio, prompt.ttft_ratio) if side == VARIANT else (1.0, 1.0)
    e2e_s = _BASELINE_S_PER_TOKEN * prompt.tokens * ratio * factor
    if is_error:
        lost_s = generator.random() * e2e_s
        return replace(_failed(prompt, 500), failed_after_s=lost_s)
    if side == VARIANT and cell.failures:
        share, slow = cell.failures, FAILURE_FACTOR
        e2e_s *= (1 - share) / (1 - share + slow * share)
        if generator.random() < share:
            return replace(_failed(prompt, 500), failed_after_s=slow * e2e_s)
    ttft_s = min(_TTFT_S * prompt.ttft_factor * ttft_ratio * factor, e2e_s)
    return RequestRecord(
        error_code=None,
        error_msg="",
        inter_token_latency_s=(e2e_s - ttft_s) / (prompt.tokens - 1),
        ttft_s=ttft_s,
        end_to_end_latency_s=e2e_s,
        number_output_tokens=prompt.tokens,
        request_id=prompt.id,
        prompt_id=prompt.id,
        started_at_unix_s=_START_UNIX_S,
        chunks=prompt.tokens,
        usage_source="every_chunk",
    )


def _failed(prompt: PlantedPrompt, error_code: int) -> RequestRecord:
    return RequestRecord(
        error_code=error_code,
        error_msg="planted",
        request_id=prompt.id,
        prompt_id=prompt.id,
        started_at_unix_s=_START_UNIX_S,
        chunks=0,
        usage_source="none",
    )


def _together(cell: Cell, sent: Iterator[RequestRecord]) -> Iterator[RequestRecord]:
    """Yield a block's measured requests, with their latencies on a server that they share.

    sent: the block's requests, with the latencies that each would have if the server had no other.
    """
    records: list[RequestRecord] = []

    def decoding_s() -> Iterator[float]:
        for record in sent:
            records.append(record)
            yield record.end_to_end_latency_s or 0.0

    measured = cell.sampling.requests_per_round
    latencies = served(
        decoding_s(), prefill_s=_PREFILL_S, in_flight=cell.in_flight, measured=measured
    )
    for record, (ttft_s, e2e_s) in zip(records[cell.in_flight :], latencies, strict=False):
        tokens = record.number_output_tokens or 0
        yield replace(
            record,
            ttft_s=ttft_s,
            end_to_end_latency_s=e2e_s,
            inter_token_latency_s=(e2e_s - ttft_s) / (tokens - 1),
        )


def planted_spec(cell: Cell) -> RunSpec:
    """Return a cell's run specification, for the stopping rule; no requests are sent with it."""
    return RunSpec(
        experiment=CLASS,
        endpoints=tuple(
            _endpoint(name, slot)
            for name, slots in ((BASELINE, (0, 1)), (VARIANT, (1, 0)))
            for slot in slots
        ),
        shape=RequestShape(
            model=CLASS,
            output_tokens=_MEAN_TOKENS,
            fixed_output_length=False,
            temperature=0.0,
            seed=0,
            enable_thinking=False,
            timeout_seconds=_TIMEOUT_S,
        ),
        cases=tuple(_case(cell, index) for index in range(cell.cases)),
        loads=LOADS[: cell.loads],
        load_generator="asyncio",
        sampling=replace(cell.sampling, stop=cell.stop, warmup_requests=cell.warmup_requests),
        parallel=False,
        class_weights=cell.traffic,
        price=None,
        ready_deadline_seconds=None,
        repetitions=cell.repetitions,
        control=cell.control,
    )


def _endpoint(variant: str, slot: int) -> Endpoint:
    return Endpoint(
        variant=variant,
        base_url=f"http://{variant}-{slot}",
        max_tokens_per_step=None,
        is_baseline=variant == BASELINE,
        slot=slot,
        server=f"{variant}-{slot}",
    )


def _case(cell: Cell, index: int) -> Case:
    message = {"role": "user", "content": CLASS}
    prompts = (Prompt(id=f"{n}", messages=(message,)) for n in range(cell.prompts_in(index)))
    return Case(prompt_class=cell.class_of(index), name=f"case-{index}", prompts=tuple(prompts))
