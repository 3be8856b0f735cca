"""The questions of `draftworth init`, and who answers them: a flag, a person, or a default."""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

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


def answer_questions(
    flags: Mapping[str, str | None], *, file_stem: str, ask: Ask | None, takes_defaults: bool
) -> Mapping[str, str]:
    """Return the answer to each question, by flag.

    flags: the value of each flag; None: it is not given. file_stem: the default of `--name`.
    ask: asks the user for what no flag gives; None: there is no terminal.
    takes_defaults: whether each question without a flag gets its default and is not asked.

    UserInputError: a flag is missing for a question that has a default, and the question is neither
        asked nor answered by the default; or an answer has characters that are not printable.
    """
    if takes_defaults:
        ask = None
    elif ask is None:
        _refuse_missing(flags)
    answers: dict[str, str] = {}
    for question in QUESTIONS:
        default = _default(question, answers, file_stem)
        answers[question.flag] = _answer(question, flags[question.flag], default, ask)
    return answers


def _refuse_missing(flags: Mapping[str, str | None]) -> None:
    missing = [q.flag for q in QUESTIONS if q.default and flags[q.flag] is None]
    if missing:
        raise UserInputError(
            f"{', '.join(missing)}: given nothing, and standard input is no terminal; next: give "
            "these flags, or --yes for the defaults"
        )


def _default(question: Question, answers: Mapping[str, str], file_stem: str) -> str:
    """Return the default of a question; empty: it has none.

    answers: the answers to earlier questions, by flag: a zone is a default only in its own region.
    file_stem: the name of the experiment file without its ending, which is the default of `--name`.
    """
    if question.flag == "--name":
        return file_stem
    if question.flag == "--zone" and not question.default.startswith(answers["--region"]):
        return ""  # the user chose another region than that of the default zone
    return question.default


def _answer(question: Question, value: str | None, default: str, ask: Ask | None) -> str:
    """Return the flag's value, or else what the user types, or else the default."""
    if value is None and ask:
        value = ask(f"{question.why}\n{question.flag} [{default}]: ").strip()
    answer = value or default
    if not answer.isprintable():
        raise UserInputError(f"{question.flag}: given {answer!r}, allowed: printable text")
    return answer
