"""The experiment that answers to `init` make, and whether `plan` would accept it."""

import argparse
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from draftworth.cli.init_file import experiment_text
from draftworth.cli.init_questions import QUESTIONS, Question
from draftworth.cli.init_starting_point import StartingPoint, import_order
from draftworth.cli.measure import find_cases
from draftworth.cli.new_experiment import (
    PUBLISHED_TARGET,
    NewExperiment,
    NodePrice,
    neuron_facts,
    new_experiment,
)
from draftworth.errors import ExperimentError, Problem, UserInputError
from draftworth.experiment.loading import load_experiment
from draftworth.experiment.strict_model import PATTERNS
from draftworth.records.prompt_files import CASE_SUFFIX
from draftworth.untrusted import one_line

_MODEL_FLAGS = ("--target", "--draft")
_OTHER_FLAGS = {"serving": "--prompts", "aws.price": "--usd-per-hour"}


@dataclass(frozen=True, kw_only=True)
class AnswerCheck:
    """Makes an experiment of answers, and says which of them is wrong.

    arguments: of the command. start: what `--from` names.
    imported: the folder of the prompts of a log, until they are written; None: there is no log.
    """

    arguments: argparse.Namespace
    start: StartingPoint
    imported: Path | None

    @property
    def questions(self) -> Sequence[Question]:
        """The questions that are asked: a run on Neuron devices names the models itself."""
        if neuron_facts(self.start.run) is None:
            return QUESTIONS
        return [question for question in QUESTIONS if question.flag not in _MODEL_FLAGS]

    def default(self, question: Question, answers: Mapping[str, str]) -> str:
        """Return the default of a question; empty: it has none. answers: to earlier questions."""
        if question.flag == "--name":
            return str(self.arguments.experiment.stem)
        if question.flag == "--zone" and not question.default.startswith(answers["--region"]):
            return ""  # the user chose another region than that of the default zone
        if question.flag == "--target":
            return self._target()
        if question.flag == "--draft" and answers["--target"] != PUBLISHED_TARGET:
            return ""
        return question.default

    def _target(self) -> str:
        models = self.start.models
        if not models:
            return PUBLISHED_TARGET
        is_id = len(models) == 1 and re.fullmatch(PATTERNS["hub_id"], models[0])
        return models[0] if is_id else ""

    def note(self, question: Question) -> str:
        """Return what `--from` says of the answer; empty: nothing."""
        if question.flag != "--target" or not self.start.models:
            return ""
        names = one_line(", ".join(self.start.models), characters=200)
        return f"{one_line(str(self.arguments.source))} names {names}; "

    def problem(self, question: Question, answers: Mapping[str, str]) -> str:
        """Return why the answer to `question` cannot be taken; empty: it can."""
        try:
            if question.flag == "--prompts" and self.start.log:
                self.refuse_existing_class(answers)
            self.experiment(answers)
        except ExperimentError as error:
            wrong = (p for p in error.problems if flag_of(p) == question.flag)
            return next((sentence(problem) for problem in wrong), "")
        except UserInputError as error:
            return str(error) if question.flag == "--prompts" else ""
        return ""

    def refuse_existing_class(self, answers: Mapping[str, str]) -> None:
        """Raise UserInputError if the prompts of the log would be written over others."""
        if self.start.log:
            form, out = self.arguments.format, Path(answers["--prompts"])
            import_order(self.start.log, form=form, out=out)

    def experiment(self, answers: Mapping[str, str]) -> NewExperiment:
        """Return a new experiment that passes all checks.

        ExperimentError: it does not. UserInputError: the prompts cannot be read.
        """
        path, price = self.arguments.experiment, self.arguments.usd_per_hour
        folder = self.imported or Path(answers["--prompts"])
        is_one_class = any(folder.glob(f"*{CASE_SUFFIX}"))
        experiment = new_experiment(
            answers,
            cases=find_cases(folder),
            run=self.start.run,
            price=NodePrice(usd_per_hour=price, as_of=_today()) if price else None,
            prompts_dir=seen_from(path, folder.resolve().parent if is_one_class else folder),
        )
        _check(experiment_text(experiment), path)
        return experiment


def flag_of(problem: Problem) -> str:
    """Return the flag whose answer has the problem; `the file`: none has."""
    flags = {question.key: question.flag for question in QUESTIONS} | _OTHER_FLAGS
    return next((f for k, f in flags.items() if problem.dotted_key.startswith(k)), "the file")


def sentence(problem: Problem) -> str:
    """Return the problem as a line about the flag."""
    return (
        f"{flag_of(problem)}: given {problem.actual}, allowed: {problem.allowed}; {problem.reason}"
    )


def _check(text: str, path: Path) -> None:
    """Raise ExperimentError if a file with this text at this path would be refused."""
    # Paths in the text are relative to the folder of `path`, so the temporary file is there too.
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=path.suffix) as draft:
        draft.write(text.encode())
        draft.flush()
        load_experiment(Path(draft.name))


def seen_from(file: Path, folder: Path) -> str:
    """Return the folder's path relative to that of the file."""
    return os.path.relpath(folder.resolve(), file.parent.resolve())


def _today() -> str:
    return datetime.now(UTC).date().isoformat()
