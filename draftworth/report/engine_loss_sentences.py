"""Says what an engine loses of the tokens per step that texts and draft allow, and where.

The figures are computed in `draftworth/analysis/engine_loss.py`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from draftworth.analysis.compared_steps import MARGIN
from draftworth.analysis.engine_loss import LOSS_CONFIDENCE, EngineLoss, EngineVerdict
from draftworth.analysis.lost_where import Contexts, PlaceLoss, PositionLoss, Rounds
from draftworth.report.document import Section, Table, table
from draftworth.report.percent import signed_percent
from draftworth.report.words import ABOUT, MISSING

_INTERVAL = f"{LOSS_CONFIDENCE:.0%} interval"
_MEANINGS = {
    EngineVerdict.LOST: "{lost:.2f} are lost in the engine",
    EngineVerdict.NONE_LOST: f"within {MARGIN:.0%}, none are lost in the engine",
    EngineVerdict.MORE: "more than allowed, so its draft, its window or the count of its steps is "
    "not the one that it is compared with",
    EngineVerdict.OPEN: "whether any are lost in the engine cannot be told",
}


@dataclass(frozen=True, kw_only=True)
class EngineLossFigures:
    """What a variant's engine yields, at one load, of the tokens per step that its texts allow.

    verdict: whether tokens are `lost`, `none lost`, or it is `more` than allowed, or `open`.
    allowed, taken: mean tokens per step. ratio, ratio_low, ratio_high: taken / allowed, and the
        ends of its interval; None: no interval.
    taken_as_allowed: of the `requests`, the number that can have taken exactly the allowed steps.
    summary: the figures in a few words. sentence: all of this in words, with where more is lost.
    """

    variant: str
    load: str
    draft: str
    verdict: str
    allowed: float
    taken: float
    ratio: float
    ratio_low: float | None
    ratio_high: float | None
    requests: int
    taken_as_allowed: int
    summary: str
    sentence: str


def loss_figures(losses: Iterable[EngineLoss]) -> Iterator[EngineLossFigures]:
    """Yield the figures of each loss, the largest loss first."""
    for loss in sorted(losses, key=lambda loss: loss.ratio.value):
        yield EngineLossFigures(
            variant=loss.variant,
            load=loss.load.label,
            draft=loss.draft,
            verdict=loss.verdict,
            allowed=loss.allowed,
            taken=loss.taken,
            ratio=loss.ratio.value,
            ratio_low=loss.ratio.low,
            ratio_high=loss.ratio.high,
            requests=loss.requests,
            taken_as_allowed=loss.taken_as_allowed,
            summary=short_loss(loss),
            sentence=loss_sentence(loss),
        )


def loss_sentence(loss: EngineLoss) -> str:
    """Return in a sentence what a variant's engine loses, and where it loses more."""
    meaning = _MEANINGS[loss.verdict].format(lost=loss.allowed - loss.taken)
    exact = f"{loss.taken_as_allowed} of {loss.requests} requests took exactly the allowed steps"
    whole = (
        f"{loss.label}: this server yields {loss.taken:.2f} tokens per step where these texts "
        f"and this draft ({loss.draft}) allow {loss.allowed:.2f}: {meaning} (difference "
        f"{_with_interval(loss)}; {exact})."
    )
    where = map(_place_sentence, loss.places), map(_position_sentence, loss.positions)
    return " ".join((whole, *chain(*where)))


def short_loss(loss: EngineLoss) -> str:
    """Return what a variant's engine loses, in words for a line of a terminal."""
    lost = f"{1 - loss.ratio.value:.1%} " if loss.verdict is EngineVerdict.LOST else ""
    words = f"{lost}{loss.verdict}"
    return f"{loss.taken:.2f} of the {loss.allowed:.2f} tokens per step that texts allow, {words}"


def _with_interval(loss: EngineLoss) -> str:
    difference, ends = signed_percent(loss.ratio.value - 1), _interval(loss)
    return f"{difference}, no interval" if ends == MISSING else f"{difference}, {_INTERVAL} {ends}"


def _interval(loss: EngineLoss) -> str:
    if loss.ratio.low is None or loss.ratio.high is None:
        return MISSING
    return f"{signed_percent(loss.ratio.low - 1)} to {signed_percent(loss.ratio.high - 1)}"


def _place_sentence(place: PlaceLoss) -> str:
    return (
        f"More is lost {_where_words(place)} than elsewhere: it yields {place.taken:.2f} of "
        f"{place.allowed:.2f}."
    )


def _where_words(place: PlaceLoss) -> str:
    match place.where:
        case Contexts(above=above, most=most):
            return f"at contexts of {above:,.0f} to {most:,.0f} tokens"
        case Rounds(first=first):
            return "in the first round" if first else "in later rounds than the first"


def _position_sentence(loss: PositionLoss) -> str:
    return (
        f"Of its steps that reach draft position {loss.position}, {loss.accepted:.1%} accept the "
        f"drafted token there where {loss.acceptable:.1%} could."
    )


def loss_sections(losses: Sequence[EngineLoss]) -> tuple[Section, ...]:
    """Return the section on what engines lose; empty if no allowed steps were computed."""
    if not losses:
        return ()
    return (
        Section(
            title="Lost in the engine",
            paragraphs=(*map(loss_sentence, losses), ABOUT["engine_loss"]),
            tables=(*_loss_table(losses), *_where_table(losses)),
        ),
    )


def _loss_table(losses: Sequence[EngineLoss]) -> tuple[Table, ...]:
    rows = (
        (
            *(
                loss.variant,
                loss.load.cell,
                loss.draft,
                loss.verdict,
                str(loss.requests),
            ),
            *(str(loss.taken_as_allowed), f"{loss.allowed:.3f}", f"{loss.taken:.3f}"),
            *(signed_percent(loss.ratio.value - 1), _interval(loss)),
        )
        for loss in losses
    )
    headings = (
        *("variant", "load", "draft", "in the engine", "requests", "exactly the allowed steps"),
        *("tokens per step, allowed", "taken", "difference", _INTERVAL),
    )
    return table(headings, rows, names=4, title="Tokens per step, allowed and taken")


_WHERE_HEADINGS = ("variant", "load", "more is lost", "allowed", "taken")


def _where_table(losses: Sequence[EngineLoss]) -> tuple[Table, ...]:
    return table(_WHERE_HEADINGS, _where_rows(losses), names=3, title="Where more is lost")


def _where_rows(losses: Sequence[EngineLoss]) -> Iterator[tuple[str, ...]]:
    for loss in losses:
        for place in loss.places:
            figures = f"{place.allowed:.3f}", f"{place.taken:.3f}"
            yield loss.variant, loss.load.cell, _where_words(place), *figures
        for at in loss.positions:
            where = f"at draft position {at.position}"
            shares = f"{at.acceptable:.1%}", f"{at.accepted:.1%}"
            yield loss.variant, loss.load.cell, where, *shares
