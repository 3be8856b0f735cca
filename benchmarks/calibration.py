"""How often the verdict is right, counted over runs whose truth is known.

    python -m benchmarks.calibration [--runs 400] [--processes 2]

A cell plants a truth (what a token costs with the variant / with the baseline, how much prompts
differ in it, drift of the machine, outliers) and draws runs from it: result files as a load
generator writes them, round by round, until the deployed stopping rule (`Precision`) has enough.
Then the deployed verdict judges, at the moment of stopping. Printed are, of each cell, how often
the interval covers the truth, the verdicts, the rounds it took, and how often a TTFT that is
exactly at its margin is called unchanged. Every draw has a seed: the same table each time.

Cost per token: log-normal in prompts, with the mean planted, so a few prompts gain most or lose
most. Lengths vary by prompt. A block has an error of its own (3%), a request too (2%); drift goes
on from the first block to the last, half of it up and half of it down over runs.
"""

from __future__ import annotations

import argparse
import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice

from rich.console import Console
from rich.table import Table

from draftworth.analysis.pairing import Traffic
from draftworth.analysis.summary import Group
from draftworth.analysis.verdict import INDIFFERENCE, TTFT_MARGIN, Comparison, compare
from draftworth.measuring.precision import Precision
from draftworth.measuring.run_specification import Endpoint, RequestShape, RunSpec, Sampling
from draftworth.records.load import ConcurrencyLoad
from draftworth.records.prompts import Case, Prompt
from draftworth.records.results import BlockResult, RequestRecord

BASELINE, VARIANT, CLASS = "baseline", "variant", "planted"
LOAD = ConcurrencyLoad(concurrency=1)
GROUP = Group(prompt_class=CLASS, load=LOAD)
SAMPLING = Sampling(
    requests_per_round=8,
    min_requests=16,
    max_requests=64,
    target_interval_width=0.1,
    warmup_requests=0,
)
BOUNDARY = 1 / (1 + INDIFFERENCE)
_BLOCK_ERROR, _REQUEST_ERROR, _LENGTH_SPREAD, _TTFT_SPREAD = 0.03, 0.02, 0.4, 0.1
_MESSAGES = ({"role": "user", "content": "planted"},)
_BASELINE_S_PER_TOKEN, _TTFT_S, _TIMEOUT_S = 0.02, 0.2, 300.0


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A planted truth.

    cost_ratio: variant / baseline, in the mean over prompts. gains: planted ratios of prompts with
    their probabilities, in the place of the log-normal ones of `spread`.
    prompts: of each case. drift: in all of a run. outliers: part of the requests of both sides that
    take five times as long. errors: part of both sides' that fail. time_outs: of the variant's.
    """

    cost_ratio: float
    cases: int = 1
    prompts: int = 8
    spread: float = 0.2
    drift: float = 0.0
    outliers: float = 0.0
    errors: float = 0.0
    time_outs: float = 0.0
    gains: tuple[tuple[float, float], ...] = ()
    lengths: tuple[int, ...] = ()
    ttft_ratio: float = 1 + TTFT_MARGIN
    sampling: Sampling = field(default=SAMPLING)

    @property
    def rounds(self) -> int:
        """At most."""
        return self.sampling.max_requests // self.sampling.requests_per_round


@dataclass(frozen=True, kw_only=True)
class PlantedPrompt:
    """What is true of a prompt: output tokens, and its own factors."""

    id: str
    tokens: int
    cost_ratio: float
    ttft_factor: float
    ttft_ratio: float


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a run said, and when it stopped."""

    comparison: Comparison
    rounds: int

    def covers(self, truth: float) -> bool | None:
        """None: it gave no interval."""
        ratio = self.comparison.cost_ratio
        if ratio is None or ratio.low is None or ratio.high is None:
            return None
        return ratio.low <= truth <= ratio.high


def planted_run(cell: Cell, seed: int) -> Outcome:
    """One run of a cell, stopped and judged as a deployed one."""
    generator = random.Random(seed)  # noqa: S311 (reproducible draws, not a secret)
    cases = _cases(cell, generator)
    precision = Precision(spec=planted_spec(cell), progress=lambda _: None)
    blocks: list[BlockResult] = []
    number = 0
    for number, round_blocks in enumerate(_rounds(cell, cases, generator), start=1):
        blocks += round_blocks
        if precision.is_enough(blocks, GROUP, requests=number * cell.sampling.requests_per_round):
            break
    traffic = Traffic.of(GROUP)
    return Outcome(
        comparison=compare(blocks, traffic, variant=VARIANT, baseline=BASELINE), rounds=number
    )


def planted_blocks(cell: Cell, *, rounds: int, seed: int) -> list[BlockResult]:
    """So many rounds of a run of a cell."""
    generator = random.Random(seed)  # noqa: S311 (reproducible draws, not a secret)
    found = islice(_rounds(cell, _cases(cell, generator), generator), rounds)
    return [block for blocks in found for block in blocks]


