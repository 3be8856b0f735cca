"""What could not be observed, and why: nothing may be concluded from it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from draftworth.untrusted import one_line

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Unknown:
    """A part of the observation that failed; nothing may be concluded from it.

    why: the text of the error.
    """

    why: str


def or_unknown(observe_part: Callable[[], T]) -> T | Unknown:
    """Return what `observe_part` returns; `Unknown` with the error's text if it fails."""
    try:
        return observe_part()
    except Exception as error:  # noqa: BLE001 - no object of another program ends the function
        return Unknown(why=one_line(str(error) or type(error).__name__))


def or_default(default: T, observe_part: Callable[[], T]) -> T:
    """Return what `observe_part` returns; `default` if it fails."""
    part = or_unknown(observe_part)
    return default if isinstance(part, Unknown) else part
