"""Reports of vLLM's container about its server: log lines, and a state in the results bucket."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from draftworth.records.codec import dump_record
from draftworth.records.servers import ServerPhase, ServerState, server_state_key
from draftworth.untrusted import one_line
from pods.compiled_graphs.prepare_graphs import say
from pods.compiled_graphs.scratch_records import Starts
from pods.compiled_graphs.server_process import LogTail

RETRY_SECONDS = 30.0
REASON_CHARACTERS = 1000


@dataclass(kw_only=True)
class Reports:
    """Reports what one container's server does: as log lines, and as states in the bucket.

    A separate thread puts the newest state into the bucket, so that the server never waits, and
    tries again until that succeeds. A state that is replaced before it was put is skipped. Only
    the first failure is logged.
    put: writes a state into the bucket. tail: the last log lines, which become part of a state.
    """

    server: str
    variant: str
    pod: str
    put: Callable[[ServerState], None]
    tail: LogTail = field(default_factory=LogTail)
    _newest: ServerState | None = None
    _tried: ServerState | None = None
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def __post_init__(self) -> None:
        threading.Thread(target=self._work, daemon=True).start()

    def say(self, line: str) -> None:
        say(line)
        self.tail.note(line)

    def report(
        self, phase: ServerPhase, starts: Starts, *, exit_code: int | None = None, reason: str = ""
    ) -> None:
        with self._changed:
            self._newest = ServerState(
                server=self.server,
                variant=self.variant,
                pod=self.pod,
                start=starts.number,
                phase=phase,
                since_unix_s=time.time(),
                exit_code=exit_code,
                last_lines=self.tail.lines(),
                reason=one_line(reason, characters=REASON_CHARACTERS),
                self_test=starts.self_test,
            )
            self._changed.notify_all()

    def flush(self, seconds: float) -> None:
        """Wait at most `seconds` until a try to write the newest state has succeeded or failed."""
        with self._changed:
            self._changed.wait_for(lambda: self._tried is self._newest, seconds)

    def _work(self) -> None:
        retry_seconds, is_logged = None, False
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._newest is not self._tried, retry_seconds)
                state = self._newest
            retry_seconds = None
            try:
                if state:
                    self.put(state)
            except Exception as error:  # noqa: BLE001 (whatever it was, the server goes on)
                retry_seconds = RETRY_SECONDS
                if not is_logged:
                    say(f"its state cannot be reported: {type(error).__name__}: {error}")
                is_logged = True
            with self._changed:
                self._tried = state
                self._changed.notify_all()


def put_state(bucket: str, region: str, state: ServerState) -> None:
    """Replace the server's state in the results bucket; raise what boto3 raises."""
    _client(region).put_object(
        Bucket=bucket,
        Key=server_state_key(state.server),
        Body=dump_record(state),
        ContentType="application/json",
    )


@cache
def _client(region: str) -> Any:
    # Imported here, because a server in an image without boto3 must run too.
    import boto3
    from botocore.config import Config

    config = Config(
        connect_timeout=5, read_timeout=10, retries={"mode": "standard", "max_attempts": 2}
    )
    return boto3.client("s3", region_name=region, config=config)
