"""Every error a user can meet, and how it reads.

DraftworthError             something asked for failed: exit code 1
└── UserInputError          the input is wrong: exit code 2
    ├── ExperimentError     an experiment file is refused, with all its problems
    └── PromptSetError      a prompt file is refused

An error says where, what was given, what is allowed, why, and what to do next.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

# Characters of the longest known word, and problems that a reader mends at a time.
_WORD = 100
_PROBLEMS = 20


class DraftworthError(Exception):
    """The thing asked for failed."""

    exit_code = 1


def suggestion(given: object, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the known word nearest to a given one; empty if none is near."""
    # No known word is near to a long text, and to compare them takes long.
    close = difflib.get_close_matches(str(given)[:_WORD], list(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""


# Where something stands in a file: keys of mappings and places in lists.
Key = tuple[str | int, ...]


class UserInputError(DraftworthError):
    """The input is wrong."""

    exit_code = 2


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One thing wrong with a file: where, what was given, what is allowed, why."""

    key: Key
    given: str
    allowed: str
    reason: str
    line: int | None = None

    @property
    def dotted_key(self) -> str:
        """The key as a reader writes it, for example `variants[1].window`."""
        text = ""
        for part in self.key:
            text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
        return text or "(the whole file)"

    def render(self, path: Path) -> str:
        """Several lines of text, the first one clickable as `file:line`."""
        place = f"{path}:{self.line}" if self.line is not None else str(path)
        return (
            f"{place}: {self.dotted_key}\n"
            f"    given:   {self.given}\n"
            f"    allowed: {self.allowed}\n"
            f"    because: {self.reason}"
        )


class ExperimentError(UserInputError):
    """An experiment file is refused, with all its problems."""

    def __init__(self, path: Path, problems: Sequence[Problem]) -> None:
        self.path = path
        self.problems = tuple(problems)
        count = len(self.problems)
        lines = [f"{path}: {count} problem{'s' if count != 1 else ''}"]
        lines += (problem.render(path) for problem in self.problems[:_PROBLEMS])
        if count > _PROBLEMS:
            lines.append(f"and {count - _PROBLEMS} more")
        super().__init__("\n".join(lines))


class PromptSetError(UserInputError):
    """A prompt file is refused."""
