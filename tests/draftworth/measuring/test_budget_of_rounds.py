"""How a budget of rounds is divided, with intervals that are as wide as the test says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchmarks.calibration import Cell, planted_spec
from draftworth.analysis.summary import Group
from draftworth.measuring.precision import Precision
from draftworth.measuring.rounds import Rounds
from draftworth.measuring.run_specification import RunSpec
from draftworth.records.load import ConcurrencyLoad
from draftworth.records.results import BlockResult

SPEC = planted_spec(Cell(cost_ratio=1.0))
LADDER = (ConcurrencyLoad(concurrency=1), ConcurrencyLoad(concurrency=4))


@dataclass(frozen=True, kw_only=True)
class Widths(Precision):
    """Widths by load, whatever was measured; enough is what is narrower than 10%."""

    by_load: dict[str, float]

    def is_enough(self, blocks: Sequence[BlockResult], group: Group, *, requests: int) -> bool:
        return self.by_load[group.load.label] <= 0.1

    def width(self, blocks: Sequence[BlockResult], group: Group) -> float:
        return self.by_load[group.load.label]

    def report_missing(self, blocks: Sequence[BlockResult], group: Group) -> None:
        pass


def order(spec: RunSpec, **by_load: float) -> list[str]:
    precision = Widths(spec=spec, progress=lambda _: None, by_load=by_load)
    return [
        f"{r.stage.repetition}:{r.load.label}"
        for r in Rounds(spec=spec, precision=precision, blocks=[])
    ]


def repeated(budget: int) -> RunSpec:
    """Two repetitions of a ladder; 8 requests a round, 16 at least."""
    sampling = replace(SPEC.sampling, requests_per_round=8, min_requests=16, max_requests=budget)
    servers = tuple(replace(e, server=e.variant) for e in SPEC.endpoints)
    return replace(SPEC, loads=LADDER, sampling=sampling, repetitions=2, endpoints=servers)


def test_narrow_intervals_take_the_least_rounds_in_each_repetition() -> None:
    assert order(repeated(64), c1=0.05, c4=0.05) == ["1:c1", "1:c4", "2:c1", "2:c4"]


def test_the_budget_goes_where_the_interval_is_widest() -> None:
    assert order(repeated(64), c1=0.05, c4=0.3) == [
        *("1:c1", "1:c4", "1:c4", "1:c4"),
        *("2:c1", "2:c4", "2:c4", "2:c4"),
    ]


def test_a_budget_for_one_round_each_is_one_round_each() -> None:
    assert order(repeated(32), c1=0.3, c4=0.3) == ["1:c1", "1:c4", "2:c1", "2:c4"]


def test_a_repetition_goes_on_until_it_has_its_part_of_the_least() -> None:
    """24 requests in rounds of 8 over two repetitions: two rounds each, whatever is known."""
    spec = repeated(64)
    spec = replace(spec, loads=LADDER[:1], sampling=replace(spec.sampling, min_requests=24))

    assert order(spec, c1=0.05) == ["1:c1", "1:c1", "2:c1", "2:c1"]
