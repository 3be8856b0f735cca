"""A pod's log: its standard error, as text only."""

import sys

from draftworth.untrusted import printable


def log_line(line: str) -> None:
    """Write a line at once, so that a log has the last line before an end."""
    print(printable(line), file=sys.stderr, flush=True)  # noqa: T201
