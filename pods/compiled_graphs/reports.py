"""What is said of a server: in its container's log, and as its state."""

from __future__ import annotations

import time

from draftworth.records.server_state import GraphsFrom, ServerPhase, ServerState
from draftworth.untrusted import one_line
from pods.compiled_graphs.log_tail import LogTail
from pods.compiled_graphs.prepare import REASON_CHARACTERS, say
from pods.compiled_graphs.starts import Starts
from pods.compiled_graphs.state_reports import StateReports


class Reports:
    """Of one container."""

    def __init__(self, *, server: str, variant: str, pod: str, states: StateReports) -> None:
        self.tail = LogTail()
        self._server = server
        self._variant = variant
        self._pod = pod
        self._states = states
        self._graphs: GraphsFrom | None = None
        self._rejection = ""

    def of(self, graphs: GraphsFrom, rejection: str = "") -> None:
        """Where the graphs of the states to come are from."""
        self._graphs, self._rejection = graphs, rejection

    def say(self, line: str) -> None:
        """A line of the container's log, which the states to come have too."""
        say(line)
        self.tail.note(line)

    def report(
        self, phase: ServerPhase, starts: Starts, *, exit_code: int | None = None, reason: str = ""
    ) -> None:
        """A new phase, since now."""
        state = ServerState(
            server=self._server,
            variant=self._variant,
            pod=self._pod,
            start=starts.number,
            phase=phase,
            since_unix_s=time.time(),
            exit_code=exit_code,
            last_lines=self.tail.lines(),
            reason=one_line(reason, characters=REASON_CHARACTERS),
            graphs=self._graphs,
            rejection=self._rejection,
        )
        self._states.report(state)
