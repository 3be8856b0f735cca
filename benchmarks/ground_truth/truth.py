"""The requests as the server recorded them, and the true figures.

No code of the client under test takes part in them. Times are nanoseconds of CLOCK_MONOTONIC, which
every process of a Linux machine shares (`time.perf_counter_ns` reads it too).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(kw_only=True)
class RequestTruth:
    """One request as the server saw it.

    arrived_ns: when the kernel had the last bytes of the request; the server's own queue comes
        after it, so it belongs to the server's time, not to the client's.
    handled_ns: when the server had read the request; schedules start here.
    due_ns, written_ns: of every chunk with tokens: when it should have been written, and the time
        right after the system call that wrote it.
    prompt: start of the last message or of the prompt, to tell requests apart.
    complete: the whole stream was written and the client had not gone away.
    """

    prompt: str
    arrived_ns: int
    handled_ns: int
    tokens: list[int] = field(default_factory=list)
    due_ns: list[int] = field(default_factory=list)
    written_ns: list[int] = field(default_factory=list)
    complete: bool = False

    @property
    def ttft_s(self) -> float:
        """Arrival of the request to the write of the first token."""
        return (self.written_ns[0] - self.arrived_ns) / 1e9

    @property
    def itl_s(self) -> float | None:
        """Time per token after the first chunk; None if there is no such token."""
        later = sum(self.tokens[1:])
        return (self.written_ns[-1] - self.written_ns[0]) / 1e9 / later if later else None

    @property
    def lateness_s(self) -> list[float]:
        pairs = zip(self.written_ns, self.due_ns, strict=True)
        return [(written - due) / 1e9 for written, due in pairs]


def output_tokens(requests: Sequence[RequestTruth]) -> int:
    """Return the number of tokens that were written."""
    return sum(sum(request.tokens) for request in requests)


def throughput_token_per_s(requests: Sequence[RequestTruth]) -> float:
    """Return all tokens / the time from the first arrival to the last write."""
    start_ns = min(request.arrived_ns for request in requests)
    end_ns = max(request.written_ns[-1] for request in requests)
    return output_tokens(requests) / ((end_ns - start_ns) / 1e9)
