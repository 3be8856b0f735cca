"""Runs at several loads: the higher the load, the slower is the variant."""

from draftworth.decision.facts import RunFacts
from draftworth.records.load_shapes import ConcurrencyLoad, Load
from draftworth.records.results import BlockResult, Price
from tests.draftworth.report import runs


def blocks_at(*loads: Load, classes: tuple[str, ...] = ("structured",)) -> tuple[BlockResult, ...]:
    """Two rounds of every class at each load; the higher the load, the slower is the variant."""
    blocks: list[BlockResult] = []
    for number, load in enumerate(loads):
        for name in classes:
            for make in (runs.make_plain_block, runs.make_drafted_block):
                block = make(len(blocks) + 1, name, load=load)
                factor = 1.0 + (number if make is runs.make_drafted_block else 0)
                blocks.append(runs.slower(block, factor))
    return runs.two_rounds(*blocks)


def in_flight(*counts: int) -> tuple[Load, ...]:
    return tuple(ConcurrencyLoad(concurrency=count) for count in counts)


def facts_at(*counts: int, price: Price | None = None) -> RunFacts:
    blocks = blocks_at(*in_flight(*counts))
    return runs.make_facts(
        runs.make_run(blocks=blocks, class_weights={"structured": 1.0}, price=price)
    )
