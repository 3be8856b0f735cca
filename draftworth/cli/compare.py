"""`draftworth compare` measures OpenAI-compatible servers, and says whose tokens cost less.

The servers are the user's own, so their names, windows and prices are known only from the command's
options. The requests are sent as `draftworth measure` sends them.
"""

import argparse
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from draftworth.analysis.spread import MIN_PROMPTS
from draftworth.cli import arguments, measure, resuming
from draftworth.errors import UserInputError, counted
from draftworth.measuring.run_specification import Endpoint, RunSpec
from draftworth.measuring.unended_runs import BegunRun
from draftworth.records.results import MAX_VARIANTS, Price
from draftworth.report.reason_sentences import ENOUGH
from draftworth.speculation import most_tokens_per_step
from draftworth.untrusted import one_line

BASELINE = "baseline"
# Outlasts what a block leaves behind on a shared host if that halves every two requests
# (docs/appendix/calibration.md, section Misleading worlds).
_LONG_WARMUP = 8
_SETTINGS = "[,window=K[,ngram=MIN-MAX]][,usd_per_hour=X]"
_ADD_PRICES = "add ,usd_per_hour=X to each server"
_EXAMPLE = "fast=http://localhost:8001,window=5,usd_per_hour=1.20"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the servers, the output folder and the options of the requests."""
    parser.add_argument(
        "--baseline",
        metavar=f"URL{_SETTINGS}",
        help="the server without speculation; usd_per_hour: its price",
    )
    parser.add_argument(
        "--variant",
        action="append",
        metavar=f"NAME=URL{_SETTINGS}",
        help="a server with speculation; may be repeated. window: drafted tokens per step (without "
        "it, acceptance is reported only if the server counts it). ngram: for a server that drafts "
        "by n-grams, its prompt_lookup_min and prompt_lookup_max (vLLM); the answer then says how "
        f"many tokens per step the engine loses. For example {_EXAMPLE}",
    )
    parser.add_argument("--out", type=Path, help="folder for the run's files (runs)")
    # Only `measure` has the option --requests-per-second: at a given rate of requests there is no
    # cost per token, which the verdict of `compare` needs.
    parser.set_defaults(requests_per_second=None)
    parser.add_argument(
        "--again",
        metavar="RUN",
        type=Path,
        help="measure again with the servers, prompts and settings of RUN; options beside it "
        "change them, such as --cache salted",
    )
    rounds = (
        "at most this many rounds of a prompt file at a load; fewer once intervals are narrow (8)"
    )
    measure.add_request_arguments(parser, parser, rounds=rounds)


_DEFAULTS = {**resuming.DEFAULTS, "rounds": 8}


def run(options: argparse.Namespace) -> int:
    """Measure all servers in turn and print the verdict."""
    repeated = resuming.repeated(options, "compare")
    resumed = resuming.resumed(options, "compare")
    begun = repeated or resumed
    options = resuming.completed(options, begun, _DEFAULTS, needed=("baseline", "variant"))
    endpoints, price = _servers(options, begun)
    _check_that_servers_differ(endpoints)
    spec = measure.run_spec(options, "compare", endpoints, price, begun, may_end_early=True)
    if resumed is None:
        _note_what_one_host_means(endpoints, warmup_requests=options.warmup_requests)
    _note_what_is_too_few(options.rounds, sum(len(case.prompts) for case in spec.cases))
    url_options = {e.variant: f"--variant {e.variant}" for e in endpoints}
    url_options[BASELINE] = "--baseline"
    return measure.measure_and_print(
        options, spec, url_options, resumed, then=partial(_say_what_engines_lose, spec)
    )


def _say_what_engines_lose(spec: RunSpec, folder: Path, progress: Callable[[str], None]) -> None:
    if any(endpoint.lookup_lengths for endpoint in spec.endpoints):
        # Imported here, because it loads pydantic: slow, and only n-gram drafting needs it.
        from draftworth.cli.compare_engines import keep_engine_losses

        keep_engine_losses(spec, folder, progress)


def _servers(
    options: argparse.Namespace, begun: BegunRun | None
) -> tuple[tuple[Endpoint, ...], Price | None]:
    """Return the servers and their price, from the options or else from the resumed run.

    begun: the run to resume or to repeat; None: a new run. UserInputError: an option is wrong or
    missing.
    """
    if begun is not None and not (options.baseline or options.variant):
        price = begun.spec.price
        if price is None:
            # That run has no price. `price_of` returns None, or raises an error if an
            # option gives the source or the day of a price.
            return begun.spec.endpoints, measure.price_of(options, {}, next_step=_ADD_PRICES)
        day = options.price_as_of.isoformat()
        return begun.spec.endpoints, replace(price, source=options.price_source, as_of=day)
    if not (options.baseline and options.variant):
        option = "--resume" if options.resume else "--again"
        raise UserInputError(
            f"{option}: given with a part of the servers, allowed: with all of them, or with none, "
            "as the run has recorded them"
        )
    usd_per_hour: dict[str, float | None] = {}
    endpoints = [_endpoint(BASELINE, "--baseline", options.baseline, usd_per_hour)]
    for text in options.variant:
        name, url = _name(text, usd_per_hour), text.partition("=")[2]
        endpoints.append(_endpoint(name, f"--variant {name}", url, usd_per_hour))
    prices = _prices(usd_per_hour)
    price = measure.price_of(options, prices, next_step=_ADD_PRICES)
    return tuple(endpoints), price


def _name(text: str, taken: Collection[str]) -> str:
    """Return the name in NAME=URL.

    taken: the names that other servers already have. UserInputError: the name is missing, wrong or
    in `taken`; or this would be one server more than a run may have.
    """
    name, equals, _ = text.partition("=")
    if not equals or "/" in name:
        # An argument that cannot be parsed may have a password anywhere, so it is not printed.
        quoted = "an address with a password" if "@" in text else repr(one_line(text))
        raise UserInputError(
            f"--variant: given {quoted}, allowed: NAME=URL{_SETTINGS}; next: give the server a "
            f"name, for example {_EXAMPLE}"
        )
    arguments.name_in_files(name, option="--variant")
    if name in taken or len(taken) == MAX_VARIANTS:
        raise UserInputError(
            f"--variant: given the name {name!r}, allowed: a name that no other server has, and "
            f"not {BASELINE}; up to {MAX_VARIANTS} servers"
        )
    return name


def _endpoint(name: str, option: str, text: str, usd_per_hour: dict[str, float | None]) -> Endpoint:
    """Parse a server's URL and settings in `text`; add its price, or None, to `usd_per_hour`.

    option: the words that begin an error message. UserInputError: the URL or a setting is wrong.
    """
    url, *settings = text.split(",")
    values: dict[str, Any] = {}
    for setting in settings:
        key, _, value = setting.partition("=")
        if key not in _PARSE or key in values:
            raise UserInputError(
                f"{option}: given {one_line(setting)!r}, allowed after the address: "
                f"{', '.join(f'{key}=...' for key in _PARSE)}, each once, for example {_EXAMPLE}"
            )
        try:
            values[key] = _PARSE[key](value)
        except argparse.ArgumentTypeError as error:
            raise UserInputError(f"{option}: {key}: {error}; for example {_EXAMPLE}") from None
    if "ngram" in values and "window" not in values:
        raise UserInputError(
            f"{option}: ngram: given without window, allowed: with window=K, the most tokens that "
            "a step drafts (num_speculative_tokens)"
        )
    usd_per_hour[name] = values.get("usd_per_hour")
    most = 1 if name == BASELINE else None
    if "window" in values:
        most = most_tokens_per_step(int(values["window"]), checks_all=True)
    return Endpoint(
        variant=name,
        base_url=arguments.base_url(url, option=option),
        max_tokens_per_step=most,
        is_baseline=name == BASELINE,
        lookup_lengths=values.get("ngram"),
    )


def _lookup_lengths(text: str) -> tuple[int, int]:
    """Parse how many tokens n-gram drafting looks up, the fewest and the most.

    argparse.ArgumentTypeError: the text has other numbers.
    """
    fewest, hyphen, most = text.partition("-")
    both = _LENGTH(fewest), _LENGTH(most if hyphen else fewest)
    if both[0] > both[1]:
        raise argparse.ArgumentTypeError(
            f"given {text}, allowed: MIN-MAX with the fewer tokens first"
        )
    return both


_LENGTH = partial(arguments.positive_int, at_most=1_000)
_PARSE: Mapping[str, Callable[[str], Any]] = {
    "window": _LENGTH,
    "ngram": _lookup_lengths,
    "usd_per_hour": arguments.positive_number,
}


def _check_that_servers_differ(endpoints: Sequence[Endpoint]) -> None:
    by_server: dict[tuple[str, int, str], Endpoint] = {}
    for endpoint in endpoints:
        first = by_server.setdefault(arguments.server_at(endpoint.base_url), endpoint)
        if first is not endpoint:
            raise UserInputError(
                f"--variant {endpoint.variant}: given {endpoint.base_url}, which is the address of "
                f"{first.variant} ({first.base_url}), allowed: a server of its own; next: correct "
                "the address"
            )


def _note_what_one_host_means(endpoints: Sequence[Endpoint], *, warmup_requests: int) -> None:
    """Print a note about servers of one host; no order of blocks cancels what they do there.

    warmup_requests: the number of requests that each block begins with and that do not count.
    """
    next_step = (
        f"; next: with --warmup-requests {_LONG_WARMUP} the first eight of each block do not count"
    )
    by_host: dict[str, list[str]] = {}
    for endpoint in endpoints:
        host, _, _ = arguments.server_at(endpoint.base_url)
        by_host.setdefault(host, []).append(endpoint.variant)
    for names in by_host.values():
        if len(names) > 1:
            print(
                f"note: {' and '.join(names)} are on one host: a block that follows another "
                "server's may be slowed by it (heat, caches, memory), and the answer contains what "
                f"lasts longer than {counted(warmup_requests, 'request')}"
                f"{next_step if warmup_requests < _LONG_WARMUP else ''}",
                file=sys.stderr,
            )


def _note_what_is_too_few(rounds: int, prompts: int) -> None:
    if rounds < 2 or prompts < MIN_PROMPTS:
        print(
            f"note: there will be no decision: an interval takes {ENOUGH}, "
            f"given {counted(prompts, 'prompt')} in {counted(rounds, 'round')}",
            file=sys.stderr,
        )


def _prices(usd_per_hour: Mapping[str, float | None]) -> Mapping[str, float]:
    prices = {name: usd for name, usd in usd_per_hour.items() if usd is not None}
    if prices and (missing := ", ".join(n for n in usd_per_hour if n not in prices)):
        raise UserInputError(
            f"usd_per_hour: given for {', '.join(prices)} and not for {missing}, allowed: for "
            "every server, or for none, which takes them to cost the same; next: add "
            f",usd_per_hour=X to {missing}"
        )
    return prices
