"""A sample of different prompts of a stream of any length, in the memory of the sample.

Each prompt has a number made of its text and the seed, and the smallest numbers are drawn: every
different prompt has the same chance however often it came, the order of the log does not matter,
and the same log and seed give the same sample.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A prompt that may be drawn: a prompt file's line without its id, and its answer."""

    number: int
    line: Mapping[str, Any]
    answer: str | None
    size_bytes: int


class Sample:
    """Offer it everything; `drawn` is what was drawn."""

    def __init__(self, most: int, *, seed: int) -> None:
        self._most = most
        self._key = hashlib.sha256(str(seed).encode()).digest()
        self._drawn: dict[int, Candidate] = {}
        self._repeats: dict[int, int] = {}
        self._largest_first: list[int] = []  # negated: heapq has the smallest first
        self.offered = 0
        self.size_bytes = 0

    def offer(self, content: bytes, candidate: Candidate) -> None:
        """Take it or not; `content` is what makes it the same prompt as another one."""
        self.offered += 1
        digest = hashlib.blake2b(content, digest_size=16, key=self._key).digest()
        number = int.from_bytes(digest, "big")
        if number in self._drawn:
            self._repeats[number] += 1
        elif len(self._drawn) < self._most:
            heapq.heappush(self._largest_first, -number)
            self._put(number, candidate)
        elif number < -self._largest_first[0]:
            self._drop(-heapq.heappushpop(self._largest_first, -number))
            self._put(number, candidate)

    def _put(self, number: int, candidate: Candidate) -> None:
        self._drawn[number] = candidate
        self._repeats[number] = 0
        self.size_bytes += candidate.size_bytes

    def _drop(self, number: int) -> None:
        del self._repeats[number]
        self.size_bytes -= self._drawn.pop(number).size_bytes

    @property
    def drawn(self) -> list[Candidate]:
        """In the order of the log."""
        return sorted(self._drawn.values(), key=lambda candidate: candidate.number)

    @property
    def repeats(self) -> int:
        """How often a drawn prompt came again: one that was dropped never comes back."""
        return sum(self._repeats.values())

    @property
    def not_drawn(self) -> int:
        """Requests whose prompt is not in the sample."""
        return self.offered - self.repeats - len(self._drawn)
