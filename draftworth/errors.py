"""The errors that a user can get, and how their messages are made.

DraftworthError             what the user asked for failed: exit code 1
└── UserInputError          the input is wrong: exit code 2
    ├── ExperimentError     an experiment file is refused, with all its problems
    └── PromptSetError      a prompt file is refused

A message says where the error is, what was given, what is allowed, why, and what to do next.
"""

import difflib
import os
import signal
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

_LONGEST_WORD_CHARACTERS = 100
_MOST_PROBLEMS_SHOWN = 20
_MOST_NAMES_COMPARED = 1000


class DraftworthError(Exception):
    """What the user asked for failed."""

    exit_code = 1


def suggestion(word: object, allowed: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Return `; did you mean 'x'?`, x being the allowed word nearest to `word`; empty: none is.

    cutoff: how alike two words must be, from 0 to 1.
    """
    # Only the start of a long word is compared, because comparing all of it is slow.
    close = difflib.get_close_matches(
        str(word)[:_LONGEST_WORD_CHARACTERS], list(allowed), n=1, cutoff=cutoff
    )
    return f"; did you mean {close[0]!r}?" if close else ""


def path_suggestion(path: Path) -> str:
    """Return `; did you mean 'x'?`, x being what is in the folder under the nearest name."""
    with suppress(OSError, ValueError), os.scandir(path.parent) as entries:
        names = [entry.name for entry in islice(entries, _MOST_NAMES_COMPARED)]
        stems = {Path(name).stem: name for name in names}
        wanted = path.stem[:_LONGEST_WORD_CHARACTERS]
        if near := difflib.get_close_matches(wanted, stems, n=1, cutoff=0.7):
            return f"; did you mean {str(path.with_name(stems[near[0]]))!r}?"
    return ""


def counted(number: int, noun: str) -> str:
    """Return the number with the noun, as `1 problem` or `1,200 problems`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def exit_words(code: int) -> str:
    """Return in words how a process ended.

    code: its exit code; if a signal ended it, the negated number of the signal, as in `subprocess`.
    """
    if code >= 0:
        return f"ended with exit code {code}"
    return f"was ended by signal {-code} ({signal.strsignal(-code)})"


# The path to a value in a YAML file: keys of mappings, and positions in lists from 0.
Key = tuple[str | int, ...]


class UserInputError(DraftworthError):
    """The user's input is wrong."""

    exit_code = 2


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One thing wrong with a file, as the user reads it.

    code: the rule that the file breaks, in kebab-case; for a wrong type or key, pydantic's code.
    key: the place of the wrong value. actual: the value in the file, in words.
    allowed: the values that the key may have, in words. reason: why no other value is allowed.
    line: the line of the wrong value in the file, from 1; None: not known.
    """

    code: str = "not-plain-yaml"
    key: Key
    actual: str
    allowed: str
    reason: str
    line: int | None = None

    @property
    def dotted_key(self) -> str:
        """Return the key as a reader writes it, for example `variants[1].window`."""
        text = ""
        for part in self.key:
            text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
        return text or "(the whole file)"

    def render(self, path: Path) -> str:
        place = f"{path}:{self.line}" if self.line is not None else str(path)
        return (
            f"{place}: {self.dotted_key} ({self.code})\n"
            f"    given:   {self.actual}\n"
            f"    allowed: {self.allowed}\n"
            f"    because: {self.reason}"
        )


class ExperimentError(UserInputError):
    """An experiment file is refused; the message lists its problems, at most the first 20."""

    def __init__(self, path: Path, problems: Sequence[Problem]) -> None:
        self.path = path
        self.problems = tuple(problems)
        count = len(self.problems)
        lines = [f"{path}: {counted(count, 'problem')}"]
        lines += (problem.render(path) for problem in self.problems[:_MOST_PROBLEMS_SHOWN])
        if count > _MOST_PROBLEMS_SHOWN:
            lines.append(f"and {count - _MOST_PROBLEMS_SHOWN} more")
        super().__init__("\n".join(lines))


class PromptSetError(UserInputError):
    """A prompt file is refused."""
