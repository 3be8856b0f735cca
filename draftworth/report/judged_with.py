"""Says which weights, prices and limits a run was judged with instead of its own."""

from collections.abc import Sequence

from draftworth.decision.judged_anew import ChosenValue
from draftworth.report import words
from draftworth.untrusted import one_line

_PLURALS = {"weight": "weights", "usd_per_hour": "prices", "limit": "limits"}


def kinds(values: Sequence[ChosenValue]) -> str:
    """Return which kinds of values there are, as in `weights, prices and limits`.

    values: those that a run is judged with instead of its own; there is at least one.
    """
    *first, last = dict.fromkeys(_PLURALS[value.of] for value in values)
    return f"{', '.join(first)} and {last}" if first else last


def title(values: Sequence[ChosenValue]) -> str:
    """Return the end of a document's title, ` (judged with ...)`; empty without `values`.

    values: those that a run is judged with instead of its own.
    """
    return f" (judged with other {kinds(values)} than the run's own)" if values else ""


def sentences(values: Sequence[ChosenValue]) -> tuple[str, ...]:
    """Return a warning that lists the values that a run is judged with, and its own values.

    values: those that the run is judged with instead of its own. Without any, the result is empty.
    """
    if not values:
        return ()
    each = "; ".join(f"{_named(v)} instead of {_amount(v, v.instead_of)}" for v in values)
    judged = f"Judged with other {kinds(values)} than the run's own: {each}."
    return (
        f"{judged} verdict.json, the mail and draftworth manifests --winner keep the run's own.",
    )


def line(values: Sequence[ChosenValue], *, columns: int) -> str:
    """Return a line that lists the values that a run is judged with instead of its own.

    If the line would be longer than `columns`, it only names the kinds of these values.
    """
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
