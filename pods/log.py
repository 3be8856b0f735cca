"""Writes a pod's log: printable text on standard error."""

import sys

from draftworth.untrusted import printable


def log_line(line: str) -> None:
    """Write a line without buffering, so that the log has it even if the process ends next."""
    print(printable(line), file=sys.stderr, flush=True)  # noqa: T201
