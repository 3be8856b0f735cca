"""How often and for how long a pod's server has been tried: a record on the pod's scratch volume.

The volume outlives the pod's containers and goes with the pod, and so does the count: another pod,
as on another node, begins anew. Times are of the node's clock since it was booted, which its
containers share and nobody sets.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from draftworth.records.codec import RecordError, dump_record, load_record
from draftworth.records.files import replace_file
from draftworth.untrusted import TooLargeError, read_file

STARTS_NAME = "starts.json"


@dataclass(frozen=True, kw_only=True)
class Starts:
    """The starts of one pod's server.

    number: of the present start, from 1.
    without_health: starts since the server was last healthy, the present one included. One that was
        killed without a word counts: it is counted when it begins.
    first_at_seconds: when the first of those began.
    cache_missed: restored graphs were not hit; further starts do not try again whether they are.
    given_up: why; empty: it is not.
    """

    number: int
    without_health: int
    first_at_seconds: float
    cache_missed: bool = False
    given_up: str = ""


def begin(scratch: Path, clock: Callable[[], float] = time.monotonic) -> Starts:
    """Count a start; the record as it is now.

    A record that cannot be read counts as none.
    """
    now = clock()
    earlier = _read(scratch) or Starts(number=0, without_health=0, first_at_seconds=now)
    # A clock that went back: the node was booted again.
    first = min(earlier.first_at_seconds, now) if earlier.without_health else now
    begun = replace(
        earlier,
        number=earlier.number + 1,
        without_health=earlier.without_health + 1,
        first_at_seconds=first,
    )
    keep(scratch, begun)
    return begun


def healthy(starts: Starts) -> Starts:
    """The record once the server has answered."""
    return replace(starts, without_health=0)


def keep(scratch: Path, starts: Starts) -> None:
    """Write the record, all of it at once. A disk that is full ends no server."""
    with contextlib.suppress(OSError):
        scratch.mkdir(parents=True, exist_ok=True)
        replace_file(scratch / STARTS_NAME, dump_record(starts))


def _read(scratch: Path) -> Starts | None:
    try:
        found = load_record(Starts, read_file(scratch / STARTS_NAME))
    except (OSError, RecordError, TooLargeError):
        return None
    return found if found.number >= found.without_health >= 0 else None
