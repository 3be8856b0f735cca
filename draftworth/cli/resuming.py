"""Continues or repeats a run of `measure` or `compare` with the settings in its folder."""

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from draftworth.cli.arguments import (
    base_url,
    is_this_machine,
    past_day,
    positive_int,
    positive_number,
    short_text,
    whole_number,
)
from draftworth.errors import UserInputError
from draftworth.measuring import unended_runs
from draftworth.measuring.http_client import API_KEY_VARIABLE
from draftworth.measuring.run_specification import RunSpec
from draftworth.measuring.runner import new_run_id
from draftworth.measuring.unended_runs import BegunRun
from draftworth.records.results import MAX_REQUESTS_PER_BLOCK, RUNS_FOLDER, SPECIFICATION_FILE
from draftworth.untrusted import one_line

# The values that options have in a new run if they are not given.
DEFAULTS: dict[str, Any] = {
    "name": "measured",
    "out": Path(RUNS_FOLDER),
    "output_tokens": 128,
    "requests_per_case": 8,
    "rounds": 1,
    "warmup_requests": 1,
    "timeout_seconds": 300.0,
    "temperature": 0.0,
    "seed": 0,
    "fixed_length": False,
    "token_ids": False,
    "cache": "cold",
}


# By the first option that a command needs, a command line that has all of them.
_EXAMPLES = {
    "baseline": "draftworth compare --baseline http://localhost:8000 --variant "
    "fast=http://localhost:8001,window=5",
    "base_url": "draftworth measure --base-url http://localhost:8000",
}


def resumed(options: argparse.Namespace, command: str) -> BegunRun | None:
    """Return the run that `--resume` names, or None if the option is not given.

    command: the name of the command that runs now, which must have begun the run too.
    UserInputError: the run cannot be resumed.
    """
    if options.resume is None:
        return None
    begun = _read(options, "--resume", options.resume, command)
    folder, blocks = begun.folder, begun.history.blocks
    if result := begun.history.result:
        raise UserInputError(
            f"--resume: given {folder}, a run that has ended ({result.status}), allowed: one that "
            f"did not; next: draftworth report {folder}"
        )
    if blocks and blocks[0].run_id != folder.name:
        raise UserInputError(
            f"--resume: given {folder}, allowed: a folder with the run's own name; next: rename it "
            f"to {one_line(blocks[0].run_id)}"
        )
    return begun


def repeated(options: argparse.Namespace, command: str) -> BegunRun | None:
    """Return the run that `--again` names, or None if the option is not given.

    A new run takes its servers, prompts and settings. command: the name of the command that runs
    now, which must have made that run too. UserInputError: the run cannot be repeated.
    """
    if options.again is None:
        return None
    if options.resume is not None:
        raise UserInputError(
            "--again: given with --resume, allowed: one of them; next: --resume for a run that did "
            "not end, --again for one more run"
        )
    return _read(options, "--again", options.again, command)


def _read(options: argparse.Namespace, option: str, folder: Path, command: str) -> BegunRun:
    begun = unended_runs.read_begun_run(folder)
    if begun.spec.experiment != command:
        raise UserInputError(
            f"{option}: given {begun.folder}, a run of {one_line(begun.spec.experiment)}, allowed: "
            f"a run of {command}; next: give the folder of one"
        )
    for endpoint in begun.spec.endpoints:
        base_url(endpoint.base_url, option=f"{option}: {begun.folder}")
    _refuse_to_send_the_key(options, option, begun)
    return begun


def _refuse_to_send_the_key(options: argparse.Namespace, option: str, begun: BegunRun) -> None:
    """Raise UserInputError if the API key would go to a server that only the run's folder names.

    The folder may come from anybody, so its server could steal the key. A server on another machine
    must therefore be given on the command line too.
    """
    names = ("base_url",) if begun.spec.experiment == "measure" else ("baseline", "variant")
    urls = [endpoint.base_url for endpoint in begun.spec.endpoints]
    remote = [url for url in urls if not is_this_machine(url)]
    if remote and os.environ.get(API_KEY_VARIABLE) and not all(getattr(options, n) for n in names):
        words = " and ".join(f"--{name.replace('_', '-')}" for name in names)
        raise UserInputError(
            f"{option}: given {begun.folder}, which sends your {API_KEY_VARIABLE} to "
            f"{one_line(', '.join(remote))}, allowed: with {words} on the command line; next: add "
            f"them as the run began, or unset {API_KEY_VARIABLE}"
        )


