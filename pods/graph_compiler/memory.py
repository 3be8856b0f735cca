"""What the kernel says of this container's memory (cgroup v2)."""

from __future__ import annotations

import threading
from pathlib import Path
from types import TracebackType

CGROUP = Path("/sys/fs/cgroup")
SAMPLE_SECONDS = 1.0


class PodMemory:
    """Watched between enter and exit. None, or 0 kills, where the kernel says nothing.

    `memory.peak` counts since the container began, page cache included; where the kernel is too old
    for it, the largest sample of `memory.current` is taken.
    """

    def __init__(self, cgroup: Path = CGROUP, sample_seconds: float = SAMPLE_SECONDS) -> None:
        self._cgroup = cgroup
        self._sample_seconds = sample_seconds
        self._largest: int | None = None
        self._kills_before = 0
        self._over = threading.Event()
        self._watching = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> PodMemory:
        self._kills_before = self._kills()
        self._sample()
        self._watching.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._watching.join()
        self._sample()

    @property
    def peak_bytes(self) -> int | None:
        """The most that was used at once."""
        peak = self._number("memory.peak")
        return self._largest if peak is None else peak

    @property
    def limit_bytes(self) -> int | None:
        """What the container may use."""
        return self._number("memory.max")

    @property
    def kills(self) -> int:
        """Processes that the kernel has killed for memory since the watching began."""
        return self._kills() - self._kills_before

    def _watch(self) -> None:
        while not self._over.wait(self._sample_seconds):
            self._sample()

    def _sample(self) -> None:
        current = self._number("memory.current")
        if current is not None:
            self._largest = max(current, self._largest or 0)

    def _kills(self) -> int:
        lines = (line.split() for line in self._text("memory.events").splitlines())
        return next((int(line[1]) for line in lines if line[:1] == ["oom_kill"]), 0)

    def _number(self, name: str) -> int | None:
        text = self._text(name).strip()
        return int(text) if text.isdecimal() else None  # `max`: no limit

    def _text(self, name: str) -> str:
        try:
            return (self._cgroup / name).read_text(encoding="ascii")
        except (OSError, UnicodeError):
            return ""
