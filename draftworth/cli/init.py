"""`draftworth init` writes an experiment for AWS, with comments, from a few answers."""

import argparse
import os
import shlex
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from draftworth.cli.arguments import of_record, positive_number
from draftworth.cli.init_check import AnswerCheck, seen_from, sentence
from draftworth.cli.init_file import experiment_text
from draftworth.cli.init_questions import QUESTIONS, Ask, Question, answer_questions
from draftworth.cli.init_starting_point import StartingPoint, import_order, read_starting_point
from draftworth.cli.prompts import print_imported, show_progress
from draftworth.errors import ExperimentError, UserInputError
from draftworth.importing.log_formats import FORMATS
from draftworth.importing.prompt_sets import Imported, ImportOrder, read_log, write_prompts
from draftworth.records.prompt_files import ANSWERS_FOLDER


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the file to write, a flag for each question, where to start from, and a node's price."""
    parser.add_argument("experiment", metavar="FILE.yaml", type=Path, help="the file to write")
    parser.add_argument("--yes", action="store_true", help="take the defaults and ask nothing")
    for question in QUESTIONS:
        _add_flag(parser, question)
    parser.add_argument(
        "--from",
        dest="source",
        metavar="RUN_OR_LOG",
        type=of_record,
        help="take answers from a run's folder, an imported prompt class, or a log file, whose "
        "prompts are then imported into --prompts",
    )
    parser.add_argument(
        "--format", choices=FORMATS, default="openai-jsonl", help="the form of a log (%(default)s)"
    )
    parser.add_argument("--usd-per-hour", type=positive_number, help="price of a node, if known")


def _add_flag(parser: argparse.ArgumentParser, question: Question) -> None:
    default_words = f" (default: {question.default})" if question.default else ""
    parser.add_argument(
        question.flag,
        dest=question.flag,
        metavar=question.flag.split("-")[-1].upper(),
        help=f"{question.why}{default_words}",
    )


def run(arguments: argparse.Namespace) -> int:
    """Ask the questions if standard input is a terminal, write the file, print what comes next."""
    written = write_experiment(arguments, input if sys.stdin and sys.stdin.isatty() else None)
    quoted_path = shlex.quote(str(written.path))
    print(f"{written.path}: written; each line that you may change has a comment. Next:")
    if written.may_have_outputs:
        print(
            f"  draftworth estimate {quoted_path} --target DIR  # DIR has the target's tokenizer:"
        )
        print(
            "                           # what n-gram drafting would yield: a draft must yield more"
        )
    print(f"  draftworth plan {quoted_path}       # what it runs and costs; no AWS call")
    print(f"  draftworth preflight {quoted_path}  # can your account run it? It only looks")
    print(f"  make deploy EXPERIMENT={quoted_path}          # in a checkout: builds and runs it")
    return 0


@dataclass(frozen=True, kw_only=True)
class Written:
    """An experiment file, and whether `--from` may have model outputs that `estimate` can read."""

    path: Path
    may_have_outputs: bool


def write_experiment(arguments: argparse.Namespace, ask: Ask | None) -> Written:
    """Write the experiment file and, before it, the prompts of a log that `--from` names.

    ask: asks the user for what no flag gives; None: there is no terminal.

    UserInputError: an answer is wrong or a file cannot be read, and nothing is written; or a file
        cannot be written, and prompts of the log may have been written before.
    """
    path: Path = arguments.experiment
    _refuse_bad_path(path)
    try:
        return _write(arguments, ask)
    except ExperimentError as error:
        next_step = "next: answer that anew; nothing is written"
        raise UserInputError("\n".join((*map(sentence, error.problems), next_step))) from error
    except OSError as error:
        raise UserInputError(f"{path}: cannot be written: {error.strerror}") from error
    except EOFError as error:
        raise UserInputError(
            "the input ended before the last answer; nothing is written"
        ) from error


def _refuse_bad_path(path: Path) -> None:
    if path.suffix not in (".yaml", ".yml"):
        problem = "a name that does not end with .yaml"
    elif os.path.lexists(path):
        problem = "a file that exists"
    elif not path.parent.is_dir():
        problem = f"a file in {path.parent}, which is no folder"
    else:
        return
    raise UserInputError(
        f"{path}: given {problem}, allowed: a file that ends with .yaml and does not exist yet, in "
        "a folder that exists; next: give another name"
    )


def _write(arguments: argparse.Namespace, ask: Ask | None) -> Written:
    start = read_starting_point(arguments.source, log_format=arguments.format)
    with tempfile.TemporaryDirectory(prefix="draftworth-") as scratch:
        log = _read_log(arguments, start, Path(scratch))
        check = AnswerCheck(
            arguments=arguments, start=start, imported=log.order.folder if log else None
        )
        answers = _answers(check, ask)
        experiment = check.experiment(answers)
    folder = Path(answers["--prompts"])
    has_outputs = start.run is not None or (start.prompts is not None and _has_answers(folder))
    if log:
        order = import_order(log.order.source, form=arguments.format, out=folder)
        write_prompts(order, log.imported)
        print_imported(log.imported, order)
        experiment = replace(experiment, prompts_dir=seen_from(arguments.experiment, order.out))
        has_outputs = _has_answers(order.folder)
    path: Path = arguments.experiment
    with path.open("x", encoding="utf-8") as file:
        file.write(experiment_text(experiment))
    return Written(path=path, may_have_outputs=has_outputs)


def _has_answers(prompts: Path) -> bool:
    return any(prompts.rglob(ANSWERS_FOLDER))


@dataclass(frozen=True, kw_only=True)
class _Log:
    """The prompts of a log, and the order with which a copy of them was written.

    The experiment is checked with the copy, so that none are left if it is refused.
    """

    imported: Imported
    order: ImportOrder


def _read_log(arguments: argparse.Namespace, start: StartingPoint, scratch: Path) -> _Log | None:
    """Import the prompts of a log into `scratch`; None: `--from` names none."""
    if start.log is None:
        return None
    order = import_order(start.log, form=arguments.format, out=scratch)
    imported = read_log(order, show_progress)
    write_prompts(order, imported)
    return _Log(imported=imported, order=order)


def _answers(check: AnswerCheck, ask: Ask | None) -> Mapping[str, str]:
    arguments, start = check.arguments, check.start
    flags = {question.flag: getattr(arguments, question.flag) for question in QUESTIONS}
    if start.prompts:
        if flags["--prompts"] is not None:
            raise UserInputError(
                "--prompts: given beside --from with prompts; allowed: one of them"
            )
        flags["--prompts"] = str(start.prompts)
    questions = {question.flag for question in check.questions}
    for flag, value in flags.items():
        if flag not in questions and value is not None:
            raise UserInputError(
                f"{flag}: given beside --from with a run on Neuron, which names its models; "
                "allowed: without it; next: leave it out, and change the file that is written"
            )
    answers = answer_questions(flags, check, ask=ask, takes_defaults=arguments.yes)
    check.refuse_existing_class(answers)
    return answers
