"""`draftworth completion` prints a script with which a shell completes draftworth's commands."""

import argparse
from contextlib import suppress

import shtab

from draftworth import cli


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the argument `shell`."""
    parser.add_argument("shell", choices=shtab.SUPPORTED_SHELLS)


def run(arguments: argparse.Namespace) -> int:
    """Print the shell's script, without the options of commands whose libraries are missing."""
    importable = []
    for command in cli.COMMANDS:
        with suppress(ModuleNotFoundError):
            cli.module_of(command)
            importable.append(command)
    parser = cli.parser_of(*importable)
    parser.prog = "draftworth"
    print(shtab.complete(parser, shell=arguments.shell))
    return 0
