"""How the commands of this package print lines, sizes, durations and times."""

import sys
from collections.abc import Iterable
from datetime import datetime

GIB = 1024**3


def print_lines(lines: Iterable[str]) -> None:
    """Write lines to the standard output."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def size_text(size_bytes: int) -> str:
    """Return a size as `2,000 bytes` or `1.50 GiB`."""
    return f"{size_bytes / GIB:.2f} GiB" if size_bytes >= GIB / 100 else f"{size_bytes:,} bytes"


def duration_text(seconds: float) -> str:
    """Return `41 min`, `3 h` or `12 days`, in the largest unit that gives 2 or more."""
    for unit, length in (("days", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def utc_text(moment: datetime) -> str:
    """Return a time as `2026-03-01 10:20 UTC`; `moment` must be in UTC already."""
    return f"{moment:%Y-%m-%d %H:%M} UTC"
