"""Which servers run when, and which rounds are measured: the least, then the widest interval."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from draftworth.analysis.summary import Group
from draftworth.measuring import schedule
from draftworth.measuring.precision import Precision
from draftworth.measuring.run_specification import Endpoint, RunSpec
from draftworth.records.load_shapes import ConcurrencyLoad
from tests.support.specifications import case, endpoint, sampling, specification

C1, C2, C4 = (ConcurrencyLoad(concurrency=n) for n in (1, 2, 4))
CLASS = frozenset({"structured"})
PAIR = (endpoint("baseline", 0), endpoint("k7", 1), endpoint("baseline", 1), endpoint("k7", 0))


@dataclass(kw_only=True)
class PlannedPrecision(Precision):
    """Widths that the test chooses, by class and load; they shrink with the rounds measured."""

    widths: dict[tuple[str, str], float]

    def needs_no_more(self, group: Group, *, requests: int) -> bool:
        return self.width(group) / (requests or 1) <= self.spec.sampling.target_interval_width

    def width(self, group: Group) -> float:
        return self.widths.get((group.prompt_class, group.load.label), 0.0)

    def report_missing(self, group: Group) -> None:
        self.progress(group.label)


def rounds_of(
    spec: RunSpec, widths: dict[tuple[str, str], float], progress_lines: list[str] | None = None
) -> list[schedule.Round]:
    lines: list[str] = [] if progress_lines is None else progress_lines
    rounds = schedule.Rounds(
        spec=spec, progress=lines.append, blocks=[], stages=[*schedule.stages(spec)]
    )
    rounds.stopping = PlannedPrecision(spec=spec, progress=lines.append, blocks=[], widths=widths)
    return list(rounds)


def spec(**overrides: Any) -> RunSpec:
    return specification(PAIR, **overrides)


def test_all_is_enough_after_the_least_rounds() -> None:
    rounds = rounds_of(spec(loads=(C1, C2), sampling=sampling(max_requests=40)), {})

    assert [(r.load.label, r.number) for r in rounds] == [
        *(("c1", 1), ("c1", 2)),
        *(("c2", 1), ("c2", 2)),
    ]


def test_widest_intervals_get_the_budgets_rounds() -> None:
    lines: list[str] = []
    widths = {("structured", "c1"): 3.0, ("structured", "c4"): 1e9}
    rounds = rounds_of(spec(loads=(C1, C2, C4), sampling=sampling(max_requests=40)), widths, lines)

    assert Counter(r.load.label for r in rounds) == {"c1": 2, "c2": 2, "c4": 6}
    assert lines == ["structured at one request at a time", "structured at 4 requests at a time"]


def test_a_class_with_narrow_interval_gets_no_more() -> None:
    cases = (case("structured"), case("open_ended"))
    rounds = rounds_of(spec(cases=cases), {("open_ended", "c1"): 1e9})

    assert [sorted(r.classes) for r in rounds] == [
        *[["open_ended", "structured"]] * 2,
        *[["open_ended"]] * 2,
    ]


def test_order_is_random_and_reproducible() -> None:
    (stage,) = schedule.stages(spec())

    def firsts(run_id: str, case: str = "count") -> str:
        rounds = (schedule.Round(stage=stage, load=C1, number=n, classes=CLASS) for n in range(64))
        return "".join(r.order("structured", case, run_id=run_id)[0].variant[0] for r in rounds)

    assert firsts("run-1") == firsts("run-1")
    assert len({firsts("run-1"), firsts("run-2"), firsts("run-1", "repeat")}) == 3
    assert 16 < firsts("run-1").count("b") < 48
    assert len({firsts("run-1")[n : n + 4] for n in range(60)}) == 16, "no pattern is preferred"


def test_each_repetition_has_its_part_of_the_budget() -> None:
    run_spec = spec(repetitions=2, sampling=sampling(min_requests=8, max_requests=32))
    rounds = rounds_of(run_spec, {("structured", "c1"): 1e9})

    assert [(r.stage.repetition, r.number) for r in rounds] == [
        *((1, n) for n in (1, 2, 3, 4)),
        *((2, n) for n in (5, 6, 7, 8)),
    ]


def test_a_control_gets_least_outside_the_budget() -> None:
    run_spec = spec(repetitions=2, control=True, sampling=sampling(max_requests=16))
    rounds = rounds_of(run_spec, {("structured", "c1"): 1e9})

    measured = Counter(r.stage.is_control for r in rounds)
    assert measured == {False: 4, True: 2}
    assert len({r.number for r in rounds}) == len(rounds), "blocks of two rounds would be pairs"


def test_a_repetition_lasts_until_its_part_is_measured() -> None:
    """However narrow the intervals are, each repetition sends its part of the least requests.

    20 requests, in rounds of four, are three rounds in each of two repetitions.
    """
    run_spec = spec(repetitions=2, sampling=sampling(min_requests=20, max_requests=40))

    assert [r.stage.repetition for r in rounds_of(run_spec, {})] == [1, 1, 1, 2, 2, 2]


@pytest.mark.parametrize(("repetitions", "control"), [(1, False), (2, False), (2, True)])
def test_planned_blocks_are_those_of_extreme_runs(repetitions: int, control: bool) -> None:
    of = spec(
        loads=(C1, C2),
        repetitions=repetitions,
        control=control,
        sampling=sampling(max_requests=60),
    )
    planned = schedule.planned_blocks(of)
    classes = {"structured": 1e9}
    widest = {(name, load.label): width for name, width in classes.items() for load in of.loads}

    def blocks(widths: dict[tuple[str, str], float]) -> int:
        return sum(len(r.stage.measured) * len(of.cases) for r in rounds_of(of, widths))

    assert (blocks({}), blocks(widest)) == (planned.least, planned.most)
    assert planned.least < planned.most


def slots(endpoints: Sequence[Endpoint]) -> list[tuple[str, int | None]]:
    return [(e.variant, e.slot) for e in endpoints]


def test_two_variants_swap_slots_every_second_repetition() -> None:
    stages = [*schedule.stages(spec(repetitions=3))]

    assert [slots(stage.measured) for stage in stages] == [
        [("baseline", 0), ("k7", 1)],
        [("baseline", 1), ("k7", 0)],
        [("baseline", 0), ("k7", 1)],
    ]
    assert all(stage.running == stage.measured for stage in stages)


def test_a_third_variant_stays_up_during_the_control() -> None:
    three = (
        *(endpoint("baseline", 0), endpoint("k3", 1), endpoint("k7", 2)),
        *(endpoint("baseline", 1), endpoint("k3", 2), endpoint("k7", 0)),
    )
    _, control = schedule.stages(specification(three, control=True))

    assert slots(control.running) == [("baseline", 0), ("k7", 2), ("control", 1)]
    assert slots(control.measured) == [("baseline", 0), ("control", 1)]


@pytest.mark.parametrize(
    ("endpoints", "changes", "message"),
    [
        ((endpoint("baseline", 0, server=""),), {"repetitions": 2}, "no `server` that can be"),
        ((endpoint("baseline", 0, server=""),), {"control": True}, "no `server` that can be"),
        ((endpoint("baseline", 0),), {"control": True}, "two endpoints of the baseline"),
        ((endpoint("baseline", 0),), {"repetitions": 0}, "allowed: 1 or more"),
    ],
)
def test_a_run_that_cannot_be_is_refused(
    endpoints: tuple[Endpoint, ...], changes: dict[str, int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        specification(endpoints, **changes)
