"""Computes each repetition's cost ratio."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from draftworth.analysis.pairing import Traffic, paired, repetition_of
from draftworth.analysis.ratios import cost_ratio, log_cost_ratio
from draftworth.analysis.spread import whole_repetitions
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
    run: Run, traffic: Traffic, *, name: str, variant: str, baseline: str, confidence: float
) -> Iterator[RepetitionFacts]:
    """Yield a variant's figures in each repetition that measured the traffic; none if only one did.

    name: the name for `RepetitionFacts.variant`, which says what the variant is compared with if
    the baseline is not the run's. confidence: that of the intervals (0 to 1).
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
                confidence=confidence,
            ),
        )


def _whole(
    blocks: Sequence[BlockResult], traffic: Traffic, variant: str, baseline: str
) -> set[str] | None:
    log_ratio = log_cost_ratio(paired(blocks, traffic, variant=variant, baseline=baseline), traffic)
    return set().union(*whole_repetitions(log_ratio.parts).values()) if log_ratio else None
