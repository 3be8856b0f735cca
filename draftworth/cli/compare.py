"""`draftworth compare` measures OpenAI-compatible servers in turn, and says which token costs less.

The servers are the user's own: their names, windows and prices are what the user says, and what
the user does not say is not known. The requests are those of `measure`.
"""

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from draftworth.cli import arguments, measure
from draftworth.errors import UserInputError
from draftworth.measuring.run_specification import Endpoint
from draftworth.records.results import AS_SHIPPED, CONTROL, MAX_VARIANTS
from draftworth.speculation import most_tokens_per_step
from draftworth.untrusted import one_line

BASELINE = "baseline"
_SETTINGS = "[,window=K][,usd_per_hour=X]"
_EXAMPLE = "fast=http://localhost:8001,window=5,usd_per_hour=1.20"
# More rounds than this only narrow an interval, and end when it is as narrow as an experiment's.
_LEAST_ROUNDS, _INTERVAL_WIDTH = 2, 0.1


@dataclass(frozen=True, kw_only=True)
class _Side:
    """A server as it is given. window: the drafted tokens that a step checks; None: not given."""

    name: str
    option: str
    url: str
    window: int | None
    usd_per_hour: float | None

    @property
    def endpoint(self) -> Endpoint:
        most = 1 if self.name == BASELINE else None
        if self.window is not None:
            most = most_tokens_per_step(self.window, checks_all=True)
        return Endpoint(
            variant=self.name,
            base_url=self.url,
            max_tokens_per_step=most,
            is_baseline=self.name == BASELINE,
        )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the servers, the output folder and the options of the requests."""
    parser.add_argument(
        "--baseline",
        required=True,
        metavar=f"URL{_SETTINGS}",
        help="the server without speculation, with what it costs an hour",
    )
    parser.add_argument(
        "--variant",
        required=True,
        action="append",
        metavar=f"NAME=URL{_SETTINGS}",
        help="a server with speculation; may be repeated. K: drafted tokens that a step checks; "
        f"without it, acceptance is told only where the server counts it. E.g. {_EXAMPLE}",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("runs"), help="folder for the run's files (%(default)s)"
    )
    parser.set_defaults(requests_per_second=None)  # `measure` has it: no cost a token, no verdict
    rounds = 8, "at most, of all prompt files; fewer once the intervals are narrow"
    measure.add_request_arguments(parser, parser, rounds=rounds)


def run(given: argparse.Namespace) -> int:
    """Measure all servers in turn and print the verdict."""
    sides = (_side("--baseline", BASELINE, given.baseline), *map(_variant, given.variant))
    _check_names([side.name for side in sides[1:]])
    price = measure.price_of(given, _prices(sides), next_step="add ,usd_per_hour=X to each server")
    spec = measure.run_spec(
        given,
        "compare",
        tuple(side.endpoint for side in sides),
        price,
        least_rounds=_LEAST_ROUNDS,
        target_interval_width=_INTERVAL_WIDTH,
    )
    options = {side.name: side.option for side in sides}
    return measure.measure_and_print(given.out, spec, options)


def _variant(text: str) -> _Side:
    name, equals, rest = text.partition("=")
    if not equals or "/" in name:
        raise UserInputError(
            f"--variant: given {_shown(text)}, allowed: NAME=URL{_SETTINGS}; next: give the server "
            f"a name, for example {_EXAMPLE}"
        )
    return _side(f"--variant {one_line(name)}", name, rest)


def _side(option: str, name: str, text: str) -> _Side:
    url, *settings = text.split(",")
    found: dict[str, str] = {}
    for setting in settings:
        key, _, value = setting.partition("=")
        if key not in _PARSE or key in found:
            raise UserInputError(
                f"{option}: given {_shown(setting)}, allowed after the address: "
                f"{', '.join(f'{key}=...' for key in _PARSE)}, each once, for example {_EXAMPLE}"
            )
        found[key] = value
    values = {key: _value(f"{option}: {key}", key, found[key]) for key in found}
    window = values.get("window")
    return _Side(
        name=name,
        option=option,
        url=arguments.base_url(url, option=option),
        window=None if window is None else int(window),
        usd_per_hour=values.get("usd_per_hour"),
    )


_PARSE: Mapping[str, Callable[[str], float]] = {
    "window": partial(arguments.positive_int, at_most=1_000),
    "usd_per_hour": arguments.positive_number,
}


def _value(where: str, key: str, text: str) -> float:
    try:
        return float(_PARSE[key](text))
    except argparse.ArgumentTypeError as error:
        raise UserInputError(f"{where}: {error}") from None


def _check_names(names: list[str]) -> None:
    if len(names) >= MAX_VARIANTS:
        raise UserInputError(
            f"--variant: given {len(names)} times, allowed: at most {MAX_VARIANTS - 1} times"
        )
    taken = {BASELINE, AS_SHIPPED, CONTROL}
    for name in names:
        arguments.name_in_files(name, option="--variant")
        if name in taken:
            raise UserInputError(
                f"--variant: given the name {name!r}, allowed: a name that no other server has, "
                f"and none of {BASELINE}, {AS_SHIPPED}, {CONTROL}, which reports use"
            )
        taken.add(name)


def _prices(sides: tuple[_Side, ...]) -> Mapping[str, float]:
    prices = {s.name: s.usd_per_hour for s in sides if s.usd_per_hour is not None}
    if missing := [s.name for s in sides if s.name not in prices and prices]:
        raise UserInputError(
            f"usd_per_hour: given for {', '.join(prices)} and not for {', '.join(missing)}, "
            "allowed: for every server, or for none, which takes them to cost the same; next: add "
            f",usd_per_hour=X to {', '.join(missing)}"
        )
    return prices


def _shown(text: str) -> str:
    if "@" in text:  # a password could be anywhere in what is not understood
        return "an address with a user name or password (not shown)"
    return repr(one_line(text, characters=80))
