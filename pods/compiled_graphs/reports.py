"""A container's reports about its server: in its own log and as a state in the bucket."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from draftworth.records.codec import dump_record
from draftworth.records.servers import ServerPhase, ServerState, server_state_key
from draftworth.untrusted import one_line
from pods.compiled_graphs.prepare import say
from pods.compiled_graphs.scratch import Starts
from pods.compiled_graphs.server_process import LogTail

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

RETRY_SECONDS = 30.0
REASON_CHARACTERS = 1000


class Reports:
    """The reports of one container."""

    def __init__(self, *, server: str, variant: str, pod: str, states: StateReports) -> None:
        self.tail = LogTail()
        self._server = server
        self._variant = variant
        self._pod = pod
        self._states = states

    def say(self, line: str) -> None:
        """Write a line into the container's log and into later states."""
        say(line)
        self.tail.note(line)

    def report(
        self, phase: ServerPhase, starts: Starts, *, exit_code: int | None = None, reason: str = ""
    ) -> None:
        """Report that a phase begins now."""
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
        )
        self._states.report(state)


class StateReports:
    """Puts the newest state from a thread of its own, so that the server never waits for it.

    It tries again and again. A state that is followed by another before it was put is left out. A
    failure is logged once.
    """

    def __init__(
        self,
        put: Callable[[ServerState], None],
        log: Callable[[str], None],
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        self._put = put
        self._log = log
        self._retry_seconds = retry_seconds
        self._newest: ServerState | None = None
        self._tried: ServerState | None = None
        self._changed = threading.Condition()
        self._failed = False
        threading.Thread(target=self._work, daemon=True).start()

    def report(self, state: ServerState) -> None:
        """Have this state put soon."""
        with self._changed:
            self._newest = state
            self._changed.notify_all()

    def flush(self, seconds: float) -> None:
        """Wait until the newest state has been tried once, for so many seconds at most."""
        with self._changed:
            self._changed.wait_for(lambda: self._tried is self._newest, seconds)

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._newest is not self._tried)
                state = self._newest
            while state and not self._is_put(state) and not self._is_followed(state):
                pass
            self._note(state)

    def _is_followed(self, state: ServerState) -> bool:
        """Wait for a newer state or the time of another try; return whether one is newer."""
        self._note(state)
        with self._changed:
            return self._changed.wait_for(lambda: self._newest is not state, self._retry_seconds)

    def _note(self, state: ServerState | None) -> None:
        with self._changed:
            self._tried = state
            self._changed.notify_all()

    def _is_put(self, state: ServerState) -> bool:
        try:
            self._put(state)
        except Exception as error:  # noqa: BLE001 (whatever it was, the server goes on)
            if not self._failed:
                self._log(f"its state cannot be reported: {type(error).__name__}: {error}")
            self._failed = True
            return False
        return True


class StateBucket:
    """A server's access to the results bucket."""

    def __init__(self, bucket: str, region: str) -> None:
        self._bucket = bucket
        self._region = region

    def put(self, state: ServerState) -> None:
        """Put a state over the one before; raise what boto3 raises."""
        self._client.put_object(
            Bucket=self._bucket,
            Key=server_state_key(state.server),
            Body=dump_record(state),
            ContentType="application/json",
        )

    @cached_property
    def _client(self) -> S3Client:
        # Not at the top: a server in an image that lacks it must run all the same.
        import boto3
        from botocore.config import Config

        config = Config(
            connect_timeout=5, read_timeout=10, retries={"mode": "standard", "max_attempts": 2}
        )
        return boto3.client("s3", region_name=self._region, config=config)
