"""Measures how low TTFT reads at a request rate if blocks begin on an idle server.

    python -m benchmarks.rate_warmup

It takes some minutes. Requests arrive at random times at a server that decodes some of them at
once; the others wait in a queue. Each block begins on an idle server. The first table compares the
95th percentile of TTFT after a warm-up with that of a server that has been running for long. The
second one counts how often TTFT is shown to rise within the blocks, the third one how often the
deployed rule says that the warm-up is too short, and the fourth one how often the highest rate that
is reported as within the limits is above the true one. docs/appendix/calibration.md explains the
columns. All random numbers are seeded, so a table is the same each time.
"""

import heapq
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice, pairwise, product
from statistics import fmean, stdev

from rich.console import Console
from rich.table import Table

from draftworth.analysis.limits import LIMIT_SHARE, rate_bounds
from draftworth.analysis.statistics import quantile
from draftworth.analysis.student_t import student_t
from draftworth.analysis.summary import Group
from draftworth.analysis.warmup_length import short_warmup
from draftworth.records.load_shapes import PoissonLoad
from draftworth.records.results import BlockResult, Limits, RequestRecord

# The share of the server's seats that requests occupy at each measured rate.
USES = (0.5, 0.7, 0.85, 0.95)
SEATS = (4, 16)
# Warm-up requests of a block, and requests that are measured after them.
BLOCKS = ((1, 8), (8, 8), (16, 8), (32, 8), (64, 8), (64, 16), (256, 16))
HEADINGS = [f"{warmup} + {requests}" for warmup, requests in BLOCKS]
# A prefill's seconds, and the deviation of the logarithm of the seconds that a request decodes, of
# which the mean is 1.
PREFILL_S, DECODING_SPREAD = 0.02, 0.5
MEASURED_PER_RATE = 12_000
# A run measures 512 requests at each rate, because with a few blocks that differ much the interval
# of a 95th percentile is too wide to decide anything.
CASES, REQUESTS_PER_CASE, RUNS = 4, 128, 100
VARIANT = "variant"


def served(
    generator: random.Random, *, per_second: float, seats: int
) -> Iterator[tuple[float, float]]:
    """Yield the TTFT and E2E (in s) of requests without end; the first finds an idle server."""
    free_s = [0.0] * seats
    now_s = 0.0
    while True:
        now_s += generator.expovariate(per_second)
        start_s = max(now_s, free_s[0])
        decoding_s = generator.lognormvariate(-(DECODING_SPREAD**2) / 2, DECODING_SPREAD)
        heapq.heapreplace(free_s, start_s + decoding_s)
        yield start_s - now_s + PREFILL_S, start_s - now_s + decoding_s


def _generator(*cell: float) -> random.Random:
    """Return a source of random numbers that is the same for the same cell of a table."""
    return random.Random(" ".join(map(str, cell)))  # noqa: S311 (reproducible, not a secret)


@cache
def true_p95_s(*, use: float, seats: int) -> float:
    """Return the 95th percentile of TTFT of a server that has been busy for long."""
    busy = served(_generator(seats, use), per_second=use * seats, seats=seats)
    return quantile([ttft_s for ttft_s, _ in islice(busy, 20_000, 420_000)], LIMIT_SHARE)


