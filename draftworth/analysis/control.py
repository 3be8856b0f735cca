"""Computes a verdict's noise floor: the cost ratio of two servers that both do not speculate.

The control is the baseline on a second server. docs/decisions/0019-between-repetitions.md says why
a variant has to differ from the baseline by more than the control does; `decision/verdict.py`
applies this rule.
"""

from collections.abc import Sequence

from draftworth.analysis.doubts import NoFloorInterval, NotComparable
from draftworth.analysis.limits import why_not_comparable
from draftworth.analysis.pairing import Traffic
from draftworth.analysis.ratios import cost_ratio
from draftworth.analysis.statistics import CONFIDENCE, Estimate, interval_of
from draftworth.records.results import CONTROL, BlockResult, Limits


def without_control(
    blocks: Sequence[BlockResult],
) -> tuple[tuple[BlockResult, ...], tuple[BlockResult, ...]]:
    """Return (the blocks that variants are judged by, all blocks of the control's rounds).

    In the control's rounds, the control (the baseline on a second server) is compared with the
    baseline, and no variant is measured.
    """
    rounds = {_round(block) for block in blocks if block.variant == CONTROL}
    return (
        tuple(block for block in blocks if _round(block) not in rounds),
        tuple(block for block in blocks if _round(block) in rounds),
    )


def _round(block: BlockResult) -> tuple[object, ...]:
    return block.run_id, block.load, block.round


def noise_floor(
    control: Sequence[BlockResult],
    traffic: Traffic,
    *,
    baseline: str,
    limits: Limits,
    confidence: float = CONFIDENCE,
) -> Estimate | NotComparable | NoFloorInterval:
    """Return the cost ratio control / baseline with its interval, or why there is none.

    The control is the baseline on a second server, so this ratio is the noise between two servers.
    control: all blocks of the rounds in which the control was measured, the baseline's included.
    confidence: that of the interval (0 to 1).
    """
    if why := why_not_comparable(control, traffic, limits, (baseline, CONTROL)):
        return why
    floor = cost_ratio(control, traffic, variant=CONTROL, baseline=baseline, confidence=confidence)
    return floor if floor and interval_of(floor) else NoFloorInterval(group=traffic.label)
