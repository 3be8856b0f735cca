"""The command line: `python -m draftworth COMMAND ...`.

Exit codes: 0 done, 1 the command failed or was interrupted, 2 the input is wrong. A user's mistake
gets a message, not a traceback. SIGTERM and SIGHUP do the same as Ctrl-C: the command ends every
process that it started.

Each command is a module with `add_arguments(parser)` and `run(arguments) -> exit code`, which is
imported only when called: `import draftworth.cli` loads neither `charts` nor `rehearsal`.
"""

import argparse
import importlib
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from draftworth import __version__, errors, terminal, untrusted

EXIT_DONE, EXIT_FAILED, EXIT_MISUSE = 0, 1, 2

# Each command and its description.
COMMANDS: Mapping[str, str] = {
    "plan": "variants, placement, artifact keys, flags, time line and cost; no AWS call",
    "preflight": "check the account before a deploy: region, quota, reservation, bootstrap, secret",
    "price": "what a node costs, asked of AWS once where the experiment leaves it out",
    "manifests": "every Kubernetes object as YAML, for a cluster you have; --winner RUN: the "
    "winner alone",
    "measure": "measure one OpenAI-compatible endpoint with the client that the Job uses",
    "prompts": "prompt sets from logs (OpenAI, SageMaker, ShareGPT) and public sets: prompts "
    "import",
    "report": "the verdict of a run, from its folder or S3: tables, HTML, plots, CSV; lists runs",
    "stop": "accelerator nodes to zero now, and watch them go; --resume lets them come again",
    "logs": "what the pods said, from Container Insights; no kubectl needed",
    "artifacts": "which compiled graphs exist, which variants would compile; --run prunes",
    "leftovers": "what of an experiment still exists in the account, and what it costs a month",
    "delete-assets": "delete what deploys uploaded, prompts above all, once the stack is gone",
    "rehearse": "run a whole experiment on this machine: real engines, emulated AWS, a verdict",
    "estimate": "what a draft would yield and save, from outputs that exist; needs no device",
    "schema": "the JSON Schema of experiment files, for editors",
}
# The module of a command has the command's name and is in this package, except for these commands.
_OF_ACCOUNT = ("preflight", "price", "stop", "logs", "artifacts", "leftovers", "delete-assets")
_ELSEWHERE = {"manifests": "charts.command", "rehearse": "rehearsal.command"}


def main(argv: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    try:
        with terminal.text_only():
            exit_code = _exit_code(argv)
            sys.stdout.flush()
            return exit_code
    except BrokenPipeError:
        # The program that reads standard output (head, less) has ended.
        sys.stderr.close()
        return EXIT_DONE
    except OSError as error:
        # Standard output is on a full disk; it is replaced, because Python would flush it at exit.
        sys.stderr.write(f"draftworth: {untrusted.printable(str(error))}\n")
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


@contextmanager
def _interrupted_by(*numbers: signal.Signals) -> Iterator[None]:
    """Make these signals do the same as SIGINT, unless they are ignored (`nohup`)."""
    before = {number: signal.getsignal(number) for number in numbers}
    before = {number: old for number, old in before.items() if old is not signal.SIG_IGN}
    for number in before:
        # SIGINT instead of KeyboardInterrupt, because asyncio's SIGINT handler cancels its tasks.
        signal.signal(number, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def _run(argv: Sequence[str]) -> int:
    outer = argparse.ArgumentParser(
        prog="python -m draftworth",
        description="Does speculative decoding pay for your prompts on AWS Trainium2?",
        epilog="commands:\n"
        + "\n".join(f"  {name:<13} {summary}" for name, summary in COMMANDS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    outer.add_argument("--version", action="version", version=f"draftworth {__version__}")
    outer.add_argument("command", metavar="COMMAND", help="one of those below, each with --help")
    if not argv:  # exit code 2, as from argparse if the command is missing
        outer.print_help(sys.stderr)
        return EXIT_MISUSE
    # Only the command is parsed here; its module parses the other arguments.
    command = outer.parse_args(argv[:1]).command
    if command not in COMMANDS:
        near = errors.suggestion(command, COMMANDS)
        outer.error(f"COMMAND: given {command!r}, allowed: {', '.join(COMMANDS)}{near}")
    summary = COMMANDS[command]
    # With this PATH, cdk8s finds Node.js in the virtual environment even if that is not activated.
    tools = Path(sys.executable).parent
    os.environ["PATH"] = f"{tools}{os.pathsep}{os.environ.get('PATH', '')}"
    module = _module(command)
    parser = argparse.ArgumentParser(prog=f"python -m draftworth {command}", description=summary)
    module.add_arguments(parser)
    return int(module.run(parser.parse_args(argv[1:])))


def _module(command: str) -> ModuleType:
    package = "draftworth.account" if command in _OF_ACCOUNT else "draftworth.cli"
    name = _ELSEWHERE.get(command, f"{package}.{command.replace('-', '_')}")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = str(error.name).partition(".")[0]
        if missing == name.partition(".")[0]:
            raise
        raise errors.DraftworthError(
            f"`{command}` needs the Python package {missing}, which is not installed for "
            f"{sys.executable}; next: `pip install -r requirements/rehearsal.txt`, which has what "
            "every command needs"
        ) from error
