"""Counts the rounds that a run can have, from its settings alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

from draftworth.measuring.run_specification import RunSpec, Sampling

# With fewer rounds of a group, verdicts are not looked at: a server that warms up is not yet seen
# (docs/decisions/0049-a-server-that-warms-up.md).
ROUNDS_BEFORE_A_LOOK = 4


@dataclass(frozen=True, kw_only=True)
class RoundCounts:
    """How many rounds a run has at least and at most, from its sampling, repetitions and loads.

    A run ends after the least number of rounds if its confidence intervals are narrow enough then.
    If the intervals stay wide, the run ends after `max_requests` requests of each case and variant.
    repetitions, loads: how many repetitions and how many loads the run has.
    """

    sampling: Sampling
    repetitions: int
    loads: int

    @classmethod
    def of(cls, spec: RunSpec) -> RoundCounts:
        return cls(sampling=spec.sampling, repetitions=spec.repetitions, loads=len(spec.loads))

    @property
    def least(self) -> int:
        """The number of rounds that every load gets in every repetition. It is at least one."""
        needed = math.ceil(self.sampling.min_requests / self.sampling.requests_per_round)
        room = self._room // (self.repetitions * self.loads)
        return max(1, min(math.ceil(needed / self.repetitions), room))

    @property
    def most(self) -> int:
        """The most rounds that a prompt class can get. All loads and repetitions are counted."""
        return max(self._room, self.all_least)

    def until(self, repetition: int) -> int:
        """Return the most rounds that a prompt class can get in repetitions 1 to `repetition`."""
        return self.most * repetition // self.repetitions

    def further(self, repetition: int) -> int:
        """Return how many rounds a repetition may have in addition to `least` at each load."""
        rounds = self.until(repetition) - self.until(repetition - 1)
        return rounds - self.least * self.loads

    def needed_further(self, repetition: int) -> int:
        """Return how many of the `further` rounds are needed to compute any confidence interval.

        One round of a load gives no interval. So if `least` is 1, each load gets a second round in
        the first repetition, if budget is left.
        """
        is_lone = self.least == 1 and repetition == 1
        return min(self.further(repetition), self.loads) if is_lone else 0

    @property
    def looks(self) -> int:
        """The most times that a run can look at a group's verdicts (a prompt class at a load).

        That is once after the least rounds of each repetition and once after each further round,
        but not before `ROUNDS_BEFORE_A_LOOK` rounds.
        """
        measured, looks = 0, 0
        for repetition in range(1, self.repetitions + 1):
            for rounds in (self.least, *[1] * self.further(repetition)):
                measured += rounds
                looks += measured >= ROUNDS_BEFORE_A_LOOK
        return max(1, looks)

    @property
    def all_least(self) -> int:
        return self.least * self.repetitions * self.loads

    @property
    def all_further(self) -> int:
        return self.most - self.all_least

    @property
    def _room(self) -> int:
        return self.sampling.max_requests // self.sampling.requests_per_round
