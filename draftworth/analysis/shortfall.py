"""Computes how much more to measure until a ratio's interval is as narrow as requested."""

import math
from dataclasses import dataclass

from draftworth.analysis.statistics import Estimate

# If the part of the width that further rounds cannot reduce is nearly the whole width, they hardly
# help. With 1.1 in its place, runs are shorter and fewer gains are proven (decision 46).
_HARDLY_WIDER = 1.07


@dataclass(frozen=True, kw_only=True)
class Shortfall:
    """How much more to measure until an interval is as narrow as requested.

    requests: number of further requests of the same prompts; 0 if these alone do not suffice.
    prompts, repetitions: number of further prompts and of further repetitions (starts of the
        servers), if more requests do not suffice.
    All are 0 if the interval is narrow enough.
    """

    requests: int = 0
    prompts: int = 0
    repetitions: int = 0

    def __bool__(self) -> bool:
        return bool(self.requests or self.prompts or self.repetitions)


def shortfall(ratio: Estimate | None, *, target_width: float) -> Shortfall | None:
    """Return how much more to measure until a ratio's interval is as narrow as requested.

    The square of the interval's width is a sum of three parts. One part shrinks with the number of
    prompts, one with the number of repetitions, and the rest with the number of rounds. None
    without an interval, or if `target_width` is not above 0.
    target_width: the requested width of the interval / the ratio, such as 0.1.
    """
    width = ratio.relative_width if ratio else None
    if ratio is None or width is None or target_width <= 0:
        return None
    if width <= target_width:
        return Shortfall()
    wanted = target_width**2
    of_prompts = (ratio.prompts_width or 0.0) ** 2
    of_repetitions = ratio.repetitions_width**2
    left = wanted - of_prompts - of_repetitions
    if left > 0:
        needed = ratio.samples * (width**2 - of_prompts - of_repetitions) / left
        return Shortfall(requests=max(1, math.ceil(needed - 1e-9) - ratio.samples))
    # Two parts of the squared width, of the prompts and of the repetitions, have to fit into the
    # squared target together. More prompts shrink the first until it fits beside the second, and
    # more repetitions the second. A part that is above the target by itself has to shrink in any
    # case, so it is not subtracted from what the other may use.
    prompts_fit, repetitions_fit = of_prompts < wanted, of_repetitions < wanted
    for_prompts = wanted - (of_repetitions if repetitions_fit else 0.0)
    for_repetitions = wanted - (of_prompts if prompts_fit else 0.0)
    more_prompts = of_prompts > of_repetitions or not prompts_fit
    more_repetitions = of_repetitions >= of_prompts or not repetitions_fit
    return Shortfall(
        prompts=_more(ratio.prompts, of_prompts / for_prompts) if more_prompts else 0,
        repetitions=_more(ratio.repetitions, of_repetitions / for_repetitions)
        if more_repetitions
        else 0,
    )


def _more(count: int, times: float) -> int:
    return max(1, math.ceil(count * (times - 1) - 1e-9))


def more_rounds_help(ratio: Estimate, *, target_width: float) -> bool:
    """Return whether further rounds of the same prompts make a ratio's interval much narrower.

    Rounds cannot reduce the part of the width that comes from differences between prompts and
    between repetitions. So the result is False if this part alone is as wide as the target or
    wider, and the interval is at most `_HARDLY_WIDER` times as wide as this part.
    target_width: the requested width of the interval / the ratio.
    """
    width = ratio.relative_width
    if width is None or ratio.prompts_width is None:
        return True
    lasting = math.hypot(ratio.prompts_width, ratio.repetitions_width)
    return lasting < target_width or width > lasting * _HARDLY_WIDER