def completed(
    options: argparse.Namespace,
    begun: BegunRun | None,
    defaults: Mapping[str, Any],
    *,
    needed: Sequence[str],
) -> argparse.Namespace:
    """Return the options, with values from the resumed run or `defaults` where none is given.

    begun: the resumed run; None: a new run, for which UserInputError is raised if an option in
    `needed` is missing.
    """
    values = dict(defaults)
    if begun is not None:
        values |= {"out": begun.folder.parent} | _recorded_options(begun)
    elif missing := [n for n in needed if getattr(options, n) is None]:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in missing)
        raise UserInputError(
            f"{names}: given nothing, allowed: a value; or --resume RUN alone, for a run that did "
            f"not end; next: for example {_EXAMPLES[needed[0]]}"
        )
    typed = {name: value for name, value in vars(options).items() if value is not None}
    if {"concurrency", "requests_per_second"} & typed.keys():
        values |= {"concurrency": None, "requests_per_second": None}
    return argparse.Namespace(**{**vars(options), **values, **typed})


def check_recorded(begun: BegunRun) -> None:
    """Raise UserInputError if the run began with a value that the command line would refuse."""
    _recorded_options(begun)


def _recorded_options(begun: BegunRun) -> dict[str, Any]:
    """Return the options with which the run began, as its folder has recorded them.

    UserInputError: a recorded value is one that the command line would refuse.
    """
    try:
        return _options_of(begun.spec)
    except (argparse.ArgumentTypeError, ArithmeticError, LookupError, ValueError) as error:
        raise UserInputError(
            f"{begun.folder / SPECIFICATION_FILE}: not one that this command has written: {error}"
        ) from error


def _options_of(spec: RunSpec) -> dict[str, Any]:
    # The file may come from anybody, so its numbers get the limits of the command line.
    shape, sampling, price, load = spec.shape, spec.sampling, spec.price, spec.loads[0]
    concurrencies = [one.in_flight for one in spec.loads if one.in_flight]
    requests = sampling.requests_per_round
    rounds = max(1, sampling.max_requests // (requests * len(set(spec.loads))))
    rate = getattr(load, "requests_per_second", None)
    return {
        "model": shape.model,
        "output_tokens": positive_int(str(shape.output_tokens)),
        "fixed_length": shape.fixed_output_length,
        "temperature": shape.temperature,
        "seed": whole_number(str(shape.seed)),
        "timeout_seconds": positive_number(str(shape.timeout_seconds)),
        "token_ids": shape.token_ids,
        "cache": shape.prompt_cache,
        "requests_per_case": positive_int(str(requests), at_most=MAX_REQUESTS_PER_BLOCK),
        "rounds": positive_int(str(rounds)),
        "warmup_requests": whole_number(str(sampling.warmup_requests)),
        "price_source": short_text(price.source) if price else None,
        "price_as_of": past_day(price.as_of) if price else None,
        "concurrency": concurrencies or None,
        "requests_per_second": None if rate is None else positive_number(str(rate)),
    }


def recorded_endpoint(spec: RunSpec) -> Mapping[str, Any]:
    """Return the recorded options of `measure` that describe the endpoint: URL, name and price."""
    usd = spec.price.usd_per_node_hour if spec.price else None
    endpoint = spec.endpoints[0]
    return {"base_url": endpoint.base_url, "name": endpoint.variant, "usd_per_hour": usd}


def run_folder(options: argparse.Namespace, spec: RunSpec, begun: BegunRun | None) -> Path:
    """Return the folder of a new run (`begun` is None) or of the resumed run.

    UserInputError: an option differs from what the resumed run has recorded.
    """
    out: Path = options.out
    if begun is None:
        return out / new_run_id(spec.experiment)
    unended_runs.refuse_other_run(spec, begun)
    if out.resolve() != begun.folder.parent:
        raise UserInputError(
            f"--out: given {out} with --resume, allowed: {begun.folder.parent}, where the run is; "
            "next: leave --out out"
        )
    return begun.folder
