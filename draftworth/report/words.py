"""Figures as text, the same in the terminal, in Markdown and in HTML."""

from __future__ import annotations

from draftworth.analysis.statistics import Estimate

MISSING = "-"


def number(value: float | None, *, digits: int = 1) -> str:
    """A number, or a dash for one that was not measured."""
    return MISSING if value is None else f"{value:.{digits}f}"


def milliseconds(seconds: float | None, *, digits: int = 1) -> str:
    """Seconds as milliseconds, without the unit."""
    return number(None if seconds is None else seconds * 1e3, digits=digits)


def share(value: float | None) -> str:
    """A part of 1 as per cent."""
    return MISSING if value is None else f"{value:.1%}"


def ratio(estimate: Estimate | None) -> str:
    """A ratio as `1.53x`."""
    return MISSING if estimate is None else f"{estimate.value:.2f}x"


def interval(estimate: Estimate | None, *, scale: float = 1.0, digits: int = 2) -> str:
    """The ends of an interval, as `1.40 to 1.61`."""
    if estimate is None or estimate.low is None or estimate.high is None:
        return MISSING
    return f"{estimate.low * scale:.{digits}f} to {estimate.high * scale:.{digits}f}"


def with_interval_ms(estimate: Estimate | None) -> str:
    """Milliseconds and the interval, as `4.93 (4.80 to 5.01)` or `749 (723 to 797)`."""
    if estimate is None:
        return MISSING
    digits = 2 if estimate.value < 0.01 else 1 if estimate.value < 0.1 else 0
    ends = interval(estimate, scale=1e3, digits=digits)
    value = milliseconds(estimate.value, digits=digits)
    return value if ends == MISSING else f"{value} ({ends})"