def outcomes(cell: Cell, runs: int, *, first_seed: int = 0, processes: int = 1) -> list[Outcome]:
    """So many runs of a cell, each with a seed of its own."""
    seeds = range(first_seed, first_seed + runs)
    if processes == 1:
        return [planted_run(cell, seed) for seed in seeds]
    with ProcessPoolExecutor(processes) as pool:
        return [*pool.map(partial(planted_run, cell), seeds, chunksize=10)]


def _cases(cell: Cell, generator: random.Random) -> dict[str, list[PlantedPrompt]]:
    return {_case_name(i): _prompts(cell, i, generator) for i in range(cell.cases)}


def _case_name(case: int) -> str:
    return f"case-{case}"


def _prompts(cell: Cell, case: int, generator: random.Random) -> list[PlantedPrompt]:
    def factor(mean: float, spread: float) -> float:
        return mean * generator.lognormvariate(-(spread**2) / 2, spread)

    def gain() -> float:
        if not cell.gains:
            return factor(cell.cost_ratio, cell.spread)
        ratios, probabilities = zip(*cell.gains, strict=True)
        return float(generator.choices(ratios, probabilities)[0])

    def tokens(index: int) -> int:
        if cell.lengths:
            return cell.lengths[index % len(cell.lengths)]
        return max(8, round(300 * factor(1.0, _LENGTH_SPREAD)))

    return [
        PlantedPrompt(
            id=f"case-{case}-{index}",
            tokens=tokens(index),
            cost_ratio=gain(),
            ttft_factor=factor(1.0, _TTFT_SPREAD),
            ttft_ratio=math.exp(generator.gauss(math.log(cell.ttft_ratio), _TTFT_SPREAD / 2)),
        )
        for index in range(cell.prompts)
    ]


def _rounds(
    cell: Cell, cases: dict[str, list[PlantedPrompt]], generator: random.Random
) -> Iterator[list[BlockResult]]:
    """Blocks in the deployed order (ABBA), drifting from the first to the last there may be."""
    drift = cell.drift * generator.choice((-1, 1))
    last = cell.rounds * len(cases) * 2
    numbers = iter(range(last))
    per_round = cell.sampling.requests_per_round
    for number in range(1, cell.rounds + 1):
        blocks = []
        for index, (case, prompts) in enumerate(cases.items()):
            first = (number - 1) * per_round
            chosen = [prompts[(first + i) % len(prompts)] for i in range(per_round)]
            sides = (BASELINE, VARIANT) if (index + number) % 2 else (VARIANT, BASELINE)
            for side in sides:
                block = next(numbers)
                factor = math.exp(drift * block / last + generator.gauss(0, _BLOCK_ERROR))
                records = (_record(cell, side, p, factor, generator) for p in chosen)
                blocks.append(_block(block, number, case, side, tuple(records)))
        yield blocks


def _record(
    cell: Cell, side: str, prompt: PlantedPrompt, factor: float, generator: random.Random
) -> RequestRecord:
    if side == VARIANT and cell.time_outs and generator.random() < cell.time_outs:
        return _FAILED(prompt_id=prompt.id, error_code=-2, timed_out_after_s=_TIMEOUT_S)
    if cell.errors and generator.random() < cell.errors:
        return _FAILED(prompt_id=prompt.id, error_code=500)
    factor *= math.exp(generator.gauss(0, _REQUEST_ERROR))
    if cell.outliers and generator.random() < cell.outliers:
        factor *= 5
    ratio, ttft_ratio = (1.0, 1.0) if side == BASELINE else (prompt.cost_ratio, prompt.ttft_ratio)
    e2e_s = _BASELINE_S_PER_TOKEN * prompt.tokens * ratio * factor
    ttft_s = min(_TTFT_S * prompt.ttft_factor * ttft_ratio * factor, e2e_s)
    return RequestRecord(
        error_code=None,
        error_msg="",
        inter_token_latency_s=(e2e_s - ttft_s) / (prompt.tokens - 1),
        ttft_s=ttft_s,
        end_to_end_latency_s=e2e_s,
        number_output_tokens=prompt.tokens,
        request_id="planted",
        prompt_id=prompt.id,
        started_at_unix_s=0.0,
        chunks=prompt.tokens,
        usage_source="every_chunk",
    )


_FAILED = partial(
    RequestRecord,
    error_msg="planted",
    request_id="planted",
    started_at_unix_s=0.0,
    chunks=0,
    usage_source="none",
)


