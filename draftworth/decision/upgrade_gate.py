"""Decides whether a change of the servers has made tokens dearer than a margin allows: the gate.

This is a test of non-inferiority: the burden of proof is on the change. `held` says that the
tokens are shown to cost at most the margin more, `not held` that they are shown to cost more than
that, and `undecided` that the runs show neither.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from draftworth.analysis.between_starts import MIN_DEGREES_OF_FREEDOM, CostChange, Side, cost_change
from draftworth.analysis.comparable_runs import Difference, different_prompts, different_work
from draftworth.analysis.doubts import ManyFailed
from draftworth.analysis.limits import why_not_comparable
from draftworth.analysis.pairing import Traffic
from draftworth.analysis.prefix_cache import ColdEvidence, why_not_cold
from draftworth.analysis.spread import half_width_of
from draftworth.analysis.statistics import ends_of_ratio
from draftworth.decision.best_of_many import confidence_of_each
from draftworth.decision.facts import weights_of
from draftworth.decision.reasons import Reason
from draftworth.metrics.definitions import slot_usd_per_second
from draftworth.records.results import Limits
from draftworth.records.run_folder import Run

# Of an interval with this confidence, each end is wrong in 2% of runs.
CONFIDENCE = 0.96


class Word(StrEnum):
    """What the runs show of the margin: kept, exceeded, or neither."""

    HELD = "held"
    NOT_HELD = "not held"
    UNDECIDED = "undecided"


class NotSameWorkError(Exception):
    """Raised if the candidate's run did other work than the baseline's. See `differences`."""

    def __init__(self, differences: Sequence[Difference]) -> None:
        self.differences = tuple(differences)
        super().__init__(self.differences)


class NothingToJudgeError(Exception):
    """Raised if no server is in both runs, or no load has a cost per token."""


class NotMeasuredWellError(Exception):
    """Raised if a run's figures are not believed. doubt: why. run_id: the run's id."""

    def __init__(self, run_id: str, doubt: Reason) -> None:
        self.run_id, self.doubt = run_id, doubt
        super().__init__(run_id, doubt)


@dataclass(frozen=True, kw_only=True)
class GateRow:
    """One server at one load, before and after the change.

    change: how its cost differs; None: the cost is not known on one side.
    margin: the share by which a token may cost more.
    confidence: that of the interval (0 to 1), higher where several rows are judged: each could be
        dearer by chance.
    failed: too many of the candidate's requests failed; None: they did not.
    """

    variant: str
    traffic: Traffic
    change: CostChange | None
    margin: float
    confidence: float
    failed: ManyFailed | None = None

    @property
    def ratio(self) -> float | None:
        """The cost of a token with the candidate / with the baseline."""
        return math.exp(self.change.log_ratio) if self.change else None

    @property
    def interval(self) -> tuple[float, float] | None:
        half = self.change.half_width(self.confidence) if self.change else None
        if self.ratio is None or half is None:
            return None
        low, high = ends_of_ratio(self.ratio, half)
        return None if low is None or high is None else (low, high)

    @property
    def word(self) -> Word:
        if self.failed:
            return Word.NOT_HELD
        if self.interval is None:
            return Word.UNDECIDED
        low, high = self.interval
        if high <= 1 + self.margin:
            return Word.HELD
        return Word.NOT_HELD if low > 1 + self.margin else Word.UNDECIDED

    @property
    def lacks_starts(self) -> int:
        """How many more runs of the baseline it takes until starts can be judged; 0: enough."""
        if self.change is None:
            return 0
        return max(0, MIN_DEGREES_OF_FREEDOM + 2 - sum(self.change.starts))

    @property
    def is_wide_by_starts(self) -> bool:
        """Whether more starts would make the interval narrower, and not more rounds alone."""
        if self.change is None or not self.change.between:
            return False
        return half_width_of(self.change.between, self.confidence) == self.change.half_width(
            self.confidence
        )


@dataclass(frozen=True, kw_only=True)
class Gate:
    """The answer: one row for each server and load. before, after: the two sides' runs."""

    before: Run
    after: Run
    rows: tuple[GateRow, ...]

    @property
    def word(self) -> Word:
        """All rows must hold; one that does not decides."""
        words = {row.word for row in self.rows}
        for word in (Word.NOT_HELD, Word.UNDECIDED):
            if word in words:
                return word
        return Word.HELD


def gate(before: Run, after: Run, *, margin: float) -> Gate:
    """Judge whether a token costs at most `margin` (a share) more in the second run.

    before, after: each may be several runs that were pooled, and each of them is a start of the
    servers. Raise NotSameWorkError, NothingToJudgeError or NotMeasuredWellError.
    """
    if different := [*different_work(before, after), *different_prompts(before, after)]:
        raise NotSameWorkError(different)
    compared = [*_compared(before, after)]
    if not compared:
        raise NothingToJudgeError
    # That all rows hold needs no wider intervals: each has to. That one of them is dearer does.
    looks = max(run.result.looks for run in (before, after))
    confidence = confidence_of_each(len(compared), looks=looks, of_all=CONFIDENCE)
    return Gate(
        before=before,
        after=after,
        rows=tuple(
            _row(before, after, variant, traffic, margin=margin, confidence=confidence)
            for variant, traffic in compared
        ),
    )


def _compared(before: Run, after: Run) -> Iterator[tuple[str, Traffic]]:
    weights = weights_of(after)
    loads = [b.load for b in after.blocks if b.load.has_cost_per_token]
    loads_before = {b.load for b in before.blocks}
    for load in dict.fromkeys(loads):
        if load in loads_before:
            for variant in after.result.variants:
                if variant in before.result.variants:
                    yield variant, Traffic(weights=weights, load=load)


def _row(
    before: Run, after: Run, variant: str, traffic: Traffic, *, margin: float, confidence: float
) -> GateRow:
    _check(before, variant, traffic)
    failed = _check(after, variant, traffic, may_fail=True)
    prices = [slot_usd_per_second(run.result.price, variant) for run in (before, after)]
    usd = [price or 1.0 for price in prices] if all(prices) else [1.0, 1.0]
    first, second = (
        Side(name=run.result.run_id, blocks=run.blocks, variant=variant, usd_per_second=each)
        for run, each in zip((before, after), usd, strict=True)
    )
    return GateRow(
        variant=variant,
        traffic=traffic,
        change=cost_change(first, second, traffic),
        margin=margin,
        confidence=confidence,
        failed=failed,
    )


def _check(
    run: Run, variant: str, traffic: Traffic, *, may_fail: bool = False
) -> ManyFailed | None:
    """Raise NotMeasuredWellError if the figures of a server are not believed.

    may_fail: whether requests that failed are a result of the run, which is then returned, and not
    a reason to believe nothing of it.
    """
    doubt = why_not_comparable(run.blocks, traffic, Limits(), (variant,))
    if may_fail and isinstance(doubt, ManyFailed):
        return doubt
    evidence = ColdEvidence.in_run(run.result)
    if reason := doubt or why_not_cold(run.blocks, traffic, (variant,), evidence):
        raise NotMeasuredWellError(run.result.run_id, reason)
    return None
