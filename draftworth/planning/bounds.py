"""A quantity in the best and in the worst case, which tells how it was computed."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

Case = Literal["best", "worst"]
CASES: tuple[Case, ...] = ("best", "worst")


@dataclass(frozen=True)
class Bounds:
    """One quantity in both cases. terms: for a reader, what it is the sum of."""

    best: float
    worst: float
    terms: tuple[str, ...] = field(default=(), compare=False)

    def at(self, case: Case) -> float:
        """The quantity in one case."""
        return self.best if case == "best" else self.worst

    def text(self, *, digits: int | None = None) -> str:
        """`2 to 5`, or one number where both cases have the same."""
        form = "g" if digits is None else f".{digits}f"
        best, worst = format(self.best, form), format(self.worst, form)
        return best if best == worst else f"{best} to {worst}"

    def called(self, name: str, *, digits: int | None = 1) -> Bounds:
        """The same quantity, told by a name and its value from here on."""
        return Bounds(self.best, self.worst, (f"{name} {self.text(digits=digits)}",))

    @property
    def how(self) -> str:
        """How it was computed."""
        return " + ".join(self.terms)

    @property
    def factor(self) -> str:
        """How it was computed, as a part of a product."""
        return f"({self.how})" if len(self.terms) > 1 else self.how

    def __add__(self, other: Bounds) -> Bounds:
        terms = (*self.terms, *other.terms)
        return Bounds(self.best + other.best, self.worst + other.worst, terms)

    def __mul__(self, other: Bounds | float) -> Bounds:
        return self._times(operator.mul, "x", other)

    def __truediv__(self, other: Bounds | float) -> Bounds:
        return self._times(operator.truediv, "/", other)

    def _times(
        self, compute: Callable[[float, float], float], sign: str, other: Bounds | float
    ) -> Bounds:
        by = other if isinstance(other, Bounds) else exactly(other)
        best, worst = compute(self.best, by.best), compute(self.worst, by.worst)
        return Bounds(best, worst, (f"{self.factor} {sign} {by.factor}",))


def exactly(value: float, words: str | None = None) -> Bounds:
    """A number that is the same in both cases; `words` where more than the number is to be told."""
    return Bounds(value, value, (words or f"{value:g}",))


def total(quantities: Sequence[Bounds]) -> Bounds:
    """The sum of at least one quantity."""
    first, *others = quantities
    return sum(others, start=first)


def longest(quantities: Sequence[Bounds]) -> Bounds:
    """The largest of the quantities, in each case."""
    return Bounds(
        max(quantity.best for quantity in quantities),
        max(quantity.worst for quantity in quantities),
        (f"max({', '.join(quantity.how for quantity in quantities)})",),
    )