def _block(
    block: int, number: int, case: str, side: str, requests: tuple[RequestRecord, ...]
) -> BlockResult:
    return BlockResult(
        run_id="planted",
        experiment="planted",
        variant=side,
        prompt_class=CLASS,
        case=case,
        round=number,
        block=block,
        model="planted",
        load=LOAD,
        started_at_unix_s=0.0,
        ended_at_unix_s=1.0,
        warmup_requests=0,
        speculation=None,
        server=None,
        event_loop_lag_s=None,
        requests=requests,
    )


def planted_spec(cell: Cell) -> RunSpec:
    """What the stopping rule looks at; nothing is sent."""
    return RunSpec(
        experiment="planted",
        endpoints=tuple(
            Endpoint(variant=name, base_url="", max_tokens_per_step=1, is_baseline=name == BASELINE)
            for name in (BASELINE, VARIANT)
        ),
        shape=RequestShape(
            model="planted",
            output_tokens=300,
            fixed_output_length=False,
            temperature=0.0,
            seed=0,
            enable_thinking=False,
            timeout_seconds=_TIMEOUT_S,
        ),
        cases=tuple(
            Case(
                prompt_class=CLASS,
                name=_case_name(case),
                prompts=tuple(Prompt(id=str(i), messages=_MESSAGES) for i in range(cell.prompts)),
            )
            for case in range(cell.cases)
        ),
        loads=(LOAD,),
        load_generator="asyncio",
        sampling=cell.sampling,
        parallel=False,
        class_weights={CLASS: 1.0},
        price=None,
        ready_deadline_seconds=None,
    )


def cells() -> list[Cell]:
    """The table: layouts of prompts by spread and drift, at the truths where a verdict may turn."""
    layouts = ((1, 6), (1, 8), (4, 8), (1, 16), (2, 32), (1, 64))
    grid = [
        Cell(cost_ratio=truth, cases=n, prompts=prompts, spread=spread, drift=drift)
        for n, prompts in layouts
        for spread, drift in ((0.05, 0.3), (0.2, 0.0), (0.4, 0.3))
        for truth in (1.0, BOUNDARY)
    ]
    middle = Cell(cost_ratio=1.0, cases=4)
    others = [replace(middle, cost_ratio=truth) for truth in (1 / 3, 0.8, 1.25)]
    others += [replace(middle, outliers=0.02), replace(middle, errors=0.01)]
    # Prompts of two kinds, one of which pays for the other; and cases that are themselves drawn.
    others += [
        replace(middle, cost_ratio=0.3 * 0.4 + 0.7 * 1.2, gains=((0.4, 0.3), (1.2, 0.7))),
        replace(middle, cases=8, prompts=4),
    ]
    return [*grid, *others]


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=400, help="of each cell (%(default)s)")
    parser.add_argument("--processes", type=int, default=2, help="at once (%(default)s)")
    arguments = parser.parse_args(argv)
    table = Table(
        *("truth", "cases", "prompts", "spread", "drift", "outliers", "errors", "rounds", "covers"),
        *("cheaper", "same", "dearer", "open", "false TTFT", "and p95"),
        box=None,
    )
    worst_coverage, false_cheaper = 1.0, []
    for cell in cells():
        found = outcomes(cell, arguments.runs, processes=arguments.processes)
        judged = Counter(o.comparison.judgement for o in found)
        coverage = share([o.covers(cell.cost_ratio) is True for o in found])
        worst_coverage = min(worst_coverage, coverage)
        if cell.cost_ratio in (1.0, BOUNDARY):
            false_cheaper.append(judged["cheaper per token"] / len(found))
        ttft = share([o.comparison.ttft_unchanged is True for o in found])
        tail = share([o.comparison.ttft_p95_unchanged is True for o in found])
        table.add_row(
            *(f"{cell.cost_ratio:.3f}", str(cell.cases), str(cell.prompts)),
            *(f"{value:.0%}" for value in (cell.spread, cell.drift, cell.outliers, cell.errors)),
            f"{sum(o.rounds for o in found) / len(found):.1f}",
            f"{coverage:.3f}",
            *(
                f"{judged[name] / len(found):.3f}"
                for name in ("cheaper per token", "no difference", "dearer", "inconclusive")
            ),
            *(f"{ttft:.3f}", f"{tail:.3f}"),
        )
    console = Console(width=140)
    console.print(table)
    mean = sum(false_cheaper) / len(false_cheaper)
    console.print(
        f"{arguments.runs} runs a cell. Least coverage {worst_coverage:.3f}. False `cheaper`: "
        f"{mean:.3f} on average, {max(false_cheaper):.3f} at most."
    )
    return 0


def share(answers: Sequence[bool]) -> float:
    """The part that is true.

    Raises:
        ValueError: there are none.
    """
    if not answers:
        raise ValueError("no runs: a share of nothing is not 0")
    return sum(answers) / len(answers)


if __name__ == "__main__":
    raise SystemExit(main())
