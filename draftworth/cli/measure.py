"""`draftworth measure`: measures one OpenAI-compatible endpoint from this machine.

The requests are sent and timed by the same code as in the Kubernetes Job that measures on AWS.
"""

import argparse
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import get_args

from draftworth.cli import arguments, print_run, resuming, served
from draftworth.cli.progress import shown_progress
from draftworth.errors import DraftworthError, UserInputError
from draftworth.measuring import result_files, run_specification, unended_runs
from draftworth.measuring.journal import read_history
from draftworth.measuring.run_specification import RunSpec
from draftworth.measuring.runner import measure_here
from draftworth.measuring.unended_runs import BegunRun
from draftworth.records import results
from draftworth.records.load_shapes import ConcurrencyLoad, Load, PoissonLoad
from draftworth.records.prompt_files import CASE_SUFFIX, Case, load_case
from draftworth.untrusted import one_line

# Two files of the repository's `prompts/`, which the package has no other part of.
BUILT_IN_PROMPTS = Path(__file__).with_name("built_in_prompts")
_BUILT_IN_NOTE = (
    "note: without --prompts, the package's own prompts are measured: 8 that ask for code by a "
    "template, and 8 for letters; for an answer about your traffic give your own (docs/prompts.md)"
)
_NO_SOURCE = "given by hand, source not named"

# Called after a complete run, with its folder and a function that shows a line.
AfterRun = Callable[[Path, Callable[[str], None]], None]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the endpoint, its name and price, and the options of the requests."""
    parser.add_argument("--base-url", help="address of the server, e.g. http://localhost:8000")
    load = parser.add_mutually_exclusive_group()
    load.add_argument(
        "--requests-per-second",
        type=arguments.positive_number,
        help="instead of --concurrency: requests at random times (Poisson), at this mean rate",
    )
    add_request_arguments(
        parser,
        load,
        rounds="rounds of each prompt file at a load; an interval takes at least two (1)",
    )
    parser.add_argument("--out", type=Path, help="folder for the run's files (runs)")
    parser.add_argument("--name", help="the variant's name in the files (measured)")
    parser.add_argument(
        "--usd-per-hour",
        type=arguments.positive_number,
        help="price of the server, for what a token costs, and for `report RUN --against` this run",
    )


def add_request_arguments(
    parser: argparse.ArgumentParser,
    load: argparse.ArgumentParser | argparse._MutuallyExclusiveGroup,
    *,
    rounds: str,
) -> None:
    """Add the options that `compare` has too: model, prompts, requests and the source of prices.

    An option that is not given is None: `resuming.completed` replaces it by a default, or by the
    value in the resumed run. load: the parser that gets `--concurrency`. rounds: the help text of
    `--rounds`.
    """
    parser.add_argument(
        "--model",
        help="the name under which the server serves the model (default: the one that /v1/models "
        "lists)",
    )
    parser.add_argument(
        "--prompts",
        type=arguments.existing_path,
        nargs="+",
        metavar="PATH",
        help="a .jsonl file, the folder of a prompt class, or a folder of such folders; or several "
        "of these (default: 16 prompts that come with the package, half of them structured)",
    )
    requests = partial(arguments.positive_int, at_most=results.MAX_REQUESTS_PER_BLOCK)
    load.add_argument(
        "--concurrency",
        type=_concurrencies,
        action="extend",
        metavar="N,...",
        help="requests in flight (1); 1,8 measures both loads, each with its own figures",
    )
    for option, type_, about in (
        (
            "--output-tokens",
            _output_tokens,
            "longest output in tokens; a prompt may set a lower max_tokens (128)",
        ),
        ("--requests-per-case", requests, "requests of each prompt file to measure in a round (8)"),
        ("--rounds", arguments.positive_int, rounds),
        (
            "--warmup-requests",
            arguments.whole_number,
            "requests that come first and do not count (1; if they come at a rate, at least 32)",
        ),
        (
            "--timeout-seconds",
            arguments.positive_number,
            "a request that takes longer counts as failed (300.0)",
        ),
        ("--temperature", arguments.temperature, "0 is greedy; above, outputs are sampled (0.0)"),
        ("--seed", arguments.whole_number, "each request's own seed is drawn from it (0)"),
    ):
        parser.add_argument(option, type=type_, help=about)
    parser.add_argument(
        "--price-source",
        metavar="TEXT",
        type=arguments.short_text,
        help=f"where prices were looked up, for the report (default: {_NO_SOURCE!r})",
    )
    parser.add_argument(
        "--price-as-of",
        metavar="YYYY-MM-DD",
        type=arguments.past_day,
        help="the day on which prices were looked up (default: today)",
    )
    parser.add_argument(
        "--fixed-length",
        action="store_true",
        default=None,
        help="make every output --output-tokens long; the model cannot end it (vLLM's ignore_eos)",
    )
    parser.add_argument(
        "--token-ids",
        action="store_true",
        default=None,
        help="keep the ids of output tokens in the transcripts (vLLM 0.10.2 and later)",
    )
    parser.add_argument(
        "--cache",
        choices=get_args(results.PromptCache),
        help="which measured prompts a server's prefix cache may hold. cold, the default: none, "
        "and no cost is judged if it holds some; salted: none, because each request has a "
        "cache_salt of its own (vLLM); warm: any, because your traffic repeats prompts too",
    )
    parser.add_argument(
        "--resume",
        metavar="RUN",
        type=arguments.run_folder_of,
        help="go on with a run that was cut off, in its folder and with its settings; needs no "
        "other option",
    )
    print_run.add_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Measure one endpoint and print the figures."""
    begun = resuming.resumed(options, "measure")
    recorded = {} if begun is None else resuming.recorded_endpoint(begun.spec)
    defaults = {**resuming.DEFAULTS, **recorded}
    options = resuming.completed(options, begun, defaults, needed=("base_url",))
    endpoint = run_specification.Endpoint(
        variant=arguments.name_in_files(options.name),
        base_url=arguments.base_url(options.base_url),
        max_tokens_per_step=None,
        is_baseline=True,
    )
    prices = {} if options.usd_per_hour is None else {endpoint.variant: options.usd_per_hour}
    price = price_of(options, prices, next_step="add --usd-per-hour PRICE")
    spec = run_spec(options, "measure", (endpoint,), price, begun)
    return measure_and_print(options, spec, {endpoint.variant: "--base-url"}, begun)


