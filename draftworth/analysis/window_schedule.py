"""A schedule of windows by load: the result of a ladder in the form that upstream vLLM takes.

An engine picks the window of each step by its batch, the sequences in it. A client that keeps `c`
requests in flight makes batches of `c`, or of as many as the server decodes at once.
"""

from __future__ import annotations

from collections.abc import Mapping

from draftworth.analysis.winner import Winner, WinnerFigures
from draftworth.records.load import ConcurrencyLoad

# First and last batch size, both included, and the window there; 0: no speculation.
Stretch = tuple[int, int, int]


def window_schedule(
    winner: Winner, windows: Mapping[str, int], *, max_num_seqs: int
) -> tuple[Stretch, ...]:
    """Windows of all batch sizes from 1 to `max_num_seqs`; empty where one window fits all.

    Args:
        windows: of the variants that one server can serve: the winner's method and draft.
        max_num_seqs: the largest batch of the server.

    A batch between two measured loads gets the smaller window of both, one below the lowest what
    that has, and one above the highest none: nobody has shown that it pays. Empty too where fewer
    than two loads were measured, which is no ladder, and where it pays at some lengths of prompts
    only, whatever the load: an engine does not choose by length.
    """
    measured = _measured(winner, windows, max_num_seqs)
    if not winner.speculates or len(measured) < 2:
        return ()
    dense = [_window(measured, batch) for batch in range(1, max_num_seqs + 1)]
    if not any(dense) or set(dense) == {windows[winner.variant]}:
        return ()
    return tuple(_stretches(dense))


def _measured(winner: Winner, windows: Mapping[str, int], most: int) -> dict[int, int]:
    """The window that is shown to be cheapest at each measured batch; 0: none is.

    Where several loads make the same batch, of other lengths of prompts or above what the server
    decodes at once, the smallest of theirs.
    """
    found: dict[int, int] = {}
    for figures in winner.decisive:
        if isinstance(figures.load, ConcurrencyLoad):
            batch = min(figures.load.concurrency, most)
            window = _choice(figures, winner, windows)
            found[batch] = min(window, found.get(batch, window))
    return found


def _choice(figures: WinnerFigures, winner: Winner, windows: Mapping[str, int]) -> int:
    """The cheapest one's window; the winner's where another draft is cheapest and it pays too."""
    if figures.choice not in windows and figures.judgement == "cheaper per token":
        return windows[winner.variant]
    return windows.get(figures.choice, 0)


def _window(measured: Mapping[int, int], batch: int) -> int:
    above = [load for load in measured if load >= batch]
    below = [load for load in measured if load <= batch]
    if not above:
        return 0
    nearest = measured[min(above)]
    return min(nearest, measured[max(below)]) if below else nearest


def _stretches(dense: list[int]) -> list[Stretch]:
    found: list[Stretch] = []
    for batch, window in enumerate(dense, start=1):
        if found and found[-1][2] == window:
            found[-1] = (found[-1][0], batch, window)
        else:
            found.append((batch, batch, window))
    return found
