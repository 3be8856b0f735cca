"""Builds runs at several loads, in which the variant gets slower from load to load."""

from draftworth.decision.facts import RunFacts
from draftworth.records.load_shapes import ConcurrencyLoad, Load
from draftworth.records.results import BlockResult, Price
from tests.draftworth.report import runs


def blocks_at(*loads: Load, classes: tuple[str, ...] = ("structured",)) -> tuple[BlockResult, ...]:
    """Return two rounds of every class at each load, where the variant gets slower with each load.

    At load n (from 1), the variant's requests take n times as long as usual.
    """
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