def measure_and_print(
    options: argparse.Namespace,
    spec: RunSpec,
    url_options: Mapping[str, str],
    begun: BegunRun | None,
    *,
    then: AfterRun = lambda _, __: None,
) -> int:
    """Measure the servers in `spec`, and print what the run found; return the exit code.

    url_options: by variant, the option that gave its base URL, for error messages.
    begun: the run to resume; None: a new run.
    DraftworthError: the run failed, or the disk is full.
    """
    folder = resuming.run_folder(options, spec, begun)
    if begun is None and options.prompts is None:
        print(_BUILT_IN_NOTE, file=sys.stderr)
    try:
        with print_run.answer_if_cut_off(options, folder):
            result = measured(spec, folder, url_options, begun, then=then)
    except result_files.StorageFullError as error:
        again = unended_runs.resume_command(spec, folder)
        raise DraftworthError(f"{error}, then {again}") from error
    print_run.print_run(options, folder)
    if result.status == "failed":
        raise DraftworthError(f"the run failed: {result.reason}")
    return 0


def measured(
    spec: RunSpec,
    folder: Path,
    url_options: Mapping[str, str],
    begun: BegunRun | None = None,
    *,
    then: AfterRun = lambda _, __: None,
) -> results.RunResult:
    """Measure the servers in `spec` into the run's folder, with progress on standard error.

    The arguments are those of `measure_and_print`. StorageFullError: the disk is full.
    """
    arguments.check_api_key()
    sink = result_files.FolderSink(folder.parent)
    sink.check()
    spec = served.with_served_model(spec, url_options)
    if begun is None:
        unended_runs.keep_specification(sink, folder.name, spec)
    with unended_runs.only_process(folder), shown_progress() as progress:
        result = measure_here(
            spec,
            folder.name,
            sink,
            progress.line,
            history=read_history(sink, folder.name),
            advanced=progress.advanced,
        )
        if result.status == "complete":
            then(folder, progress.line)
    return result


def _cases(paths: Sequence[Path], most_tokens: int) -> tuple[Case, ...]:
    """Read the prompt files at all paths; UserInputError: two have the same class and name."""
    cases: dict[tuple[str, str], Case] = {}
    for path in paths:
        for case in find_cases(path, most_tokens=most_tokens):
            if (case.prompt_class, case.name) in cases:
                raise UserInputError(
                    f"--prompts: {path}: {case.prompt_class}/{case.name} is given twice, allowed: "
                    "each prompt file once, with a class (its folder) and a name of its own"
                )
            cases[case.prompt_class, case.name] = case
    return tuple(cases.values())


def _recorded_cases(begun: BegunRun, most_tokens: int) -> tuple[Case, ...]:
    cases = begun.spec.cases
    longest = max((p.max_tokens or 0 for case in cases for p in case.prompts), default=0)
    if longest > most_tokens:
        raise UserInputError(
            f"--output-tokens: given {most_tokens}, allowed: at least the {longest} that a prompt "
            f"of {begun.folder} has as its max_tokens; next: leave it out, or give --prompts"
        )
    return cases


def find_cases(path: Path, *, most_tokens: int | None = None) -> tuple[Case, ...]:
    """Read the prompt files at a path.

    path: a prompt file, the folder of a prompt class, or a folder that contains such folders.
    most_tokens: the highest `max_tokens` that a prompt may have; None: 10,000,000.
    """
    pattern = f"*{CASE_SUFFIX}"
    try:
        files = [path] if path.is_file() else sorted(path.glob(pattern))
        files = files or sorted(path.glob(f"*/{pattern}"))
    except OSError as error:
        raise UserInputError(f"--prompts: cannot be read: {error.strerror}") from error
    if not files:
        raise UserInputError(
            f"--prompts: {path}: no {CASE_SUFFIX} file there; give a file, a folder of them, or a "
            "folder of prompt classes such as prompts/"
        )
    return tuple(
        load_case(
            file, prompt_class=Path(os.path.realpath(file)).parent.name, most_tokens=most_tokens
        )
        for file in files
    )


