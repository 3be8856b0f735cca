"""Parses the options of `report` that replace the weights, prices and limits of a finished run."""

import argparse
from collections.abc import Callable, Iterator, Sequence

from draftworth.cli.arguments import positive_number
from draftworth.decision.judged_anew import LIMITS, Choices
from draftworth.errors import UserInputError, suggestion
from draftworth.untrusted import one_line

# The options by their names in `argparse.Namespace`, each with an example of its values.
EXAMPLES = {
    "weights": "structured=60,open_ended=40",
    "usd_per_hour": "k7=30",
    "limit": "ttft_p95_ms=500",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that judge a finished run anew, with other weights, prices or limits."""
    parser.add_argument(
        "--weights",
        metavar="CLASS=PART,...",
        action="append",
        help="judge the run anew, with these parts of your output tokens: of every prompt class, "
        "relative to the others'",
    )
    parser.add_argument(
        "--usd-per-hour",
        metavar="VARIANT=USD,...",
        action="append",
        help="judge the run anew, with these prices per hour of a server; those that are left "
        "out keep the run's",
    )
    parser.add_argument(
        "--limit",
        metavar="NAME=NUMBER,...",
        action="append",
        help=f"judge the run anew, with these limits: {', '.join(LIMITS)}, as in an experiment's "
        "workload.limits",
    )


def choices_of(arguments: argparse.Namespace) -> Choices | None:
    """Return the weights, prices and limits that the options give; None: they give none.

    UserInputError: an option is wrong.
    """
    if not option_words(arguments):
        return None
    limits = _values(arguments, "limit", {name: _limit(name) for name in LIMITS})
    return Choices(
        class_weights=_values(arguments, "weights"),
        usd_per_hour=_values(arguments, "usd_per_hour"),
        limits=limits,
    )


def option_words(arguments: argparse.Namespace) -> list[str]:
    """Return the options as command-line words, to print a command that repeats the choices."""
    return [
        word
        for option in EXAMPLES
        for text in getattr(arguments, option) or ()
        for word in (f"--{option.replace('_', '-')}", text)
    ]


def _limit(name: str) -> Callable[[str], float]:
    return _percent if name.endswith("_percent") else positive_number


def _percent(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 100:
        raise argparse.ArgumentTypeError(
            f"given {one_line(text, characters=80)!r}, allowed: a number from 0 to 100"
        )
    return value


def _values(
    arguments: argparse.Namespace,
    option: str,
    parsers: dict[str, Callable[[str], float]] | None = None,
) -> dict[str, float]:
    """Return the numbers in an option's NAME=NUMBER pairs, by name.

    parsers: the function that parses the number, for each allowed name; None: every name is
    allowed, and numbers must be above 0. UserInputError: a name or a number is wrong.
    """
    flag, values = f"--{option.replace('_', '-')}", {}
    for name, text in _pairs(flag, getattr(arguments, option) or (), EXAMPLES[option]):
        printed = one_line(name, characters=80)
        if name in values:
            raise UserInputError(
                f"{flag}: given {printed} twice, allowed: each name once; next: leave one out"
            )
        if parsers is not None and name not in parsers:
            raise UserInputError(
                f"{flag}: given {printed}, allowed: {', '.join(parsers)}"
                f"{suggestion(name, parsers)}; next: for example {flag} {EXAMPLES[option]}"
            )
        try:
            values[name] = (parsers[name] if parsers else positive_number)(text)
        except argparse.ArgumentTypeError as error:
            raise UserInputError(
                f"{flag} {printed}: {error}; next: {flag} {printed}=NUMBER"
            ) from error
    return values


def _pairs(flag: str, texts: Sequence[str], example: str) -> Iterator[tuple[str, str]]:
    for pair in (pair for text in texts for pair in text.split(",")):
        name, _, number = pair.rpartition("=")
        if not name.strip():
            raise UserInputError(
                f"{flag}: given {one_line(pair, characters=80)!r}, allowed: NAME=NUMBER, several "
                f"with commas between them; next: for example {flag} {example}"
            )
        yield name, number
