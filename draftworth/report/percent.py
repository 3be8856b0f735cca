"""Ratios as changes in per cent, rounded so that an interval never promises too much."""

import math


def signed_percent(share: float, *, digits: int = 1) -> str:
    """Return a share in per cent with its sign, as `-38.2%`; without a sign if it rounds to 0."""
    text = f"{share:+.{digits}%}"
    return text if any(digit in text for digit in "123456789") else text[1:]


def changes(ratios: tuple[float, float]) -> str:
    """Return the ends of a ratio's interval as changes in per cent, `-41.0% to -35.1%`."""
    low, high = (signed_percent(ratio - 1) for ratio in ratios)
    return f"{low} to {high}"


# An interval that reaches from half the cost to twice the cost says nothing about it.
SAYS_NOTHING = 2.0
HALF_OR_TWICE = "half or twice as much"


def says_nothing(low: float, high: float) -> bool:
    """Return whether a cost may as well be halved as doubled by a ratio's interval."""
    return low < 1 / SAYS_NOTHING and high > SAYS_NOTHING


def spoken_changes(ratios: tuple[float, float]) -> str:
    """Return the ends of a ratio's interval in words, `35 to 41% less` or `2% less to 3% more`.

    An interval that says nothing gets no figures, which nobody could use.
    """
    if says_nothing(*ratios):
        return HALF_OR_TWICE
    near, far = outwards(ratios)
    low, high = map(direction, ratios)
    return f"{near} to {far}% {low}" if low == high else f"{near}% {low} to {far}% {high}"


def outwards(ratios: tuple[float, float]) -> tuple[int, int]:
    """Return how far the ends of a ratio's interval are from 1, in whole per cent.

    If both ends are above 1 or both below it, the nearer one comes first; else the low end. They
    are rounded so that the interval never promises too much.
    """
    # Rounded first, because a change of 30% may be 30.000000000000004 in floating point.
    low, high = (round(abs(ratio - 1) * 100, 9) for ratio in ratios)
    if direction(ratios[0]) == direction(ratios[1]):
        return math.floor(min(low, high)), math.ceil(max(low, high))
    return math.ceil(low), math.ceil(high)


def direction(ratio: float) -> str:
    """Return `less` for a ratio below 1, else `more`."""
    return "less" if ratio < 1 else "more"
