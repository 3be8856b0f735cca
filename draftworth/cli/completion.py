"""`draftworth completion` prints a script with which a shell completes draftworth's commands."""

import argparse

import shtab

from draftworth import cli


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the argument `shell`."""
    parser.add_argument("shell", choices=shtab.SUPPORTED_SHELLS)


def run(arguments: argparse.Namespace) -> int:
    """Print the shell's script."""
    parser = cli.parser_of(*cli.COMMANDS)
    parser.prog = "draftworth"
    print(shtab.complete(parser, shell=arguments.shell))
    return 0
