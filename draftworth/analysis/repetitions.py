"""Computes each repetition's cost ratio, and how much more to measure for a narrow interval."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from draftworth.analysis.clustering import whole_repetitions
from draftworth.analysis.pairing import Traffic, paired, repetition_of
from draftworth.analysis.ratios import cost_ratio, log_cost_ratio
from draftworth.analysis.statistics import Estimate
from draftworth.records.results import BlockResult
from draftworth.records.run_folder import Run


@dataclass(frozen=True, kw_only=True)
class RepetitionFacts:
    """One variant in one traffic, in one repetition (one start of the servers) of one run.

    variant: the variant's name; with `against ...` if the baseline is not the run's.
    cost_ratio: the variant's cost of a token / the baseline's, in this repetition only; None: not
        known.
    is_whole: whether the repetition measured every class and case of the traffic.
    slot, baseline_slot: the device slots in which the two servers ran; None: not known.
    """

    traffic: str
    load: str
    variant: str
    run_id: str
    repetition: int
    is_whole: bool
    slot: int | None
    baseline_slot: int | None
    cost_ratio: Estimate | None


def repetitions_of(
    run: Run, traffic: Traffic, *, name: str, variant: str, baseline: str
) -> Iterator[RepetitionFacts]:
    """Yield a variant's figures in each repetition that measured the traffic; none if only one did.

    name: the name for `RepetitionFacts.variant`, which says what the variant is compared with if
    the baseline is not the run's.
    """
    wanted = [b for b in run.blocks if b.load == traffic.load and b.prompt_class in traffic.weights]
    ordered = sorted(wanted, key=lambda b: (b.started_at_unix_s, b.block))
    names = dict.fromkeys(repetition_of(block) for block in ordered)
    whole = _whole(ordered, traffic, variant, baseline)
    for repetition in names if len(names) > 1 else ():
        blocks = [block for block in ordered if repetition_of(block) == repetition]
        slots = {block.variant: block.slot for block in blocks}
        yield RepetitionFacts(
            traffic=traffic.name,
            load=traffic.load.label,
            variant=name,
            run_id=blocks[0].run_id,
            repetition=blocks[0].repetition,
            is_whole=whole is None or repetition in whole,
            slot=slots.get(variant),
            baseline_slot=slots.get(baseline),
            cost_ratio=cost_ratio(
                blocks,
                traffic,
                variant=variant,
                baseline=baseline,
                price=run.result.price,
            ),
        )


def _whole(
    blocks: Sequence[BlockResult], traffic: Traffic, variant: str, baseline: str
) -> set[str] | None:
    log_ratio = log_cost_ratio(paired(blocks, traffic, variant=variant, baseline=baseline), traffic)
    return set().union(*whole_repetitions(log_ratio.parts).values()) if log_ratio else None


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
    wider, and the interval is at most 10% wider than this part.
    target_width: the requested width of the interval / the ratio.
    """
    width = ratio.relative_width
    if width is None or ratio.prompts_width is None:
        return True
    lasting = math.hypot(ratio.prompts_width, ratio.repetitions_width)
    return lasting < target_width or width > lasting * 1.1
