"""Counts how often the verdict is right, in simulated runs whose true cost ratio is known.

    python -m benchmarks.calibration [--runs 400] [--processes 2] [--table starts]

`cells.yaml` has the tables. Each row is a cell: the settings of some simulated runs
(`planted.Cell`). For each cell, runs are simulated round by round until the deployed stopping rule
(`Rounds`) ends them, and the deployed verdict judges them. docs/appendix/calibration.md explains
the columns. All random numbers are seeded, so a table is the same each time.
"""

import argparse
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain, product
from pathlib import Path
from statistics import fmean
from typing import Any

import yaml
from rich.console import Console
from rich.table import Table

from benchmarks.planted import BASELINE, BOUNDARY, LOADS, VARIANT, Cell, PlantedRun, planted_spec
from draftworth.analysis import pairing, statistics
from draftworth.analysis.control import without_control
from draftworth.analysis.doubts import NotSteadyYet
from draftworth.analysis.spread import MANY_REPETITIONS
from draftworth.decision import verdict
from draftworth.decision.best_of_many import confidence_of_each
from draftworth.measuring.schedule import stopping_rule
from draftworth.records.judgement import Judgement
from draftworth.report.sentences import rare_sentences


@dataclass(frozen=True, kw_only=True)
class JudgedRun:
    """The verdict of a simulated run at one load, and how many rounds were measured at this load.

    truth: the true cost ratio, averaged over the server starts (repetitions) that were measured.
    """

    comparison: verdict.Comparison
    rounds: int
    truth: float

    def covers(self, truth: float) -> bool | None:
        """Return whether the interval contains the true ratio; None: there is no valid interval."""
        if isinstance(self.comparison.reason, NotSteadyYet):
            return None
        ends = statistics.interval_of(self.comparison.cost_ratio)
        return None if ends is None else ends[0] <= truth <= ends[1]


Column = Callable[[Cell, Sequence[JudgedRun]], str]


def planted_run(cell: Cell, seed: int) -> tuple[JudgedRun, ...]:
    """Simulate a run until the deployed stopping rule ends it; return the verdict at each load."""
    run = PlantedRun(cell, seed)
    run.measure()
    spec = planted_spec(cell)
    looks = stopping_rule(spec).looks(spec)
    measured, control = without_control(run.blocks)
    return tuple(
        JudgedRun(
            comparison=verdict.compare(
                measured,
                pairing.Traffic(weights=cell.traffic, load=load),
                variant=VARIANT,
                baseline=BASELINE,
                control=control,
                confidence=confidence_of_each(1, looks=looks),
            ),
            rounds=len({block.round for block in measured if block.load == load}),
            truth=run.truth_of(load),
        )
        for load in LOADS[: cell.loads]
    )


def outcomes(cell: Cell, runs: int, *, processes: int = 1) -> list[JudgedRun]:
    """Simulate and judge `runs` runs of a cell (a table's row), with the seeds 0, 1, 2, ..."""
    seeds = range(runs)
    if processes == 1:
        return [*chain.from_iterable(planted_run(cell, seed) for seed in seeds)]
    with ProcessPoolExecutor(processes) as pool:
        judged = pool.map(partial(planted_run, cell), seeds, chunksize=10)
        return [*chain.from_iterable(judged)]


TABLES: Mapping[str, Any] = yaml.load(
    Path(__file__).with_name("cells.yaml").read_text(encoding="utf-8"), Loader=yaml.CSafeLoader
)


def cells_of(table: str) -> Iterator[Cell]:
    """Yield a table's cells from `cells.yaml`; a cell is the settings of a row's simulated runs."""
    for group in TABLES[table]["cells"]:
        for chosen in product(*group):
            names = [part["name"] for part in chosen if "name" in part]
            settings = dict(chain.from_iterable(part.items() for part in chosen))
            if settings["cost_ratio"] == "boundary":
                settings["cost_ratio"] = BOUNDARY
            yield Cell(**settings | {"name": ", ".join(names)})


def _share_of(name: Judgement, judged: Sequence[JudgedRun]) -> float:
    return fmean(o.comparison.judgement == name for o in judged)


def _coverage(cell: Cell, judged: Sequence[JudgedRun]) -> float:
    # A run without a valid confidence interval is not counted as wrong.
    return fmean(o.covers(cell.cost_ratio) is not False for o in judged)


def _warning_share(judged: Sequence[JudgedRun]) -> str:
    """Return the share of the conclusive verdicts that warn that a run may miss rare events."""
    decided = [o.comparison for o in judged if o.comparison.judgement != Judgement.INCONCLUSIVE]
    return f"{fmean('may miss' in rare_sentences(c) for c in decided):.3f}" if decided else "-"


def _width(judged: Sequence[JudgedRun]) -> str:
    ratios = [o.comparison.cost_ratio for o in judged]
    widths = sorted((r.relative_width if r else None) or float("inf") for r in ratios)
    return f"{widths[len(widths) // 2]:.0%}"


def _figure(holds: Callable[[JudgedRun], bool | None]) -> Column:
    return lambda _, judged: f"{fmean(holds(o) is True for o in judged):.3f}"


