"""What each repetition says alone: beside each other they show what a start of the servers does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from draftworth.analysis.clustering import whole_repetitions
from draftworth.analysis.pairing import paired, repetition_of
from draftworth.analysis.ratios import log_cost_ratio
from draftworth.analysis.statistics import Estimate
from draftworth.analysis.verdict import Comparison, cost_ratio
from draftworth.records.reading import Run
from draftworth.records.results import BlockResult


@dataclass(frozen=True, kw_only=True)
class RepetitionFacts:
    """One variant in one traffic, in one repetition of one run.

    cost_ratio: of this repetition alone, with an interval by prompts and blocks.
    is_whole: it measured every class and case of the traffic; others do not count as repetitions.
    slot, baseline_slot: where both servers ran; None: nobody said.
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


def repetitions_of(run: Run, comparison: Comparison) -> Iterator[RepetitionFacts]:
    """Each repetition that measured the comparison's traffic; nothing where it was one."""
    traffic = comparison.traffic
    wanted = [b for b in run.blocks if b.load == traffic.load and b.prompt_class in traffic.weights]
    ordered = sorted(wanted, key=lambda b: (b.started_at_unix_s, b.block))
    names = dict.fromkeys(repetition_of(block) for block in ordered)
    whole = _whole(ordered, comparison)
    for name in names if len(names) > 1 else ():
        own = [block for block in ordered if repetition_of(block) == name]
        slots = {block.variant: block.slot for block in own}
        yield RepetitionFacts(
            traffic=traffic.name,
            load=traffic.load.label,
            variant=comparison.name,
            run_id=own[0].run_id,
            repetition=own[0].repetition,
            is_whole=whole is None or name in whole,
            slot=slots.get(comparison.variant),
            baseline_slot=slots.get(comparison.baseline),
            cost_ratio=cost_ratio(
                own,
                traffic,
                variant=comparison.variant,
                baseline=comparison.baseline,
                price=run.result.price,
            ),
        )


def _whole(blocks: Sequence[BlockResult], c: Comparison) -> set[str] | None:
    """As the cost ratio of all counts them; None: there is none."""
    pairs = paired(blocks, c.traffic, variant=c.variant, baseline=c.baseline)
    found = log_cost_ratio(pairs, c.traffic)
    return set().union(*whole_repetitions(found.parts).values()) if found else None
