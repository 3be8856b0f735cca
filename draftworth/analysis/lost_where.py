"""Finds where an engine loses drafted tokens: in which contexts and rounds, at which positions."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from draftworth.analysis.clustering import Sample
from draftworth.analysis.compared_steps import (
    MARGIN,
    ComparedRequest,
    log_taken_to_allowed,
    tokens_per_step,
)
from draftworth.analysis.spread import spread
from draftworth.analysis.statistics import CONFIDENCE, Estimate


@dataclass(frozen=True)
class Contexts:
    """Requests by their mean context length in tokens: more than `above`, at most `most`."""

    above: float
    most: float


@dataclass(frozen=True)
class Rounds:
    """The first round after each start of the servers, at the load, or all later rounds."""

    first: bool


Where = Contexts | Rounds
_Part = tuple[Where, Sequence[ComparedRequest], Sequence[ComparedRequest]]


@dataclass(frozen=True, kw_only=True)
class PlaceLoss:
    """Requests in which an engine loses more of the allowed tokens per step than in all others.

    allowed, taken: tokens per step of these requests. beside_rest: (taken / allowed of these
        requests) / (taken / allowed of all others); its whole interval is below 1 - `MARGIN`.
    """

    where: Where
    allowed: float
    taken: float
    beside_rest: Estimate


@dataclass(frozen=True, kw_only=True)
class PositionLoss:
    """A draft position (from 1) at which an engine rejects drafted tokens that it should accept.

    acceptable, accepted: of the steps that accepted all drafted tokens before this position, the
        shares (0 to 1) in which the next one is the output's token, and in which it was accepted.
    low, high: the interval of (acceptable - accepted), all of it above `MARGIN`.
    """

    position: int
    acceptable: float
    accepted: float
    low: float
    high: float


def lost_where(
    requests: Sequence[ComparedRequest],
) -> tuple[tuple[PlaceLoss, ...], tuple[PositionLoss, ...]]:
    """Return the places and the draft positions at which more than `MARGIN` is shown to be lost.

    requests: those of a variant at one load.

    The intervals of all places and positions, also of those that are not returned, hold together
    with the confidence `CONFIDENCE` (Bonferroni).
    """
    parts = list(_parts(requests))
    positions = max((len(request.allowed.acceptable) for request in requests), default=0)
    confidence = 1 - (1 - CONFIDENCE) / max(1, len(parts) + positions)
    at_places = (_place_loss(*part, confidence) for part in parts)
    at_positions = (_position_loss(requests, n + 1, confidence) for n in range(positions))
    return tuple(filter(None, at_places)), tuple(filter(None, at_positions))


def _parts(requests: Sequence[ComparedRequest]) -> Iterator[_Part]:
    """Yield parts of the requests, each with all other requests.

    The requests are divided by round and by context length.
    """
    keys: list[Callable[[ComparedRequest], Where]] = [lambda r: Rounds(first=r.is_first)]
    if third_of := _thirds(requests):
        keys.append(third_of)
    for key in keys:
        by_part: defaultdict[Where, list[ComparedRequest]] = defaultdict(list)
        for request in requests:
            by_part[key(request)].append(request)
        if len(by_part) > 1:
            yield from _beside_others(by_part)


def _beside_others(by_part: Mapping[Where, Sequence[ComparedRequest]]) -> Iterator[_Part]:
    for where, there in by_part.items():
        elsewhere = [r for name, part in by_part.items() if name != where for r in part]
        yield where, there, elsewhere


def _thirds(requests: Sequence[ComparedRequest]) -> Callable[[ComparedRequest], Where] | None:
    """Return a function that gives a request's third by context length; None: they are equal."""
    lengths = sorted(r.context_tokens for r in requests if r.context_tokens is not None)
    if len(lengths) < len(requests) or len({*lengths}) < 3:
        return None
    ends = (0.0, *statistics.quantiles(lengths, n=3, method="inclusive"), lengths[-1])
    thirds = [Contexts(above, most) for above, most in pairwise(ends)]
    return lambda request: next(t for t in thirds if (request.context_tokens or 0.0) <= t.most)


def _place_loss(
    where: Where,
    there: Sequence[ComparedRequest],
    elsewhere: Sequence[ComparedRequest],
    confidence: float,
) -> PlaceLoss | None:
    """Return the loss in the requests `there`; None: no more is lost than elsewhere."""
    ratio, ratio_elsewhere = log_taken_to_allowed(there), log_taken_to_allowed(elsewhere)
    if ratio is None or ratio_elsewhere is None:
        return None
    beside = ratio.beside(ratio_elsewhere).estimate(confidence=confidence)
    if beside.high is None or beside.high >= 1 - MARGIN:
        return None
    allowed, taken = tokens_per_step(there)
    return PlaceLoss(where=where, allowed=allowed, taken=taken, beside_rest=beside)


def _position_loss(
    requests: Iterable[ComparedRequest], position: int, confidence: float
) -> PositionLoss | None:
    """Return the loss at a draft position; None: no more than `MARGIN` is shown to be lost."""
    counts = list(_counts_at(requests, position))
    reached = sum(steps for _, steps, _, _ in counts)
    if not reached:
        return None
    acceptable = sum(able for _, _, able, _ in counts) / reached
    accepted = sum(took for _, _, _, took in counts) / reached
    lost = acceptable - accepted
    # As in a ratio of sums (`analysis/ratios.py`), but not of its logarithm, which 0 does not have.
    parts = [
        sample._replace(value=(able - took - lost * steps) / reached, weight=steps / reached)
        for sample, steps, able, took in counts
    ]
    error = spread(parts)
    low = lost - error.half_width(confidence) if error else -math.inf
    if low <= MARGIN:
        return None
    high = 2 * lost - low
    return PositionLoss(
        position=position, acceptable=acceptable, accepted=accepted, low=low, high=high
    )


def _counts_at(
    requests: Iterable[ComparedRequest], position: int
) -> Iterator[tuple[Sample, int, int, int]]:
    """Yield (clusters, steps, acceptable, accepted) of each request at a draft position.

    steps: how many steps reach the position. acceptable, accepted: in how many of these the draft's
    token is the output's, and in how many it was accepted. Requests without counts are left out.
    """
    for request in requests:
        steps = request.allowed
        if len(steps.acceptable) >= position:
            reached, accepted = steps.accepted[position - 1 : position + 1]
            yield request.sample, reached, steps.acceptable[position - 1], accepted
