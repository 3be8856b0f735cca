"""`draftworth init` writes an experiment for AWS, with comments, from a few answers."""

import argparse
import json
import os
import shlex
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from draftworth.cli.arguments import positive_number
from draftworth.cli.init_questions import QUESTIONS, Ask, Question, answer_questions
from draftworth.cli.init_starting_point import StartingPoint, import_order, read_starting_point
from draftworth.cli.measure import find_cases
from draftworth.cli.new_experiment import NewExperiment, NodePrice, new_experiment
from draftworth.cli.prompts import print_imported, show_progress
from draftworth.errors import ExperimentError, Problem, UserInputError
from draftworth.experiment.loading import load_experiment
from draftworth.importing.log_formats import FORMATS
from draftworth.importing.prompt_sets import ImportOrder, read_log, write_prompts
from draftworth.records.prompt_files import ANSWERS_FOLDER, CASE_SUFFIX
from draftworth.records.run_folder import Run

_OTHER_FLAGS = {"serving": "--prompts", "aws.price": "--usd-per-hour"}


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
        help="take what is known from a run's folder, an imported prompt class, or a log file, "
        "whose prompts are imported into --prompts",
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
        raise UserInputError("\n".join((*map(_sentence, error.problems), next_step))) from error
    except OSError as error:
        raise UserInputError(f"{path}: cannot be written: {error.strerror}") from error
    except EOFError as error:
        raise UserInputError(
            "the input ended before the last answer; nothing is written"
        ) from error


def _refuse_bad_path(path: Path) -> None:
    if path.suffix not in (".yaml", ".yml") or os.path.lexists(path) or not path.parent.is_dir():
        raise UserInputError(
            f"{path}: allowed: a file that ends with .yaml and does not exist yet, in a folder "
            "that exists; next: give another name"
        )


def _sentence(problem: Problem) -> str:
    flags = {question.key: question.flag for question in QUESTIONS} | _OTHER_FLAGS
    where = next((f for k, f in flags.items() if problem.dotted_key.startswith(k)), "the file")
    return f"{where}: given {problem.actual}, allowed: {problem.allowed}; {problem.reason}"


def _write(arguments: argparse.Namespace, ask: Ask | None) -> Written:
    start = read_starting_point(arguments.source)
    answers = _answers(arguments, start, ask)
    folder = Path(answers["--prompts"])
    if start.log:
        order = import_order(start.log, form=arguments.format, out=folder)
        experiment = _import(arguments, answers, order)
        has_outputs = _has_answers(order.folder)
    else:
        experiment = _checked(arguments, answers, folder, start.run)
        has_outputs = start.run is not None or (start.prompts is not None and _has_answers(folder))
    path: Path = arguments.experiment
    with path.open("x", encoding="utf-8") as file:
        file.write(_text(experiment))
    return Written(path=path, may_have_outputs=has_outputs)


def _has_answers(prompts: Path) -> bool:
    return any(prompts.rglob(ANSWERS_FOLDER))


def _answers(
    arguments: argparse.Namespace, start: StartingPoint, ask: Ask | None
) -> Mapping[str, str]:
    flags = {question.flag: getattr(arguments, question.flag) for question in QUESTIONS}
    if start.prompts:
        if flags["--prompts"] is not None:
            raise UserInputError(
                "--prompts: given beside --from with prompts; allowed: one of them"
            )
        flags["--prompts"] = str(start.prompts)
    return answer_questions(
        flags, file_stem=arguments.experiment.stem, ask=ask, takes_defaults=arguments.yes
    )


def _import(
    arguments: argparse.Namespace, answers: Mapping[str, str], order: ImportOrder
) -> NewExperiment:
    """Import the prompts of a log, as `draftworth prompts import` does, for a new experiment.

    The experiment is checked with a copy of the prompts, so that none are left if it is refused.
    answers: the user's answers, by flag. order: which log is imported, and into which folder.
    """
    imported = read_log(order, show_progress)
    with tempfile.TemporaryDirectory(prefix="draftworth-") as scratch:
        copy = replace(order, out=Path(scratch))
        write_prompts(copy, imported)
        experiment = _checked(arguments, answers, copy.folder, None)
    write_prompts(order, imported)
    print_imported(imported, order)
    return replace(experiment, prompts_dir=_seen_from(arguments.experiment, order.out))


def _checked(
    arguments: argparse.Namespace, answers: Mapping[str, str], folder: Path, run: Run | None
) -> NewExperiment:
    """Return a new experiment that passes all checks; ExperimentError: it does not.

    answers: the user's answers to the questions of `init`, by flag.
    folder: has a folder for each prompt class of the experiment; or has prompt files itself, and
        is the only class.
    run: an earlier run, whose traffic the new experiment measures again; None: there is none.
    """
    path, price = arguments.experiment, arguments.usd_per_hour
    is_one_class = any(folder.glob(f"*{CASE_SUFFIX}"))
    experiment = new_experiment(
        answers,
        cases=find_cases(folder),
        run=run,
        price=NodePrice(usd_per_hour=price, as_of=_today()) if price else None,
        prompts_dir=_seen_from(path, folder.resolve().parent if is_one_class else folder),
    )
    _check(_text(experiment), path)
    return experiment


def _check(text: str, path: Path) -> None:
    """Raise ExperimentError if a file with this text at this path would be refused."""
    # The temporary file is in the folder of `path`, because paths that the text names are relative
    # to that folder.
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=path.suffix) as draft:
        draft.write(text.encode())
        draft.flush()
        load_experiment(Path(draft.name))


def _seen_from(file: Path, folder: Path) -> str:
    return os.path.relpath(folder.resolve(), file.parent.resolve())


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


def _text(experiment: NewExperiment) -> str:
    return _template().render(vars(experiment))


@cache
def _template() -> Template:
    environment = Environment(  # noqa: S701 (YAML, in which each value is JSON)
        loader=PackageLoader("draftworth.cli", "."),
        finalize=lambda value: json.dumps(value, ensure_ascii=False),
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template("experiment.yaml.jinja")
