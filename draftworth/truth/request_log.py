"""The truth server's log: a line of JSON for each request, with everything that the server sent."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from draftworth.untrusted import MIB, read_file

# Ten times the size of the log of the longest comparison in docs/appendix/fidelity.md.
_LIMIT_BYTES = 256 * MIB


class Write(NamedTuple):
    """One write to a client: its due time, the time when the write call returned, and what it held.

    tokens: number of output tokens. text: the bytes that were written, as text. Times are
    nanoseconds of the monotonic clock.
    """

    due_ns: int
    written_ns: int
    tokens: int
    text: str


@dataclass(kw_only=True)
class RequestTruth:
    """The server's record of a request; times are nanoseconds of the monotonic clock.

    prompt: the first characters of the last message, to identify the request.
    arrived_ns: when the kernel had received the request's last bytes. From then until `handled_ns`
        the request waits for the server, so this wait counts as the server's time.
    handled_ns: when the server had read the request; all writes are due relative to this time.
    complete: whether the client was still connected when the last write began.
    """

    prompt: str
    arrived_ns: int
    handled_ns: int
    complete: bool = False
    writes: list[Write] = field(default_factory=list)

    @property
    def line(self) -> bytes:
        writes = [write._asdict() for write in self.writes]
        return json.dumps({**vars(self), "writes": writes}).encode() + b"\n"

    @property
    def chunks(self) -> list[Write]:
        """The writes that contain output tokens."""
        return [write for write in self.writes if write.tokens]

    @property
    def output_tokens(self) -> float:
        return sum(write.tokens for write in self.writes)

    @property
    def ttft_ms(self) -> float:
        return (self.chunks[0].written_ns - self.arrived_ns) / 1e6

    @property
    def e2e_ms(self) -> float:
        return (self.chunks[-1].written_ns - self.arrived_ns) / 1e6

    @property
    def itl_ms(self) -> float | None:
        """Milliseconds per output token after the first chunk; None if there is only one chunk."""
        later = self.output_tokens - self.chunks[0].tokens
        return (self.e2e_ms - self.ttft_ms) / later if later else None

    @property
    def lateness_s(self) -> list[float]:
        return [(chunk.written_ns - chunk.due_ns) / 1e9 for chunk in self.chunks]


def read_log(path: Path) -> list[RequestTruth]:
    """Return the requests in a log file whose answers were sent to the end (`complete`)."""
    requests = []
    for line in read_file(path, _LIMIT_BYTES).splitlines():
        value = json.loads(line)
        writes = [Write(**write) for write in value.pop("writes")]
        requests.append(RequestTruth(**value, writes=writes))
    return [request for request in requests if request.complete]
