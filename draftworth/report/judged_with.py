"""Says which weights, prices and limits a run was judged with instead of its own."""

from collections.abc import Sequence

from draftworth.decision.judged_anew import ChosenValue
from draftworth.report import words
from draftworth.untrusted import one_line

_PLURALS = {"weight": "weights", "usd_per_hour": "prices", "limit": "limits"}


def kinds(values: Sequence[ChosenValue]) -> str:
    """Return the kinds of chosen values, as in `weights, prices and limits`."""
    *first, last = dict.fromkeys(_PLURALS[value.of] for value in values)
    return f"{', '.join(first)} and {last}" if first else last


def title(values: Sequence[ChosenValue]) -> str:
    """Return the end of a document's title, ` (judged with ...)`; empty without chosen values."""
    return f" (judged with other {kinds(values)} than the run's own)" if values else ""


def sentences(values: Sequence[ChosenValue]) -> tuple[str, ...]:
    """Return a warning that lists all chosen values; empty if there are none."""
    if not values:
        return ()
    each = "; ".join(f"{_named(v)} instead of {_amount(v, v.instead_of)}" for v in values)
    judged = f"Judged with other {kinds(values)} than the run's own: {each}."
    return (
        f"{judged} verdict.json, the mail and draftworth manifests --winner keep the run's own.",
    )


def line(values: Sequence[ChosenValue], *, columns: int) -> str:
    """Return a line that lists the chosen values or, if `columns` do not suffice, their kinds."""
    listed = f"Judged with other {kinds(values)}: {', '.join(map(_named, values))}"
    short = f"Judged with other {kinds(values)} than the run's own: --verbose"
    return listed if len(listed) <= columns else short


def _named(value: ChosenValue) -> str:
    return f"{one_line(value.name, characters=80)} {_amount(value, value.value)}"


def _amount(chosen: ChosenValue, value: float | None) -> str:
    if value is None:
        return "no price" if chosen.of == "usd_per_hour" else "none"
    if chosen.of == "weight":
        return words.share(value)
    return f"{words.dollars(value)} USD/h" if chosen.of == "usd_per_hour" else f"{value:g}"
