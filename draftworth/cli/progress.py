"""Shows a run's progress on standard error: as lines, and in a terminal as a bar below them."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from draftworth import terminal
from draftworth.measuring.schedule import PlannedBlocks


@dataclass(frozen=True, kw_only=True)
class RunProgress:
    """The progress of one run.

    bar: the progress bar in a terminal; None: standard error is a file or a pipe.
    started_seconds: the run's start (monotonic clock), from which the time at the beginning of each
        line is counted; None: lines have no time.
    """

    bar: Progress | None
    started_seconds: float | None

    def line(self, text: str) -> None:
        """Show a line of text."""
        if self.started_seconds is not None:
            text = f"[{time.monotonic() - self.started_seconds:5.0f} s] {text}"
        if self.bar is None:
            print(text, file=sys.stderr, flush=True)
            return
        console = self.bar.console
        console.print(Text(terminal.escaped(text, console.file)), soft_wrap=True)

    def end(self) -> None:
        """Remove the bar, so that the run's result can be printed in its place."""
        if self.bar:
            self.bar.stop()

    def advanced(self, done: int, planned: PlannedBlocks) -> None:
        """Show that `done` blocks are measured, and how long the remaining ones probably take.

        planned: how many blocks the run measures in all, at least and at most.
        """
        if self.bar is None:
            return
        if not self.bar.tasks:
            # Time is counted from the end of the first block, because before it servers start up.
            self.bar.add_task("", text="", completed=done, begun=(done, time.monotonic()))
        task = self.bar.tasks[0]
        before, since_seconds = task.fields["begun"]
        left = time_left(planned, done, done - before, time.monotonic() - since_seconds)
        text = f"{done} of {planned.words} blocks{left}"
        self.bar.update(task.id, completed=done, total=max(planned.least, done), text=text)


def time_left(planned: PlannedBlocks, done: int, timed: int, took_s: float) -> str:
    """Return how long the remaining blocks take, as `, 2 to 9 min left`; empty if `timed` is 0.

    planned: how many blocks the run measures in all, at least and at most.
    done: the number of measured blocks. timed: how many of them took `took_s` seconds together.
    """
    if not timed:
        return ""
    ends = (took_s / timed * max(0, total - done) / 60 for total in (planned.least, planned.most))
    least, most = (f"{minutes:.0f}" for minutes in ends)
    return f", {least} min left" if least == most else f", {least} to {most} min left"


@contextmanager
def shown_progress(*, with_time: bool = False) -> Iterator[RunProgress]:
    """Show a run's progress in the `with` block; with_time: lines begin with elapsed seconds."""
    started_seconds = time.monotonic() if with_time else None
    console = terminal.console_of(sys.stderr)
    if not console.is_terminal:
        yield RunProgress(bar=None, started_seconds=started_seconds)
        return
    columns = BarColumn(), TextColumn("{task.fields[text]}")
    with Progress(*columns, console=console, transient=True) as bar:
        yield RunProgress(bar=bar, started_seconds=started_seconds)
