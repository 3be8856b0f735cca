"""The baseline against itself: what two servers differ by of which neither speculates.

Its cost ratio with the interval is the noise floor of a run's verdicts. What `clears` means, and
what happens to a verdict that does not: docs/decisions/0019-between-repetitions.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from draftworth.analysis.limits import why_not_comparable
from draftworth.analysis.pairing import Traffic, paired
from draftworth.analysis.ratios import log_cost_ratio
from draftworth.analysis.statistics import Estimate
from draftworth.records.results import CONTROL, BlockResult, Limits
from draftworth.records.verdict import Judgement


def without_control(
    blocks: Sequence[BlockResult],
) -> tuple[tuple[BlockResult, ...], tuple[BlockResult, ...]]:
    """The blocks that variants are judged by, and those of the control, of both its servers.

    While a control is measured a variant is down, so the baseline's blocks of that time are not
    beside any of its.
    """
    rounds = {_round(block) for block in blocks if block.variant == CONTROL}
    return (
        tuple(block for block in blocks if _round(block) not in rounds),
        tuple(block for block in blocks if _round(block) in rounds),
    )


def _round(block: BlockResult) -> tuple[object, ...]:
    return block.run_id, block.load, block.round


def noise_floor(
    control: Sequence[BlockResult], traffic: Traffic, *, baseline: str, limits: Limits
) -> Estimate | None:
    """What a token costs on the baseline's second server / on its first.

    None: no interval, or of requests that are not comparable.
    """
    if why_not_comparable(control, traffic, limits, (baseline, CONTROL)):
        return None
    pairs = paired(control, traffic, variant=CONTROL, baseline=baseline)
    found = log_cost_ratio(pairs, traffic)
    floor = found.estimate() if found else None
    return floor if floor and floor.low is not None else None


def why_no_floor(
    control: Sequence[BlockResult], traffic: Traffic, *, baseline: str, limits: Limits
) -> str:
    """Why what the control measured of a traffic gives no noise floor; empty if it gives one."""
    if why := why_not_comparable(control, traffic, limits, (baseline, CONTROL)):
        return why
    if noise_floor(control, traffic, baseline=baseline, limits=limits):
        return ""
    return f"its pairs in {traffic.label} give no interval"


def clears(judgement: Judgement, ratio: Estimate | None, floor: Estimate | None) -> bool | None:
    """Whether a verdict's interval lies beyond the noise floor, on the side that it speaks of.

    None of a verdict that is not on the cost, and where there is no interval of either.
    """
    if ratio is None or ratio.low is None or ratio.high is None:
        return None
    if floor is None or floor.low is None or floor.high is None:
        return None
    if judgement == "cheaper per token":
        return ratio.high < floor.low
    return floor.high < ratio.low if judgement == "dearer" else None


def why_not_decided(judgement: Judgement, ratio: Estimate | None, floor: Estimate | None) -> str:
    """Why a verdict on the cost is none beside its noise floor; empty where it may stand.

    Where two servers without speculation are shown to differ, and a variant does not by more, what
    it differs by is no effect of speculation.
    """
    if clears(judgement, ratio, floor) is not False:
        return ""
    if floor is None or floor.low is None or floor.high is None or floor.low <= 1 <= floor.high:
        return ""
    return (
        f", but on a second server without speculation it costs {floor.low - 1:+.1%} to "
        f"{floor.high - 1:+.1%}: so much may be no effect of speculation"
    )
