"""The control: two servers without speculation, whose cost ratio is the noise floor of a verdict.

docs/decisions/0019-between-repetitions.md says why a verdict has to clear the noise floor.
"""

from collections.abc import Sequence

from draftworth.analysis.limits import why_not_comparable
from draftworth.analysis.pairing import Traffic
from draftworth.analysis.ratios import cost_ratio
from draftworth.analysis.statistics import Estimate, changes, interval_of
from draftworth.records.judgement import Judgement
from draftworth.records.results import CONTROL, BlockResult, Limits


def without_control(
    blocks: Sequence[BlockResult],
) -> tuple[tuple[BlockResult, ...], tuple[BlockResult, ...]]:
    """Return the blocks that variants are judged by, and all blocks of the control's rounds.

    In those rounds the control is compared with the baseline, and no variant is measured.
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
) -> tuple[Estimate | None, str]:
    """Return the cost ratio control / baseline with its interval, and an empty string.

    control: all blocks of the control's rounds. Without an interval, return None and the reason.
    """
    if why := why_not_comparable(control, traffic, limits, (baseline, CONTROL)):
        return None, why
    floor = cost_ratio(control, traffic, variant=CONTROL, baseline=baseline)
    if interval_of(floor):
        return floor, ""
    return None, f"its pairs in {traffic.label} give no interval"


def clears(judgement: Judgement, ratio: Estimate | None, floor: Estimate | None) -> bool | None:
    """Return whether a verdict clears the noise floor; None: another verdict, or no interval.

    If `cheaper per token`, `ratio`'s interval must be below `floor`'s; if `more expensive`, above.
    """
    own, noise = interval_of(ratio), interval_of(floor)
    if own is None or noise is None:
        return None
    if judgement == Judgement.CHEAPER:
        return own[1] < noise[0]
    return noise[1] < own[0] if judgement == Judgement.MORE_EXPENSIVE else None


def why_not_decided(judgement: Judgement, ratio: Estimate | None, floor: Estimate | None) -> str:
    """Say why the noise floor makes a verdict on the cost inconclusive; empty if it does not.

    If two servers without speculation are shown to differ, a variant that differs by no more than
    they do shows no effect of speculation.
    """
    noise = interval_of(floor)
    if clears(judgement, ratio, floor) is not False or noise is None or noise[0] <= 1 <= noise[1]:
        return ""
    return (
        f", but on a second server without speculation it costs {changes(noise)}: so much may be "
        "no effect of speculation"
    )
