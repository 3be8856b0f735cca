"""Planted cells in which a few prompts, blocks, requests or starts decide much of the result."""

from collections.abc import Iterator
from dataclasses import replace

from benchmarks.planted import BOUNDARY, Cell
from draftworth.analysis.verdict import TTFT_MARGIN

_EVEN = Cell(cost_ratio=1.0)
_FOUR = replace(_EVEN, cases=4)
# What prompts have in common is most of the error.
_ALIKE = replace(_EVEN, spread=0.05)
_FEW_STALLS = "64 to 256 requests meet no stall, or too few"
_FEW_PROMPTS = "eight prompts often have none of that kind"
_FEW_STARTS = "four starts often have none of that kind"


def uneven_cells() -> list[Cell]:
    """Return all cells with uneven costs, and a usual one that shows how often a gain is found.

    Each uneven cell comes twice: with a true cost ratio of 1 and with one of `BOUNDARY`.
    """
    shared = (cell for in_flight in (4, 16) for cell in _of_shared_servers(in_flight))
    uneven = (*_of_weights(), *_of_blocks(), *shared, *_of_requests(), *_not_in_the_data())
    power = replace(_FOUR, name="as usual", cost_ratio=0.85)
    return [*(_with_ratio(cell, ratio) for cell in uneven for ratio in (1.0, BOUNDARY)), power]


def _with_ratio(cell: Cell, ratio: float) -> Cell:
    gains = tuple((gain * ratio, share) for gain, share in cell.gains)
    return replace(cell, cost_ratio=ratio, gains=gains)


def _of_weights() -> Iterator[Cell]:
    for cases, prompts in ((4, 8), (4, 4), (3, 2), (6, 2)):
        heavy = (20.0, *[1.0] * (cases - 1))
        cell = replace(_EVEN, cases=cases, prompts=prompts, tokens_of=heavy)
        yield replace(cell, name=f"one case of {cases}x{prompts} has 20 times the tokens")
    for lengths in (1.0, 1.5):
        cell = replace(_EVEN, cases=8, prompts=4, lengths=lengths)
        yield replace(cell, name=f"eight cases, lengths by sigma {lengths}")
    for prompts in (8, 4, 3):
        cell = replace(_EVEN, cases=2, prompts_of=(prompts, 32), weights=(0.95, 0.05))
        yield replace(cell, name=f"weights 95 to 5, the heavy class has {prompts} prompts")


def _of_blocks() -> Iterator[Cell]:
    for error in (0.06, 0.08):
        for cases, prompts in ((4, 8), (2, 16)):
            cell = replace(_ALIKE, cases=cases, prompts=prompts, block_error=error)
            yield replace(cell, name=f"block noise {error:.0%}, {cases}x{prompts}")
    for period in (2, 4, 8):
        cell = replace(_ALIKE, prompts=16, period=period)
        yield replace(cell, name=f"10% with a period of {period} blocks")


def _of_shared_servers(in_flight: int) -> Iterator[Cell]:
    cells = {
        "4x8": _FOUR,
        "one case has 20 times the tokens": replace(_FOUR, tokens_of=(20.0, 1.0, 1.0, 1.0)),
        "drift 30%": replace(_ALIKE, prompts=16, drift=0.3),
        "block noise 6%": replace(_ALIKE, cases=4, block_error=0.06),
    }
    for name, cell in cells.items():
        shared = replace(cell, in_flight=in_flight)
        yield replace(shared, name=f"{in_flight} share a server, {name}")


def _of_requests() -> Iterator[Cell]:
    cell = replace(_FOUR, failures=0.015)
    yield replace(cell, name="1.5% fail after twice their time")
    typical = (1 + TTFT_MARGIN) / 1.5**0.15
    for prompts in (8, 32):
        ratios = ((typical, 0.85), (1.5 * typical, 0.15))
        cell = replace(_ALIKE, prompts=prompts, ttft_ratios=ratios)
        yield replace(cell, name=f"TTFT 1.5 times in 15% of {prompts} prompts")


def _not_in_the_data() -> Iterator[Cell]:
    for share, times in ((0.02, 4), (0.01, 10), (0.005, 20)):
        cell = replace(_FOUR, stalls=(share, times))
        yield replace(cell, name=f"{share:.1%} stall for {times} times", unseen=_FEW_STALLS)
    cell = replace(_EVEN, gains=((1 / 1.3, 0.9), (4 / 1.3, 0.1)))
    yield replace(cell, name="10% of 8 prompts cost 4 times", unseen=_FEW_PROMPTS)
    cell = replace(_ALIKE, cases=4, repetitions=4, slow_starts=(0.25, 1.2))
    yield replace(cell, name="one start in four 20% slower", unseen=_FEW_STARTS)