def _judged(name: Judgement) -> Column:
    return _figure(lambda o: o.comparison.judgement == name)


# By a column's heading: the function that returns what the column shows in a row of the table, from
# the row's cell (the settings) and its judged runs.
COLUMNS: Mapping[str, Column] = {
    "world": lambda c, _: c.name,
    "truth": lambda c, _: f"{c.cost_ratio:.3f}",
    "cases": lambda c, _: str(c.cases),
    "prompts": lambda c, _: str(c.prompts),
    "spread": lambda c, _: f"{c.spread:.0%}",
    "drift": lambda c, _: f"{c.drift:.0%}",
    "outliers": lambda c, _: f"{c.outliers:.0%}",
    "errors": lambda c, _: f"{c.errors:.0%}",
    "loads": lambda c, _: str(c.loads),
    "repetitions": lambda c, _: str(c.repetitions),
    "in flight": lambda c, _: str(c.in_flight),
    "slots": lambda c, _: f"{c.slots:.0%}",
    "between": lambda c, _: f"{c.between:.0%}",
    "control": lambda c, _: "yes" if c.control else "no",
    "stop": lambda c, _: c.stop,
    "rounds": lambda _, judged: f"{fmean(o.rounds for o in judged):.1f}",
    "width": lambda _, judged: _width(judged),
    "covers": lambda c, judged: f"{_coverage(c, judged):.3f}",
    "covers these": _figure(lambda o: o.covers(o.truth)),
    "covers any": lambda c, judged: f"{_coverage(c, judged):.3f}",
    "cheaper": _judged(Judgement.CHEAPER),
    "same": _judged(Judgement.NO_DIFFERENCE),
    "more": _judged(Judgement.MORE_EXPENSIVE),
    "open": _judged(Judgement.INCONCLUSIVE),
    "false TTFT": _figure(lambda o: o.comparison.ttft_unchanged),
    "and p95": _figure(lambda o: o.comparison.ttft_p95_unchanged),
    "and clear": _figure(lambda o: o.comparison.clears_floor),
    "says so": lambda _, judged: _warning_share(judged),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Simulate the runs of each table, and print it with a summary; return 0."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=400, help="of each cell (%(default)s)")
    parser.add_argument("--processes", type=int, default=2, help="at once (%(default)s)")
    parser.add_argument("--table", choices=TABLES, action="append", help="default: each")
    arguments = parser.parse_args(argv)
    measure = partial(outcomes, runs=arguments.runs, processes=arguments.processes)
    console = Console(width=160)
    for name in arguments.table or TABLES:
        headings = TABLES[name]["columns"]
        table = Table(*headings, box=None)
        results = []
        for cell in cells_of(name):
            judged = measure(cell)
            results.append((cell, judged))
            table.add_row(*(COLUMNS[heading](cell, judged) for heading in headings))
        console.print(table)
        summary, *lines = _summary_lines(results)
        console.print("\n".join([f"{arguments.runs} runs a cell. {summary}", *lines]))
    return 0


# The targets: the least coverage of the confidence intervals and, by true cost ratio, the largest
# share of false verdicts "cheaper".
_LEAST_COVERAGE = 0.93
_MOST_FALSE = {1.0: 0.03, BOUNDARY: 0.045}


def _why_unseen(cell: Cell) -> str:
    few = cell.repetitions < MANY_REPETITIONS
    starts = "fewer than four repetitions do not show how starts and slots differ"
    return cell.unseen or (starts if few and (cell.between or cell.slots) else "")


def _summary_lines(results: Iterable[tuple[Cell, Sequence[JudgedRun]]]) -> Iterator[str]:
    """Yield a table's summary, and a line for each cell (row) that misses a target.

    The targets are `_LEAST_COVERAGE` and `_MOST_FALSE`. Cells that miss them for a known reason
    (`_why_unseen`) are only counted.
    """
    coverage, false, missed = [], [], []
    unseen: Counter[str] = Counter()
    for cell, judged in results:
        covers, wrong = _coverage(cell, judged), _share_of(Judgement.CHEAPER, judged)
        is_reached = covers >= _LEAST_COVERAGE and wrong <= _MOST_FALSE.get(cell.cost_ratio, 1.0)
        if why := _why_unseen(cell):
            unseen[why] += not is_reached
            continue
        coverage.append(covers)
        if cell.cost_ratio in _MOST_FALSE:
            false.append(wrong)
        if not is_reached:
            place = f"{cell.name or f'{cell.cases}x{cell.prompts}'} at {cell.cost_ratio:.3f}"
            missed.append(f"{place} covers {covers:.3f}, false `cheaper` {wrong:.3f}")
    yield (
        f"Least coverage {min(coverage):.3f}. False `cheaper`: {fmean(false):.3f} on average, "
        f"{max(false):.3f} at most."
    )
    yield from (f"Not reached: {what}." for what in missed)
    yield from (f"Not reached in {cells} cells: {why}." for why, cells in unseen.items() if cells)


if __name__ == "__main__":
    raise SystemExit(main())
