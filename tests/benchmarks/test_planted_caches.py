"""Worlds with and without a prefix cache: what the table in docs/appendix/calibration.md counts."""

from benchmarks.planted import Cell
from benchmarks.planted_caches import World, outcome_of, table, worlds

CELL = Cell(cost_ratio=1.0, cases=4, spread=0.05)


def test_a_planted_cache_is_always_seen() -> None:
    world = World(name="cache", cell=CELL, sides=("variant",), saved=0.9)
    outcome = outcome_of(world, rounds=4, runs=5)
    assert (outcome.seen, outcome.checked) == (1.0, 0.0)


def test_without_a_cache_a_saving_stays() -> None:
    world = World(name="no cache", cell=Cell(cost_ratio=0.5, cases=4))
    outcome = outcome_of(world, rounds=3, runs=5)
    assert outcome.seen == 0.0
    assert outcome.checked == outcome.unchecked >= 0.8  # 1% of runs seem to warm up


def test_the_table_has_a_line_per_world() -> None:
    some = [*worlds()][:2]
    heading, *lines = table(some, rounds=2, runs=1)
    assert "seen" in heading
    assert [line.startswith(f" {world.name} ") for world, line in zip(some, lines, strict=True)]
