"""What a server says of its starts: ONE definition, for who writes and who reads it.

Written into the results bucket by the program that stays the parent of vLLM, each time something
changed, over what was there: the capacity controller and the measuring pod must learn that a server
will not get healthy, and nobody else can tell them. Standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from draftworth.records.control import CONTROL_PREFIX
from draftworth.untrusted import one_line

SERVERS_FOLDER = f"{CONTROL_PREFIX}serving/"
# Variables that tell the program which server it is.
VARIANT_VARIABLE = "DRAFTWORTH_VARIANT"
SERVER_VARIABLE = "DRAFTWORTH_SERVER"
POD_VARIABLE = "DRAFTWORTH_POD"
# What a server's starts may take, from its pod's first one without health: where there are compiled
# graphs, and where there are none. Then it is given up. `plan` assumes at most 10 for a load; with
# the ten that a node may take to start, one that never ends has cost half an hour.
LOAD_LIMIT_MINUTES = 20
COMPILE_LIMIT_MINUTES = 120
# For who waits for a server that has never answered: the longer of these, and a node that joins and
# pulls its image before the start begins.
START_ALLOWANCE_MINUTES = COMPILE_LIMIT_MINUTES + 10

# Of a server's log: enough for the traceback that ended it.
LAST_LINES = 50

# starting: vLLM runs and has not answered yet. healthy: it has. ended: it is no more, and is
# started again. given_up: it is not worth another start; the nodes may go.
ServerPhase = Literal["starting", "healthy", "ended", "given_up"]


@dataclass(frozen=True, kw_only=True)
class ServerState:
    """`control/serving/SERVER.json`: the last change of one server.

    server: its name, which is its Deployment's; a variant has two where servers start and stop. One
        that was stopped has ended, or was killed and says what it said last: neither means that it
        should run.
    pod: its name; another pod counts its starts anew.
    start: number of this start in its pod, from 1.
    since_unix_s: when the phase began.
    exit_code: of the server, 128 + the number of a signal; None while it runs.
    last_lines: of its log, the newest last.
    reason: why it was given up; empty in every other phase.
    """

    schema: str = "draftworth.server-state/4"
    server: str
    variant: str
    pod: str
    start: int
    phase: ServerPhase
    since_unix_s: float
    exit_code: int | None = None
    last_lines: tuple[str, ...] = ()
    reason: str = ""

    def __post_init__(self) -> None:
        if self.start < 1:
            raise ValueError(f"start: given {self.start}, allowed: 1 or more")
        if bool(self.reason) != (self.phase == "given_up"):
            raise ValueError("reason: there is one exactly where the phase is given_up")


def server_state_key(server: str) -> str:
    """Object key of a server's state."""
    return f"{SERVERS_FOLDER}{server}.json"


def last_lines(log: tuple[str, ...]) -> tuple[str, ...]:
    """The end of a log as a record holds it: printable, each on one line."""
    return tuple(one_line(line) for line in log[-LAST_LINES:])
