"""Computes how many of the tokens per step that texts and draft allow an engine does not yield.

Speculation is lossless, so an engine that accepts too few drafted tokens is only slow, and no check
of its outputs notices. But an output and its draft determine the fewest steps that can yield it
(`records/allowed_steps.py`). A draft proposes one token for each position; where it is rejected,
the target yields another token (Leviathan et al. 2023, section 2.3). So a drafted token that the
output has was acceptable, in a sampled output too. The allowed steps are thus known for each
request, not only on average, and stand beside the steps that the same request took. Texts differ
much in what they allow and engines little in what they lose, so this makes the interval narrow.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from draftworth.analysis.compared_steps import (
    MARGIN,
    ComparedRequest,
    compared_requests,
    log_taken_to_allowed,
    tokens_per_step,
)
from draftworth.analysis.likelihood_check import FALSE_ALARMS
from draftworth.analysis.lost_where import PlaceLoss, PositionLoss, lost_where
from draftworth.analysis.statistics import Estimate
from draftworth.records.load_shapes import Load
from draftworth.records.run_folder import Run

# The interval of a loss has this confidence, so that at most this share (`FALSE_ALARMS`) of engines
# that lose nothing is said to lose something.
LOSS_CONFIDENCE = 1 - 2 * FALSE_ALARMS


class EngineVerdict(StrEnum):
    """Whether an engine yields the tokens per step that its texts and draft allow.

    NONE_LOST: it does, within `MARGIN`. LOST: it yields fewer.
    MORE: it yields more, so its draft, window or steps are others than those compared with.
    OPEN: it is not shown to differ, and the interval is wider than `MARGIN`, or there is none.
    """

    NONE_LOST = "none lost"
    LOST = "lost"
    MORE = "more"
    OPEN = "open"


@dataclass(frozen=True, kw_only=True)
class EngineLoss:
    """What a variant's engine yields, at one load, of the tokens per step that its texts allow.

    draft: the draft model, or n-gram drafting. requests: number of compared requests.
    taken_as_allowed: number of those that can have taken exactly the allowed steps.
    allowed, taken: mean tokens per step.
    ratio: taken / allowed, with an interval of the confidence `LOSS_CONFIDENCE`.
    by_chunks: whether chunks alone tell the steps. Then a near tie that only the engine accepts
        looks like merged chunks and reads as a loss, so that only more than `MARGIN` is a loss.
    places, positions: where more is lost than elsewhere, and at which draft positions.
    """

    variant: str
    load: Load
    draft: str
    requests: int
    taken_as_allowed: int
    allowed: float
    taken: float
    ratio: Estimate
    by_chunks: bool = False
    places: tuple[PlaceLoss, ...] = ()
    positions: tuple[PositionLoss, ...] = ()

    @property
    def label(self) -> str:
        return f"{self.variant} at {self.load.words}"

    @property
    def verdict(self) -> EngineVerdict:
        low, high = self.ratio.low, self.ratio.high
        if self.taken_as_allowed == self.requests:  # exact, so an interval is not needed
            return EngineVerdict.NONE_LOST
        if low is None or high is None:
            return EngineVerdict.OPEN
        if low >= 1 - MARGIN and high <= 1 + MARGIN:
            return EngineVerdict.NONE_LOST
        if high < 1 - (MARGIN if self.by_chunks else 0):
            return EngineVerdict.LOST
        return EngineVerdict.MORE if low > 1 else EngineVerdict.OPEN


def engine_losses_of(run: Run) -> tuple[EngineLoss, ...]:
    """Return the loss at each load of each variant whose allowed steps the run's folder has."""
    drafts = {
        variant.variant: variant.draft
        for record in run.allowed_steps
        for variant in record.variants
    }
    return tuple(
        loss
        for variant, draft in drafts.items()
        for load, requests in _by_load(run, variant).items()
        if (loss := _loss(variant, load, draft, requests))
    )


def _by_load(run: Run, variant: str) -> Mapping[Load, Sequence[ComparedRequest]]:
    by_load: defaultdict[Load, list[ComparedRequest]] = defaultdict(list)
    for request in compared_requests(run.blocks, variant, run.allowed_steps):
        by_load[request.block.load].append(request)
    return by_load


def _loss(
    variant: str, load: Load, draft: str, requests: Sequence[ComparedRequest]
) -> EngineLoss | None:
    if (ratio := log_taken_to_allowed(requests)) is None:
        return None
    allowed, taken = tokens_per_step(requests)
    places, positions = lost_where(requests)
    return EngineLoss(
        variant=variant,
        load=load,
        draft=draft,
        requests=len(requests),
        taken_as_allowed=sum(request.allowed.taken_as_allowed for request in requests),
        allowed=allowed,
        taken=taken,
        ratio=ratio.estimate(confidence=LOSS_CONFIDENCE),
        by_chunks=any(request.allowed.taken_at_least for request in requests),
        places=places,
        positions=positions,
    )
