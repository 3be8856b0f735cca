"""`draftworth init` writes an experiment for AWS, with comments, from a few answers."""

import argparse
import json
import os
import shlex
import sys
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from draftworth.cli.arguments import local_run, positive_number
from draftworth.cli.measure import find_cases
from draftworth.cli.new_experiment import NewExperiment, NodePrice, new_experiment
from draftworth.cli.prompts import print_imported, show_progress
from draftworth.errors import ExperimentError, Problem, UserInputError
from draftworth.experiment.loading import load_experiment
from draftworth.experiment.strict_model import MAX_NAME_LENGTH
from draftworth.importing.log_formats import FORMATS
from draftworth.importing.prompt_sets import ImportOrder, as_name, import_prompts
from draftworth.records import run_folder
from draftworth.records.prompts import ANSWERS_FOLDER, CASE_SUFFIX
from draftworth.records.results import RUN_FILE

Ask = Callable[[str], str]  # asks a question and returns the answer
_DECLARED = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
# For each question: its flag, the key of the experiment file that the answer fills, the default
# answer, and why it is asked. An empty text means that there is no default, except for `--name`, of
# which the default is the name of the experiment file.
QUESTIONS = tuple(
    (q["flag"], q["key"], q.get("default", ""), q["why"]) for q in _DECLARED["question"]
)
_OTHER_FLAGS = {"serving": "--prompts", "aws.price": "--usd-per-hour"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the file, a flag for each question, and the price."""
    parser.add_argument("experiment", metavar="FILE.yaml", type=Path, help="the file to write")
    parser.add_argument("--yes", action="store_true", help="take the defaults and ask nothing")
    for flag, _, default, why in QUESTIONS:
        default_words = f" (default: {default})" if default else ""
        unit = flag.split("-")[-1].upper()
        parser.add_argument(flag, dest=flag, metavar=unit, help=f"{why}{default_words}")
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


def run(arguments: argparse.Namespace) -> int:
    """Ask the questions if standard input is a terminal, write the file, print what comes next."""
    path = write_experiment(arguments, input if sys.stdin and sys.stdin.isatty() else None)
    quoted_path = shlex.quote(str(path))
    print(f"{path}: written; each line that you may change has a comment. Next:")
    if arguments.source and _may_have_outputs(arguments.source):
        print(
            f"  draftworth estimate {quoted_path} --target DIR  # DIR has the target's tokenizer:"
        )
        print(
            "                           # what n-gram drafting would yield, and what must beat it"
        )
    print(f"  draftworth plan {quoted_path}       # what it runs and costs; no AWS call")
    print(f"  draftworth preflight {quoted_path}  # can your account run it? It only looks")
    print(f"  make deploy EXPERIMENT={quoted_path}          # in a checkout: builds and runs it")
    return 0


def _may_have_outputs(source: str) -> bool:
    """Return whether the value of `--from` may have model outputs that `estimate` can read.

    A run and a log of requests may have them; a folder of prompts only if it also has answers.
    """
    folder = Path(source)
    return (folder / RUN_FILE).exists() or not folder.is_dir() or any(folder.rglob(ANSWERS_FOLDER))


def write_experiment(arguments: argparse.Namespace, ask: Ask | None) -> Path:
    """Write the experiment file; if an answer is wrong, raise UserInputError and write nothing."""
    path: Path = arguments.experiment
    if path.suffix not in (".yaml", ".yml") or os.path.lexists(path) or not path.parent.is_dir():
        raise UserInputError(
            f"{path}: allowed: a file that ends with .yaml and does not exist yet, in a folder "
            "that exists; next: give another name"
        )
    try:
        measured = _measured(arguments)
        text = _text(_new_experiment(arguments, _answers(arguments, ask), measured))
        with tempfile.NamedTemporaryFile(dir=path.parent, suffix=path.suffix) as draft:
            draft.write(text.encode())
            draft.flush()
            load_experiment(Path(draft.name))
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except ExperimentError as error:
        again = f" with --from {arguments.source}" if arguments.source else ""
        next_step = f"next: answer that anew{again}; {path} was not written"
        sentences = (*map(_sentence, error.problems), next_step)
        raise UserInputError("\n".join(sentences)) from error
    except OSError as error:
        raise UserInputError(f"{path}: cannot be written: {error.strerror}") from error
    except EOFError as error:
        raise UserInputError(
            "the input ended before the last answer; nothing is written"
        ) from error
    return path


def _measured(arguments: argparse.Namespace) -> run_folder.Run | None:
    """Return the run that `--from` names; None: it names prompts or a log, or is not given.

    If it names a folder of prompts, `--prompts` is set to this folder.
    """
    source = Path(arguments.source) if arguments.source else None
    if source is None or source.is_file():
        return None
    has_runs = (source / RUN_FILE).exists() or any(source.glob(f"*/{RUN_FILE}"))
    if source.is_dir() and not has_runs:
        if getattr(arguments, "--prompts") is not None:
            raise UserInputError(
                "--prompts: given beside --from with prompts; allowed: one of them"
            )
        setattr(arguments, "--prompts", arguments.source)
        return None
    with local_run(arguments.source) as folder:
        return run_folder.read_run(folder)


def _answers(arguments: argparse.Namespace, ask: Ask | None) -> Mapping[str, str]:
    """Return the answer to each question, by flag: from the flags, from `ask`, or the defaults.

    ask: asks the user for what no flag gives; None: there is no terminal. UserInputError: with
    neither `ask` nor `--yes`, a flag is missing; or an answer is not printable.
    """
    answers: dict[str, str] = {}
    missing = []
    for flag, _, usual, why in QUESTIONS:
        default = arguments.experiment.stem if flag == "--name" else usual
        if flag == "--zone" and not default.startswith(answers["--region"]):
            default = ""  # the default zone is in the default region, and none is known in another
        answer = getattr(arguments, flag)
        if answer is None and ask and not arguments.yes:
            answer = ask(f"{why}\n{flag} [{default}]: ").strip()
        elif answer is None and usual and not arguments.yes:
            missing.append(flag)
        answers[flag] = answer or default
        if not answers[flag].isprintable():
            raise UserInputError(f"{flag}: given {answers[flag]!r}, allowed: printable text")
    if missing:
        raise UserInputError(
            f"{', '.join(missing)}: given nothing, and standard input is no terminal; next: give "
            "these flags, or --yes for the defaults"
        )
    return answers


def _import(arguments: argparse.Namespace, out: Path) -> Path:
    """Import the prompts of a log of requests, as the command `draftworth prompts import` does.

    Return the folder of the new prompt class.
    """
    log = Path(arguments.source)
    name = as_name(Path(os.path.realpath(log)).stem)[:MAX_NAME_LENGTH]
    order = ImportOrder(source=log, format=arguments.format, out=out, prompt_class=name)
    print_imported(import_prompts(order, show_progress), order)
    arguments.source = str(out / name)
    return out / name


def _new_experiment(
    arguments: argparse.Namespace, answers: Mapping[str, str], measured: run_folder.Run | None
) -> NewExperiment:
    folder, price = Path(answers["--prompts"]), arguments.usd_per_hour
    if arguments.source and Path(arguments.source).is_file():
        folder = _import(arguments, folder)
    return new_experiment(
        answers,
        cases=find_cases(folder),
        run=measured,
        price=NodePrice(usd_per_hour=price, as_of=_today()) if price else None,
        prompts_dir=_prompts_dir(folder, arguments.experiment),
    )


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


def _prompts_dir(folder: Path, experiment: Path) -> str:
    """Return the folder that has a folder for each class, relative to the experiment file.

    folder: this folder, or that of one class, which has prompt files directly in it.
    """
    if any(folder.glob(f"*{CASE_SUFFIX}")):
        folder = folder.resolve().parent
    return os.path.relpath(folder.resolve(), experiment.parent.resolve())


def _text(experiment: NewExperiment) -> str:
    environment = Environment(  # noqa: S701 (YAML, in which each value is JSON)
        loader=PackageLoader("draftworth.cli", "."),
        finalize=lambda value: json.dumps(value, ensure_ascii=False),
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template("experiment.yaml.jinja").render(vars(experiment))


def _sentence(problem: Problem) -> str:
    flags = {key: flag for flag, key, *_ in QUESTIONS} | _OTHER_FLAGS
    where = next((f for k, f in flags.items() if problem.dotted_key.startswith(k)), "the file")
    return f"{where}: given {problem.actual}, allowed: {problem.allowed}; {problem.reason}"
