"""Draws prompts at random from a log of any length."""

import hashlib
import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class LoggedPrompt:
    """A prompt of a log, and its answer if the log has it.

    number: that of its record in the log. line: as in a prompt file, without an id.
    size_bytes: the bytes that prompt and answer take in the written files, with their ids.
    """

    number: int
    line: Mapping[str, Any]
    answer: str | None
    size_bytes: int


class PromptSample:
    """Draws at most `most` prompts at random from a log of any length, and keeps only these.

    Each prompt gets a number (a hash of its text and the seed); the prompts with the smallest
    numbers are drawn. So every different prompt has the same chance, however often the log repeats
    it; the order of the log does not matter, and the same log and seed give the same sample.
    """

    def __init__(self, most: int, *, seed: int) -> None:
        self._most = most
        self._key = hashlib.sha256(str(seed).encode()).digest()
        self._drawn: dict[int, LoggedPrompt] = {}
        self._repeats: dict[int, int] = {}
        self._largest_first: list[int] = []  # negated numbers: heapq gives the smallest first
        self.offered = 0
        self.size_bytes = 0

    def offer(self, content: bytes, candidate: LoggedPrompt) -> None:
        """Add a prompt to the sample or drop it; prompts with equal `content` count as one.

        content: the request as JSON, without `max_tokens`; its hash decides whether it is drawn.
        candidate: the prompt and its answer, which are kept if it is drawn.
        """
        self.offered += 1
        digest = hashlib.blake2b(content, digest_size=16, key=self._key).digest()
        number = int.from_bytes(digest, "big")
        if number in self._drawn:
            self._repeats[number] += 1
            return
        heapq.heappush(self._largest_first, -number)
        self._drawn[number], self._repeats[number] = candidate, 0
        self.size_bytes += candidate.size_bytes
        if len(self._drawn) > self._most:
            largest = -heapq.heappop(self._largest_first)
            self.size_bytes -= self._drawn.pop(largest).size_bytes
            del self._repeats[largest]

    @property
    def drawn(self) -> list[LoggedPrompt]:
        return sorted(self._drawn.values(), key=lambda candidate: candidate.number)

    @property
    def answers(self) -> int:
        return sum(candidate.answer is not None for candidate in self._drawn.values())

    @property
    def most_tokens(self) -> int:
        return max((c.line.get("max_tokens", 0) for c in self._drawn.values()), default=0)

    @property
    def repeats(self) -> int:
        return sum(self._repeats.values())

    @property
    def not_drawn(self) -> int:
        return self.offered - self.repeats - len(self._drawn)