def measured_p95_s(*, use: float, seats: int, warmup: int, requests: int) -> float:
    """Return the 95th percentile of TTFT over many blocks that begin on an idle server."""
    generator = _generator(seats, use, warmup, requests)
    pooled = [
        ttft_s
        for _ in range(MEASURED_PER_RATE // requests)
        for ttft_s, _ in islice(
            served(generator, per_second=use * seats, seats=seats), warmup, warmup + requests
        )
    ]
    return quantile(pooled, LIMIT_SHARE)


def run_of(seed: int, *, seats: int, warmup: int, requests: int) -> list[BlockResult]:
    """Return the blocks of a simulated run that measures one variant at each rate."""
    generator = _generator(seed, seats, warmup, requests)
    rounds = range(1, REQUESTS_PER_CASE // requests + 1)
    return [
        _block(
            list(islice(served(generator, per_second=use * seats, seats=seats), warmup + requests)),
            PoissonLoad(requests_per_second=use * seats),
            case=f"case-{case}",
            number=number,
            warmup=warmup,
        )
        for use, case, number in product(USES, range(CASES), rounds)
    ]


def _block(
    latencies: Sequence[tuple[float, float]],
    load: PoissonLoad,
    *,
    case: str,
    number: int,
    warmup: int,
) -> BlockResult:
    return BlockResult(
        run_id=VARIANT,
        experiment=VARIANT,
        variant=VARIANT,
        prompt_class=VARIANT,
        case=case,
        round=number,
        block=number,
        model=VARIANT,
        load=load,
        started_at_unix_s=0.0,
        ended_at_unix_s=0.0,
        warmup_requests=warmup,
        speculation=None,
        server=None,
        requests=tuple(
            RequestRecord(
                error_code=None,
                error_msg="",
                ttft_s=ttft_s,
                end_to_end_latency_s=end_to_end_s,
                request_id=f"{case}-{number}-{place}",
                prompt_id=f"{place % 8}",
                started_at_unix_s=0.0,
                chunks=1,
                usage_source="none",
            )
            for place, (ttft_s, end_to_end_s) in enumerate(latencies[warmup:])
        ),
    )


def highest_use_kept(limit_s: float, blocks: Sequence[BlockResult], *, seats: int) -> float:
    """Return which share of seats is in use at the highest rate within the limit; 0: no such rate.

    It is the highest rate that the deployed rules show to be within the limit.
    """
    bounds = rate_bounds(
        blocks, {VARIANT: 1.0}, Limits(ttft_p95_s=limit_s), variant=VARIANT, input_tokens=None
    )
    return ((bounds.kept and bounds.kept.arrivals_per_second) or 0.0) / seats


def limits_alone(blocks: Sequence[BlockResult]) -> list[BlockResult]:
    """Return the blocks as if no warm-up were too short, so that limits alone are judged."""
    return [replace(block, warmup_requests=10**9) for block in blocks]


def p95_table() -> Table:
    """Return the table of p95 TTFT after a warm-up / that of a server that has run for long."""
    table = Table("seats", "use", "true p95", *HEADINGS, box=None)
    for seats, use in product(SEATS, USES):
        truth_s = true_p95_s(use=use, seats=seats)
        shares = (
            measured_p95_s(use=use, seats=seats, warmup=warmup, requests=requests) / truth_s
            for warmup, requests in BLOCKS
        )
        table.add_row(str(seats), f"{use:.0%}", f"{truth_s:.2f} s", *(f"{s:.2f}" for s in shares))
    return table


def judged_tables() -> tuple[Table, Table, Table]:
    """Return the tables of rises within blocks, of warm-ups judged too short, of rates named."""
    rises, too_short = (Table("seats", "use", *HEADINGS, box=None) for _ in range(2))
    named_rates = Table("seats", "true", "limit", *HEADINGS, box=None)
    for seats in SEATS:
        limits_s = _limits_s(seats)
        columns = [_columns(_runs(seats, *block), limits_s, seats=seats) for block in BLOCKS]
        for table, place in ((rises, 0), (too_short, 1)):
            for use, *cells in zip(USES, *(column[place] for column in columns), strict=True):
                table.add_row(str(seats), f"{use:.0%}", *cells)
        for use, *cells in zip(limits_s, *(column[2] for column in columns), strict=True):
            named_rates.add_row(str(seats), f"{use:.0%}", f"{limits_s[use]:.2f} s", *cells)
    return rises, too_short, named_rates


def _limits_s(seats: int) -> dict[float, float]:
    """Return limits on p95 TTFT by the highest use that keeps them.

    Each is half-way (in the logarithm) between the true p95 at this use and at the next one.
    """
    return {
        use: math.sqrt(true_p95_s(use=use, seats=seats) * true_p95_s(use=above, seats=seats))
        for use, above in islice(pairwise(USES), 1, None)
    }


def _runs(seats: int, warmup: int, requests: int) -> list[list[BlockResult]]:
    return [run_of(seed, seats=seats, warmup=warmup, requests=requests) for seed in range(RUNS)]


def _columns(
    runs: Sequence[Sequence[BlockResult]], limits_s: Mapping[float, float], *, seats: int
) -> tuple[list[str], list[str], list[str]]:
    """Return the cells of one kind of block in each table, from the top."""
    return (
        [f"{_rise_share(runs, use * seats):.2f}" for use in USES],
        [f"{_short_share(runs, use * seats):.2f}" for use in USES],
        [_named_counts(runs, use, limit_s, seats=seats) for use, limit_s in limits_s.items()],
    )


def _rise_share(runs: Sequence[Sequence[BlockResult]], per_second: float) -> float:
    """Return the share of runs in which TTFT is shown to rise within the blocks at a rate."""
    load = PoissonLoad(requests_per_second=per_second)
    return sum(rises_within([b for b in run if b.load == load]) for run in runs) / len(runs)


def rises_within(blocks: Sequence[BlockResult]) -> bool:
    """Return whether log TTFT is higher in the blocks' later halves (a one-sided t-test at 1%)."""
    rises = []
    for block in blocks:
        logs = [math.log(record.ttft_s or PREFILL_S) for record in block.requests]
        half = len(logs) // 2
        rises.append(fmean(logs[half:]) - fmean(logs[:half]))
    error = stdev(rises) / math.sqrt(len(rises))
    return fmean(rises) > student_t(0.99, len(rises) - 1) * error


def _short_share(runs: Sequence[Sequence[BlockResult]], per_second: float) -> float:
    group = Group(prompt_class=VARIANT, load=PoissonLoad(requests_per_second=per_second))
    return sum(short_warmup(run, group, VARIANT) is not None for run in runs) / len(runs)


def _named_counts(
    runs: Sequence[Sequence[BlockResult]], use: float, limit_s: float, *, seats: int
) -> str:
    """Return three shares of the runs.

    They are: naming too high a rate by the limits alone; naming too high a rate by the deployed
    rules; naming the true rate by the deployed rules.
    use: that of the highest rate that is truly within the limit.
    """
    alone = [highest_use_kept(limit_s, limits_alone(run), seats=seats) for run in runs]
    now = [highest_use_kept(limit_s, run, seats=seats) for run in runs]
    too_high = [sum(u > use + 0.01 for u in uses) / len(runs) for uses in (alone, now)]
    right = sum(abs(u - use) < 0.01 for u in now) / len(runs)
    return f"{too_high[0]:.2f}, {too_high[1]:.2f}, {right:.2f}"


def main() -> None:
    """Print the four tables."""
    console = Console(width=200)
    console.print(p95_table())
    for table in judged_tables():
        console.print(table)


if __name__ == "__main__":
    main()
