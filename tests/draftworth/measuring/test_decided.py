"""Whether a class needs another round: not if its verdicts are decided by wider intervals."""

from dataclasses import replace

import pytest

from benchmarks.planted import (
    BASELINE,
    GROUP,
    SAMPLING,
    VARIANT,
    Cell,
    planted_blocks,
    planted_spec,
)
from draftworth.decision.facts import facts_of
from draftworth.measuring.decided import Decided
from draftworth.measuring.precision import Precision
from draftworth.measuring.run_specification import RunSpec
from draftworth.measuring.schedule import stopping_rule
from draftworth.records.results import AS_SHIPPED, Limits
from draftworth.records.run_folder import Run
from tests.support.blocks import make_run
from tests.support.specifications import endpoint

CHEAP = Cell(cost_ratio=0.5, cases=4, spread=0.02, stop="decided")
OPEN = replace(CHEAP, cost_ratio=1 / 1.05, block_error=0.1)


def decided(cell: Cell, *, rounds: int, spec: RunSpec | None = None) -> tuple[Decided, list[str]]:
    lines: list[str] = []
    blocks = planted_blocks(cell, rounds=rounds, seed=1)
    return Decided(spec=spec or planted_spec(cell), progress=lines.append, blocks=blocks), lines


@pytest.mark.parametrize(
    ("cell", "enough"),
    [
        (CHEAP, True),
        (replace(CHEAP, cost_ratio=2.0), True),
        (replace(CHEAP, cost_ratio=1.0, block_error=0.005), True),  # no difference
        (OPEN, False),
    ],
)
def test_a_class_needs_no_more_once_decided(cell: Cell, enough: bool) -> None:
    rule, lines = decided(cell, rounds=4)
    assert rule.needs_no_more(GROUP, requests=32) is enough
    assert rule.is_reached(GROUP) is enough
    assert any("the verdict is decided" in line for line in lines) is enough


def test_the_first_three_rounds_decide_nothing() -> None:
    """Before the fourth round, a server that warms up is not yet seen."""
    rule, _ = decided(CHEAP, rounds=3)
    assert rule.is_reached(GROUP)
    assert not rule.needs_no_more(GROUP, requests=24)
    assert rule.needs_no_more(GROUP, requests=32)


def test_a_server_that_warms_up_ends_no_run() -> None:
    rule, _ = decided(replace(CHEAP, warm_up=0.3), rounds=4)
    assert not rule.needs_no_more(GROUP, requests=32)


def test_it_stops_where_only_other_prompts_help() -> None:
    differing = replace(CHEAP, cost_ratio=0.95, spread=0.8)
    rule, lines = decided(differing, rounds=8)
    assert rule.needs_no_more(GROUP, requests=64)
    assert not rule.is_reached(GROUP)
    assert "more rounds would hardly narrow" in lines[0]
    early, _ = decided(differing, rounds=2)
    assert not early.needs_no_more(GROUP, requests=4)  # not every prompt was sent


def test_what_is_undecided_is_reported() -> None:
    rule, lines = decided(OPEN, rounds=3)
    rule.report_missing(GROUP)
    (line,) = lines
    assert line.startswith(f"{GROUP.label}: {VARIANT} is not decided: ")
    assert "too wide to decide" in line
    decided_rule, none = decided(CHEAP, rounds=3)
    decided_rule.report_missing(GROUP)
    assert none == []


# After two rounds, 95% intervals decide, and the wider ones of a run of five looks do not.
NEAR, NEAR_SEED = replace(CHEAP, cost_ratio=0.8, block_error=0.05), 4


def near_rule(spec: RunSpec, *, seed: int = NEAR_SEED) -> Decided:
    blocks = planted_blocks(NEAR, rounds=2, seed=seed)
    return Decided(spec=spec, progress=lambda _: None, blocks=blocks)


def test_a_look_uses_the_wider_interval() -> None:
    spec = planted_spec(NEAR)
    assert Decided.looks(spec) == 5
    assert not near_rule(spec).is_reached(GROUP)


@pytest.mark.parametrize(("seed", "decides"), [(2, True), (NEAR_SEED, False)])
def test_the_report_decides_what_ends_a_run(seed: int, decides: bool) -> None:
    spec = planted_spec(NEAR)
    rule = near_rule(spec, seed=seed)
    result = make_run(
        variants=(BASELINE, VARIANT), class_weights=NEAR.traffic, looks=Decided.looks(spec)
    )
    facts = facts_of(Run(result=result, blocks=tuple(rule.blocks)), {})
    assert rule.is_reached(GROUP) is decides
    assert facts.decision.is_made is decides


def test_the_only_look_needs_no_wider_interval() -> None:
    spec = planted_spec(replace(NEAR, sampling=replace(SAMPLING, max_requests=16)))
    assert Decided.looks(spec) == 1
    assert near_rule(spec).is_reached(GROUP)


def test_the_best_of_several_loads_needs_more() -> None:
    """The decision is about the best load, so one that looks good by luck must not end its rounds.

    Both runs have five looks at each load.
    """
    several = replace(NEAR, loads=3, sampling=replace(SAMPLING, max_requests=96))
    assert Decided.looks(planted_spec(several)) == 5
    assert near_rule(planted_spec(NEAR), seed=3).is_reached(GROUP)
    assert not near_rule(planted_spec(several), seed=3).is_reached(GROUP)


def test_a_broken_limit_decides() -> None:
    limited = replace(planted_spec(OPEN), limits=Limits(e2e_p95_s=0.001))
    assert decided(OPEN, rounds=8, spec=limited)[0].is_reached(GROUP)
    assert not decided(OPEN, rounds=8)[0].is_reached(GROUP)


def test_the_shipped_baseline_is_not_waited_for() -> None:
    def beside(variant: str) -> RunSpec:
        spec = planted_spec(CHEAP)
        return replace(spec, endpoints=(*spec.endpoints, endpoint(variant, 2)))

    assert decided(CHEAP, rounds=3, spec=beside(AS_SHIPPED))[0].is_reached(GROUP)
    assert not decided(CHEAP, rounds=3, spec=beside("unmeasured"))[0].is_reached(GROUP)


def test_the_specification_chooses_the_rule() -> None:
    assert stopping_rule(planted_spec(CHEAP)) is Decided
    precise = planted_spec(replace(CHEAP, stop="precise"))
    assert stopping_rule(precise) is Precision
    assert Precision.looks(precise) == 1