def loads_of(options: argparse.Namespace) -> tuple[Load, ...]:
    """Return the loads that the options give, by default one request in flight.

    UserInputError: there are fewer requests per prompt file and round than requests in flight.
    """
    if options.requests_per_second is not None:
        return (PoissonLoad(requests_per_second=options.requests_per_second),)
    concurrencies, requests = options.concurrency or (1,), options.requests_per_case
    most = max(concurrencies)
    if most > requests:
        raise UserInputError(
            f"--concurrency: given {most} with --requests-per-case {requests}, allowed: at "
            f"most {requests}, or --requests-per-case {most} or more: with fewer, most "
            "requests would be warm-up and fillers, which are not measured"
        )
    return tuple(ConcurrencyLoad(concurrency=number) for number in sorted({*concurrencies}))


def _concurrencies(text: str) -> tuple[int, ...]:
    """Parse whole numbers with commas between them."""
    most = results.MAX_REQUESTS_PER_BLOCK
    try:
        return tuple(arguments.positive_int(part, at_most=most) for part in text.split(","))
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"given {one_line(text, characters=80)!r}, allowed: a whole number, 1 to {most:,}, or "
            "several with commas between them, such as 1,8"
        ) from None


def _output_tokens(text: str) -> int:
    """Parse the most tokens of an output; ArgumentTypeError: it leaves no time between tokens."""
    tokens = arguments.positive_int(text)
    if tokens < 2:
        raise argparse.ArgumentTypeError(
            f"given {text!r}, allowed: a whole number, 2 to 1,000,000, because what speculation "
            "shortens is the time between two tokens"
        )
    return tokens


def price_of(
    options: argparse.Namespace, usd_per_hour: Mapping[str, float], *, next_step: str
) -> results.Price | None:
    """Return the price of the servers together; None: `usd_per_hour` is empty.

    usd_per_hour: the price of each variant's server, by variant. next_step: the end of the error
    message. UserInputError: no price is given, but an option gives the source or the day of one.
    """
    if not usd_per_hour:
        for option in ("price_source", "price_as_of"):
            if getattr(options, option) is not None:
                raise UserInputError(
                    f"--{option.replace('_', '-')}: given without a price, allowed: with one; "
                    f"next: {next_step}"
                )
        return None
    day = options.price_as_of or datetime.now(UTC).date()
    # All servers cost money for as long as the run takes. So they are recorded as one node with the
    # sum of their prices, and a server's share of the node is its share of that sum.
    total = math.fsum(usd_per_hour.values())
    return results.Price(
        usd_per_node_hour=total,
        as_of=day.isoformat(),
        source=options.price_source or _NO_SOURCE,
        node_shares={name: usd / total for name, usd in usd_per_hour.items()},
        nodes=1,
    )


def run_spec(
    options: argparse.Namespace,
    name: str,
    endpoints: tuple[run_specification.Endpoint, ...],
    price: results.Price | None,
    begun: BegunRun | None,
    *,
    may_end_early: bool = False,
) -> RunSpec:
    """Return the run specification for the options.

    name: the command's name, with which the run's id begins.
    begun: the run to resume or to repeat, whose prompts are used if the options have none; None: a
    new run.
    may_end_early: after two rounds the run ends as soon as its intervals are narrow enough.
    """
    requests = options.requests_per_case
    cases = (
        _recorded_cases(begun, options.output_tokens)
        if begun is not None and options.prompts is None
        else _cases(options.prompts or (BUILT_IN_PROMPTS,), options.output_tokens)
    )
    loads = loads_of(options)
    least_rounds = min(2, options.rounds) if may_end_early else options.rounds
    return RunSpec(
        experiment=name,
        endpoints=endpoints,
        shape=run_specification.RequestShape(
            model=served.UNKNOWN_MODEL
            if options.model is None
            else arguments.model_name(options.model),
            output_tokens=options.output_tokens,
            fixed_output_length=options.fixed_length,
            temperature=options.temperature,
            seed=options.seed,
            enable_thinking=False,
            timeout_seconds=options.timeout_seconds,
            token_ids=options.token_ids,
            prompt_cache=options.cache,
        ),
        cases=cases,
        loads=loads,
        load_generator="asyncio",
        sampling=run_specification.Sampling(
            requests_per_round=requests,
            min_requests=requests * least_rounds,
            # `min_requests` is of each load, `max_requests` of all of them together.
            max_requests=requests * options.rounds * len(loads),
            target_interval_width=0.1 if may_end_early else 1.0,
            warmup_requests=options.warmup_requests,
        ),
        parallel=False,
        class_weights={},
        price=price,
        ready_deadline_seconds=30.0,
    )
