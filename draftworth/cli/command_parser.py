"""Parses a command line; a mistake becomes a UserInputError in the form of all our messages.

argparse itself prints the usage, which has 20 lines for some commands, and then a sentence of its
own form. It also takes the beginning of an option for the option, so that `--out` of one version
could become `--output-tokens` in the next one.
"""

import argparse
import re
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from draftworth.errors import UserInputError, suggestion
from draftworth.untrusted import one_line

# The sentences of argparse in the words of our messages; others stay as they are.
_REWORDED = (
    (
        r"argument (?P<where>.+?): invalid choice: (?P<given>.*) \(choose from (?P<allowed>.*)\)",
        "{where}: given {given}, allowed: {allowed}",
    ),
    (
        r"argument (?P<where>.+?): expected (one|at least one) argument",
        (
            "{where}: given without a value, allowed: {where} VALUE, or {where}=VALUE if the value "
            "begins with a hyphen"
        ),
    ),
    (
        r"argument (?P<where>.+?): not allowed with argument (?P<other>.+)",
        "{where}: given with {other}, allowed: one of the two",
    ),
    (
        r"argument (?P<where>.+?): ignored explicit argument (?P<given>.+)",
        "{where}: given with the value {given}, allowed: {where} alone",
    ),
    (r"argument (?P<where>\S+): (?P<rest>.+)", "{where}: {rest}"),
)
# Options begin alike (`--`), so that unlike words of five letters are nearer than elsewhere.
_ALIKE = 0.7
_MISSING = "the following arguments are required: "
_CHOICE = re.compile(r"'([^']*)'")


class CommandParser(argparse.ArgumentParser):
    """A parser that takes no abbreviated options, and whose errors say what is allowed."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, allow_abbrev=False)

    def parse_known_args(  # type: ignore[override]  # argparse has three overloads of it
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse all arguments; UserInputError: one is wrong or unknown, or one is missing."""
        # An option that is written wrongly is named before one that is missing, because mostly
        # they are one mistake.
        for argument in self._options_in(args or ()):
            if argument.partition("=")[0] not in self._option_string_actions:
                self._refuse(argument)
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self._refuse(unknown[0])
        return parsed, unknown

    def error(self, message: str) -> NoReturn:
        """Raise UserInputError in our words for a message of argparse."""
        if missing := message.removeprefix(_MISSING) if message.startswith(_MISSING) else "":
            message = f"{missing}: given nothing, allowed: {self._meaning(missing)}"
        raise UserInputError(f"{_words(message)}; next: {self.prog} --help")

    def _meaning(self, missing: str) -> str:
        """Return what the help says of the first missing argument, without its details."""
        first = missing.partition(", ")[0]
        for action in self._actions:
            if first in (action.metavar, action.dest, *action.option_strings) and action.help:
                return re.split(r"; | \(", action.help)[0]
        return "a value"

    def _options_in(self, arguments: Sequence[str]) -> Iterator[str]:
        """Yield the arguments that begin with `--`, up to the name of a subcommand or to `--`."""
        for argument in arguments:
            if argument == "--" or (self._subparsers and not argument.startswith("-")):
                return
            if argument.startswith("--") and " " not in argument:
                yield argument

    def _refuse(self, argument: str) -> NoReturn:
        if argument.startswith("-"):
            option = argument.partition("=")[0]
            near = self._behind_a_value(option) or self._longer(option)
            near = near or suggestion(option, self._option_string_actions, cutoff=_ALIKE)
            what = f"{one_line(option, characters=80)}: {self.prog} has no such option"
            raise UserInputError(f"{what}{near}; next: {self.prog} --help")
        # An argument in a wrong place may be an address with a password, which is not printed.
        quoted = "an address with a password" if "@" in argument else repr(one_line(argument))
        command = self.prog.partition(" ")[2] or self.prog
        raise UserInputError(
            f"{command}: given {quoted}, allowed: {self._places() or 'options alone'}; next: "
            f"leave it out, or put the option before it that it belongs to: {self.prog} --help"
        )

    def _behind_a_value(self, option: str) -> str:
        """Say where a setting is written that stands behind another option's value."""
        setting = f",{option.lstrip('-').replace('-', '_')}="
        for action in reversed(self._actions):
            if setting in str(action.metavar):
                place = f"{action.option_strings[0]} {action.metavar}"
                return f", the setting stands behind the address, as in {place}"
        return ""

    def _longer(self, option: str) -> str:
        end = option.removeprefix("-")
        options = self._option_string_actions
        longer = (o for o in options if o.startswith(option) or o.endswith(end))
        return f"; did you mean {name!r}?" if (name := next(longer, "")) else ""

    def _places(self) -> str:
        """Return the names of the arguments that are no options, as the help has them."""
        places = (action for action in self._actions if not action.option_strings)
        return ", ".join(str(action.metavar or action.dest) for action in places)


def _words(message: str) -> str:
    for pattern, words in _REWORDED:
        if match := re.fullmatch(pattern, message, re.DOTALL):
            parts = match.groupdict()
            text = words.format_map(parts)
            if "allowed" in parts:
                choices = _CHOICE.findall(parts["allowed"])
                text += suggestion(parts["given"].strip("'"), choices)
            return text
    return message
