"""The questions of `draftworth init`, and who answers them: a flag, a person, or a default."""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from draftworth.errors import UserInputError

Ask = Callable[[str], str]  # prints a question and returns the answer that is typed


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question of `init`.

    flag: the option that answers it. why: why it is asked, for `--help` and for the prompt.
    key: the key of the experiment file that the answer fills.
    default: the answer if the user gives none. Empty: the question may stay unanswered; but for
        `--name`, the default is the name of the experiment file.
    """

    flag: str
    key: str
    why: str
    default: str = ""


_DECLARED = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
QUESTIONS = tuple(Question(**fields) for fields in _DECLARED["question"])


class Checker(Protocol):
    """Says which questions are asked, what is known of an answer before, and which is wrong."""

    @property
    def questions(self) -> Sequence[Question]:
        """The questions that are asked, in this order."""

    def note(self, question: Question) -> str:
        """Return words that a person reads before the question; empty: none."""

    def problem(self, question: Question, answers: Mapping[str, str]) -> str:
        """Return why the answer to `question` cannot be taken; empty: it can.

        answers: the answer to each question, by flag; those that are not yet given are defaults.
        """

    def default(self, question: Question, answers: Mapping[str, str]) -> str:
        """Return the default of a question; empty: it has none. answers: to earlier questions."""


def answer_questions(
    flags: Mapping[str, str | None], checker: Checker, *, ask: Ask | None, takes_defaults: bool
) -> Mapping[str, str]:
    """Return the answer to each question, by flag.

    A typed answer that is wrong is asked for again, after a line that says what is allowed.

    flags: the value of each flag; None: it is not given.
    ask: asks the user for what no flag gives; None: there is no terminal.
    takes_defaults: whether each question without a flag gets its default and is not asked.

    UserInputError: a flag is missing for a question that has a default, and the question is neither
        asked nor answered by the default; or an answer has characters that are not printable.
    """
    if takes_defaults:
        ask = None
    elif ask is None:
        _refuse_missing(flags, checker)
    answers: dict[str, str] = {}
    for question in checker.questions:
        value = flags[question.flag]
        if value is None and ask:
            answers[question.flag] = _typed(question, flags, answers, checker, ask)
        else:
            answers[question.flag] = value or _default(question, answers, checker)
        if unprintable := _unprintable(question, answers[question.flag]):
            raise UserInputError(unprintable)
    return answers


def _default(question: Question, answers: Mapping[str, str], checker: Checker) -> str:
    """Return the default; UserInputError: the question has one mostly, and not this time."""
    default, note = checker.default(question, answers), checker.note(question)
    if note and not default:
        raise UserInputError(
            f"{question.flag}: given nothing, and {note}allowed: {question.why}; next: "
            f"{question.flag} OWNER/NAME"
        )
    return default


def _refuse_missing(flags: Mapping[str, str | None], checker: Checker) -> None:
    missing = [q.flag for q in checker.questions if q.default and flags[q.flag] is None]
    if missing:
        raise UserInputError(
            f"{', '.join(missing)}: given nothing, and standard input is no terminal; next: give "
            "these flags, or --yes for the defaults"
        )


def _typed(
    question: Question,
    flags: Mapping[str, str | None],
    answers: Mapping[str, str],
    checker: Checker,
    ask: Ask,
) -> str:
    """Ask until the answer is right, and return it. answers: to earlier questions."""
    default = checker.default(question, answers)
    prompt = f"{checker.note(question)}{question.why}\n{question.flag} [{default}]: "
    while True:
        answer = ask(prompt).strip() or default
        everything = _filled(flags, {**answers, question.flag: answer}, checker)
        problem = _unprintable(question, answer) or checker.problem(question, everything)
        if not problem:
            return answer
        prompt = f"{problem}\n{question.flag} [{default}]: "


def _filled(
    flags: Mapping[str, str | None], answers: Mapping[str, str], checker: Checker
) -> Mapping[str, str]:
    """Return these answers, with the flag's value or the default of every other question."""
    filled: dict[str, str] = {}
    for question in checker.questions:
        value = answers.get(question.flag, flags[question.flag])
        filled[question.flag] = checker.default(question, filled) if value is None else value
    return filled


def _unprintable(question: Question, answer: str) -> str:
    if answer.isprintable():
        return ""
    return f"{question.flag}: given {answer!r}, allowed: printable text"
