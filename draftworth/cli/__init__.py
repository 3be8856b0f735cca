"""The command line: `draftworth COMMAND ...`.

Exit codes: 0 done, 1 the command failed or was interrupted, 2 the input is wrong. A user's mistake
gets a message, not a traceback. SIGTERM and SIGHUP do the same as Ctrl-C: the command ends every
process that it started.

Each command is a module of this package with the command's name, `add_arguments(parser)` and
`run(arguments) -> exit code`. It is imported only when the command is called. Where the work needs
what an installation may lack (boto3, or the folders `charts` and `rehearsal` of a checkout), it is
in a module elsewhere, and the one here, `NAME_command`, has the arguments and imports the work only
in `run`: `--help` and completion need no more than the package.
"""

import argparse
import importlib
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from draftworth import __version__, errors, terminal, untrusted
from draftworth.cli.command_parser import CommandParser

EXIT_DONE, EXIT_FAILED, EXIT_MISUSE = 0, 1, 2

# Each command and its description.
COMMANDS: Mapping[str, str] = {
    "init": "write an experiment for AWS, from a few answers or flags",
    "plan": "show what an experiment costs, how long it takes and what it runs; no AWS call",
    "preflight": "check the account before a deploy: region, quota, reservation, bootstrap, "
    "secrets",
    "price": "ask AWS once what a node costs, if the experiment names no price",
    "manifests": "write every Kubernetes object as YAML, for a cluster of yours; with --winner RUN "
    "the winner's alone",
    "compare": "compare your own OpenAI-compatible servers: does speculation pay on them?",
    "measure": "measure one OpenAI-compatible server in the way an experiment does",
    "prompts": "import prompts from logs (OpenAI, Anthropic, OpenTelemetry, CSV, others) and "
    "public sets; choose a few that stand for all",
    "report": "show the verdict of a run, as text, HTML, plots or CSV; or list the runs in S3",
    "gate": "check that an upgrade raises the cost of a token by at most a margin: exit code 0 or "
    "99, JUnit",
    "stop": "end the accelerator nodes now, and watch them go; --resume lets them start again",
    "logs": "show the pods' logs, from Container Insights; needs no kubectl",
    "artifacts": "list compiled graphs, and variants that have none yet; --run removes old graphs",
    "leftovers": "list what is left of an experiment in the account, with its cost per month",
    "delete-assets": "delete what deploys uploaded, prompts above all, once the stack is gone",
    "rehearse": "run a whole experiment on this machine: real engines, emulated AWS, a verdict",
    "estimate": "forecast from existing outputs what a draft would yield; needs no accelerator",
    "profile": "convert acceptance profiles to and from the forms of vLLM, SGLang and others",
    "truth-server": "run a server with a known token timeline, to check load generators",
    "conformance": "check the figures of a load generator: conformance -- COMMAND {url}",
    "completion": "print a shell script that completes these commands and their options",
    "schema": "print the JSON Schema of experiment files, for editors",
}
# The help's headings, and the commands below each.
GROUPS: Mapping[str, Sequence[str]] = {
    "measure whether speculation pays, on your servers or this machine": (
        *("compare", "measure", "report", "gate", "prompts", "estimate", "rehearse"),
    ),
    "deploy an experiment on AWS, and remove it": (
        *("init", "plan", "price", "preflight", "stop", "logs"),
        *("artifacts", "leftovers", "delete-assets"),
    ),
    "serve what was measured, on servers of your own": ("manifests", "profile"),
    "check load generators, experiment files and command lines": (
        *("conformance", "truth-server", "schema", "completion"),
    ),
}
# The commands whose modules here are `NAME_command`, because their work is in a module NAME.
_WORK_ELSEWHERE = (
    *("preflight", "price", "stop", "logs", "artifacts", "leftovers", "delete-assets"),
    *("manifests", "rehearse"),
)
# For each library, the extra of this package (`pyproject.toml`) that installs it.
EXTRAS = {
    "boto3": "aws",
    "botocore": "aws",
    "jmespath": "aws",
    "matplotlib": "plots",
    "tokenizers": "estimate",
}
# Environment variables with secrets. Servers and child processes get the secrets and may print
# them, so they are hidden in all text that this program prints.
_SECRET_VARIABLES = ("OPENAI_API_KEY", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
# Python packages that lie beside the folder `draftworth` in the repository. Commands import them,
# but an installation with pip does not have them.
_ONLY_IN_A_CHECKOUT = ("charts", "rehearsal")
_ROOT = Path(__file__).resolve().parents[2]


def command() -> None:
    """Run the installed package's command `draftworth`."""
    sys.exit(main(sys.argv[1:]))


def main(argv: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    for name in _SECRET_VARIABLES:
        untrusted.hide_secret(name, os.environ.get(name, ""))
    try:
        with terminal.text_only():
            exit_code = _exit_code(argv)
            sys.stdout.flush()
            return exit_code
    except BrokenPipeError:
        # The program that reads standard output (head, less) has ended. Without standard error,
        # Python cannot print a second error when it flushes standard output at exit.
        sys.stderr.close()
        return EXIT_DONE
    except OSError as error:
        sys.stderr.write(f"draftworth: {untrusted.printable(str(error))}\n")
        # Standard output cannot be written, for example because its disk is full. It is replaced,
        # because Python flushes it at exit and would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED


def _exit_code(argv: Sequence[str]) -> int:
    try:
        with _interrupted_by(signal.SIGTERM, signal.SIGHUP):
            return _run(argv)
    except errors.DraftworthError as error:
        print(f"draftworth: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("draftworth: interrupted", file=sys.stderr)
        return EXIT_FAILED


def _interrupt(*_: object) -> None:
    # If a shell script starts this program with `&`, the shell makes it ignore SIGINT, so Python's
    # own handler, which raises KeyboardInterrupt, is installed first.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # SIGINT is raised and not KeyboardInterrupt, because asyncio cancels its tasks only if its own
    # handler of SIGINT is called.
    signal.raise_signal(signal.SIGINT)


@contextmanager
def _interrupted_by(*numbers: signal.Signals) -> Iterator[None]:
    """In the `with` block, let each of these signals interrupt the program as SIGINT does.

    A signal that the process ignores, as SIGHUP under `nohup`, stays ignored.
    """
    before = {number: signal.getsignal(number) for number in numbers}
    before = {number: old for number, old in before.items() if old is not signal.SIG_IGN}
    for number in before:
        signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


class _Parser(CommandParser):
    """A parser whose help lists the commands below the headings in `GROUPS`."""

    def format_help(self) -> str:
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        for heading, names in GROUPS.items():
            formatter.start_section(heading)
            formatter.add_arguments(argparse.Action([], n, help=COMMANDS[n]) for n in names)
            formatter.end_section()
        formatter.start_section("options")
        formatter.add_arguments(action for action in self._actions if action.option_strings)
        formatter.end_section()
        return formatter.format_help()


def parser_of(*commands: str) -> argparse.ArgumentParser:
    """Return a parser with all command names, but only with the arguments of these `commands`."""
    parser = _Parser(
        prog="draftworth",
        description="Does speculative decoding pay for your prompts, on your servers or AWS?",
    )
    parser.add_argument("--version", action="version", version=f"draftworth {__version__}")
    several = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=CommandParser)
    for name, summary in COMMANDS.items():
        is_used = name in commands
        # An option `-h` for each of the others would take a quarter of the time.
        command_parser = several.add_parser(
            name, description=summary, help=summary, add_help=is_used
        )
        if is_used:
            _module_of(name).add_arguments(command_parser)
    return parser


def _run(argv: Sequence[str]) -> int:
    if not argv:  # exit code 2, as from argparse if the command is missing
        parser_of().print_help(sys.stderr)
        return EXIT_MISUSE
    if argv[0] == "help":  # `draftworth help COMMAND` is tried by whoever knows git
        argv = [*argv[1:2], "--help"]
    if argv[0] not in COMMANDS and not argv[0].startswith("-"):
        near = errors.suggestion(argv[0], COMMANDS)
        allowed = ", ".join(COMMANDS)
        parser_of().error(f"COMMAND: given {argv[0]!r}{near}, allowed: {allowed}")
    # With this PATH, cdk8s finds Node.js in the virtual environment even if that is not activated.
    tools = Path(sys.executable).parent
    os.environ["PATH"] = f"{tools}{os.pathsep}{os.environ.get('PATH', '')}"
    try:
        arguments = parser_of(argv[0]).parse_args(argv)
        return int(_module_of(argv[0]).run(arguments))
    except ModuleNotFoundError as error:
        if str(error.name).startswith("draftworth"):
            raise
        raise _not_installed(argv[0], error) from error


def _module_of(command: str) -> ModuleType:
    name = command.replace("-", "_") + ("_command" if command in _WORK_ELSEWHERE else "")
    return importlib.import_module(f"draftworth.cli.{name}")


def engine_installer() -> Callable[..., Path]:
    """Return the function that installs vLLM, torch and transformers for use on the CPU.

    ModuleNotFoundError: draftworth was installed as a package, which lacks `rehearsal`.
    """
    from rehearsal.install import install_engine

    return install_engine


def _not_installed(command: str, error: ModuleNotFoundError) -> errors.DraftworthError:
    missing = str(error.name).partition(".")[0]
    needs = f"the Python package {missing}, which is not installed for {sys.executable}"
    next_step = "`pip install -r requirements/rehearsal.txt`, which has what every command needs"
    if missing in _ONLY_IN_A_CHECKOUT:
        needs = f"a checkout of draftworth: {missing}/ is not in the package"
        next_step = "clone the repository, and there `make setup`; it has everything in .venv"
    elif missing in EXTRAS and not (_ROOT / "requirements").is_dir():
        next_step = install_words(EXTRAS[missing])
    return errors.DraftworthError(f"`{command}` needs {needs}; next: {next_step}")


def install_words(extra: str) -> str:
    """Return how an extra of this package is installed; no package index has the package."""
    return f"in a clone of the repository `pip install '.[{extra}]'`"
