"""Replaces the weights, prices and limits of a finished run by those in options of `report`.

For an option that cannot be parsed, or that does not fit the run, UserInputError is raised, whose
message says what is allowed.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence

from draftworth.cli.arguments import positive_number
from draftworth.decision.judged_anew import (
    LIMITS,
    Choices,
    IsSearch,
    NamedChoice,
    NotJudgedAnewError,
    PriceOutOfRange,
    WhyNotJudgedAnew,
    WrongNames,
    judged_anew,
)
from draftworth.errors import UserInputError, suggestion
from draftworth.records.run_folder import Run
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
        help="judge the run anew with this mix: each prompt class with its part of your output "
        "tokens",
    )
    parser.add_argument(
        "--usd-per-hour",
        metavar="VARIANT=USD,...",
        action="append",
        help="judge the run anew with these prices of a server per hour; a server that is left "
        "out keeps the run's",
    )
    parser.add_argument(
        "--limit",
        metavar="NAME=NUMBER,...",
        action="append",
        help=f"judge the run anew with these limits: {', '.join(LIMITS)}, as in an experiment's "
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


def judged_with(run: Run, choices: Choices) -> Run:
    """Return the run with the weights, prices and limits that the user chose instead of its own.

    UserInputError: they do not fit the run.
    """
    try:
        return judged_anew(run, choices)
    except NotJudgedAnewError as error:
        raise UserInputError(_refusal_words(error.why)) from error


def _refusal_words(why: WhyNotJudgedAnew) -> str:
    match why:
        case IsSearch(run_id=run_id):
            return (
                f"RUN: given {one_line(run_id)}, which is a search, allowed: a run without one "
                "with --weights, --usd-per-hour or --limit; next: measure its best candidate in an "
                "experiment of its own, and judge that"
            )
        case WrongNames():
            option, allowed = _NAMED[why.of]
            steps = (
                *(f"leave out {_printed(name)}" for name in why.unknown),
                *(f"add {_printed(name)}=NUMBER" for name in why.missing),
            )
            return (
                f"{option}: given {_listed(why.chosen)}, allowed: {allowed} "
                f"({_listed(why.allowed) or 'this run has none'}); next: {', '.join(steps)}"
            )
        case PriceOutOfRange():
            least, most = why.least_usd_per_hour, why.most_usd_per_hour
            return (
                f"--usd-per-hour: given {_printed(why.variant)}={why.usd_per_hour:g}, allowed: "
                f"{least:g} to {most:g}, beside the other prices of this run; next: give a price "
                "in that range"
            )


# For each kind of value that a user can choose: its option, and words for the error message, which
# say for which names the option must give a value.
_NAMED: Mapping[NamedChoice, tuple[str, str]] = {
    "weight": ("--weights", "a weight of every prompt class measured and of no other"),
    "usd_per_hour": (
        "--usd-per-hour",
        "prices of the run's servers, at least of those that have none",
    ),
}


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(_printed, names))


def _printed(name: str) -> str:
    return one_line(name, characters=80)


def option_words(arguments: argparse.Namespace) -> list[str]:
    """Return the given weights, prices and limits as the words of a command line.

    They are part of the command that is printed as the next step: it judges the run alike.
    """
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
        printed = _printed(name)
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
