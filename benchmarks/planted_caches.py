"""Counts how often a prefix cache is seen in runs whose truth is known, and how often by mistake.

A world is planted in simulated runs (`planted.py`) of servers that count no cached tokens, so TTFT
alone can show it. Every request has a prefill that is `_PREFILLS` times the planted TTFT; a cache
saves a part of it when a prompt is sent again. The table is in docs/appendix/calibration.md:

    python -m benchmarks.planted_caches
"""

import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from benchmarks.planted import BASELINE, GROUP, VARIANT, Cell, planted_blocks
from draftworth.analysis.pairing import Traffic
from draftworth.analysis.prefix_cache import ColdEvidence, why_not_cold
from draftworth.decision.verdict import compare
from draftworth.records.judgement import Judgement
from draftworth.records.results import BlockResult, RequestRecord

RUNS = 300
# A prefill then takes half as long as a mean output: these prompts are long beside their outputs.
_PREFILLS = 15.0
_BOTH = (BASELINE, VARIANT)


@dataclass(frozen=True, kw_only=True)
class World:
    """What is planted in runs beside the cost ratio.

    saved: the share (0 to 1) of a prefill that a cache saves when a prompt is sent again; it is in
        the servers of `sides`. slow_first: factor on every prefill of the first round.
    prefill_noise: standard deviation of the relative random error of a prefill.
    """

    name: str
    cell: Cell
    sides: Collection[str] = ()
    saved: float = 0.0
    slow_first: float = 1.0
    prefill_noise: float = 0.1


def world_blocks(world: World, *, rounds: int, seed: int) -> list[BlockResult]:
    """Return the blocks of a simulated run with what the world plants."""
    generator = random.Random(f"prefills {seed}")  # noqa: S311 (reproducible draws, not a secret)
    seen: set[tuple[str, str, str]] = set()
    blocks = planted_blocks(world.cell, rounds=rounds, seed=seed)
    return [_with_prefills(world, block, seen, generator) for block in blocks]


def _with_prefills(
    world: World, block: BlockResult, seen: set[tuple[str, str, str]], generator: random.Random
) -> BlockResult:
    def with_prefill(record: RequestRecord) -> RequestRecord:
        key = (block.variant, block.case, record.prompt_id)
        is_cached = block.variant in world.sides and key in seen
        seen.add(key)
        slow = world.slow_first if block.round == 1 else 1.0
        noise = max(0.1, 1 + generator.gauss(0, world.prefill_noise))
        ttft_s, e2e_s = record.ttft_s or 0.0, record.end_to_end_latency_s or 0.0
        prefill_s = _PREFILLS * ttft_s * noise * slow * (1 - world.saved * is_cached)
        return replace(record, ttft_s=ttft_s + prefill_s, end_to_end_latency_s=e2e_s + prefill_s)

    return replace(block, requests=tuple(map(with_prefill, block.requests)))


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Shares (0 to 1) of a world's runs.

    seen: the prompts are shown not to have been new. unchecked, checked: the verdict is "cheaper"
    without and with that check.
    """

    seen: float
    unchecked: float
    checked: float


def outcome_of(world: World, *, rounds: int, runs: int) -> Outcome:
    """Simulate a world's runs, and judge each of them without and with the check."""
    caught = unchecked = checked = 0
    for seed in range(runs):
        blocks = world_blocks(world, rounds=rounds, seed=seed)
        judged = partial(compare, blocks, Traffic.of(GROUP), variant=VARIANT, baseline=BASELINE)
        plain, cold = (
            judged(cold=evidence)
            for evidence in (ColdEvidence.NOTHING, ColdEvidence.COUNTS_OR_TTFT)
        )
        evidence = ColdEvidence.COUNTS_OR_TTFT
        caught += why_not_cold(blocks, Traffic.of(GROUP), _BOTH, evidence) is not None
        unchecked += plain.judgement is Judgement.CHEAPER
        checked += cold.judgement is Judgement.CHEAPER
    return Outcome(seen=caught / runs, unchecked=unchecked / runs, checked=checked / runs)


def worlds() -> Iterator[World]:
    """Yield the worlds of the table: servers without a cache first."""
    small = Cell(cost_ratio=1.0, spread=0.05)
    large = replace(small, cases=4)
    for cell, size in ((small, "1x8"), (large, "4x8")):
        yield World(name=f"no cache, {size}", cell=cell)
        noisy = replace(cell, block_error=0.08)
        yield World(name=f"no cache, 8% block noise, {size}", cell=noisy, prefill_noise=0.3)
        yield World(name=f"no cache, 30% drift, {size}", cell=replace(cell, drift=0.3))
        yield World(name=f"90% saved, variant alone, {size}", cell=cell, sides=_BOTH[1:], saved=0.9)
        yield World(name=f"90% saved, both sides, {size}", cell=cell, sides=_BOTH, saved=0.9)
        yield World(name=f"20% saved, both sides, {size}", cell=cell, sides=_BOTH, saved=0.2)
        yield World(name=f"first round 30% slower, {size}", cell=cell, slow_first=1.3)
    saves = replace(large, cost_ratio=0.7)
    yield World(name="no cache, true ratio of decoding 0.7, 4x8", cell=saves)


def table(chosen: Sequence[World], *, rounds: int, runs: int) -> Iterator[str]:
    """Yield the lines of the table."""
    yield f" {'world':<42}  seen   cheaper unchecked  checked"
    for world in chosen:
        o = outcome_of(world, rounds=rounds, runs=runs)
        yield f" {world.name:<42}  {o.seen:.3f}  {o.unchecked:<17.3f}  {o.checked:.3f}"


if __name__ == "__main__":
    for line in table([*worlds()], rounds=4, runs=RUNS):
        print(line)
