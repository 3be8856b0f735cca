"""Whether a winner's traffic has drifted away from what was measured.

One look is a request of each class, or what came in a minute: its tokens a step scatter from prompt
to prompt by a quarter and more, so that a look below break-even means nothing. What is decided on
is the mean of several looks, and that it stays there
(`docs/decisions/0027-the-winner-stays.md` has the false alarms of other rules).
"""

from __future__ import annotations

from collections.abc import Sequence

# Looks that are taken together, and how often in a row they must be below break-even.
LOOKS_TOGETHER = 10
TIMES_IN_A_ROW = 3
# Before so many there is no finding.
LOOKS_NEEDED = LOOKS_TOGETHER + TIMES_IN_A_ROW - 1


def has_drifted(margins: Sequence[float]) -> bool:
    """Of the looks that have a margin, oldest first: speculation costs more than it saves.

    margins: tokens a step in break-evens.
    """
    last = margins[-LOOKS_NEEDED:]
    if len(last) < LOOKS_NEEDED:
        return False
    return all(
        mean_margin(last[first : first + LOOKS_TOGETHER]) < 1 for first in range(TIMES_IN_A_ROW)
    )


def mean_margin(margins: Sequence[float]) -> float:
    """As of looks with equally many tokens: what counts is how many steps they took."""
    return len(margins) / sum(1 / margin for margin in margins)
