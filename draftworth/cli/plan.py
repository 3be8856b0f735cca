"""`draftworth plan`: shows what an experiment runs and costs, before anything is built."""

import argparse
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from draftworth.cli.arguments import add_experiment
from draftworth.cli.plan_text import plan_text
from draftworth.errors import UserInputError, suggestion
from draftworth.planning import prices, resolved, timeline
from draftworth.planning.assumptions import OPTION, Bounds, assumption_data, replaced
from draftworth.planning.hold import Hold
from draftworth.planning.notes import notes
from draftworth.planning.notes.limit_notes import refuse_hopeless_limits
from draftworth.planning.timeline import RunForecast
from draftworth.records.codec import dump_json


def run_figures(run: RunForecast) -> dict[str, object]:
    """Return a run's cost and times for `--json`, each in the best and in the worst case.

    `usd` is None if the price of a node is unknown.
    """
    aws = run.experiment.spec.aws
    figures = {
        "usd": None if aws.price is None else run.usd(run.billed_minutes),
        "billed_minutes": run.billed_minutes,
        "ready_minutes": run.all_measured_minutes,
        "nat_gateway_usd": run.nat_usd,
    }
    budget = {"accelerator_budget_usd": aws.accelerator_budget_usd}
    return {**_cases(figures), "nodes": run.experiment.placement.nodes, **budget}


def hold_figures(run: RunForecast) -> Mapping[str, object] | None:
    """Return cost and minutes of the deploy on hold for `--json`; None: the run is not on hold."""
    hold = Hold.of(run.experiment, run.assumed)
    if hold is None:
        return None
    return _cases({"usd": hold.usd, "minutes": hold.minutes, "nat_gateway_usd": hold.nat_usd})


def _cases(figures: Mapping[str, Bounds | None]) -> Mapping[str, object]:
    return {
        key: bounds and {"best": bounds.best, "worst": bounds.worst}
        for key, bounds in figures.items()
    }


COMPILED_OPTION = "--compiled"
VERBOSE_OPTION = "--verbose"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the experiment file, the options of its time line, and the form of the output."""
    add_experiment(parser)
    parser.add_argument(
        OPTION,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="replace an assumption of the time line (docs/timeline.md): node_start_minutes=5 or "
        "compile_minutes=30..60; may be given several times",
    )
    parser.add_argument(
        COMPILED_OPTION,
        action="append",
        default=[],
        metavar="VARIANT",
        help="this variant's compiled graph is already in the bucket; may be given several times",
    )
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument(
        "--json", action="store_true", help="print the plan as JSON, as docs/json.md describes it"
    )
    forms.add_argument(
        VERBOSE_OPTION,
        action="store_true",
        help="also show the time line with its assumptions, cases, placement, images, and each "
        "server's artifact key, environment and command",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the plan."""
    experiment, first, second = resolved.load(arguments.experiment), None, None
    assume, compiled = arguments.assume, arguments.compiled
    if isinstance(experiment, resolved.ResolvedNeuron):
        experiment = prices.with_looked_up_price(experiment)
        first, second = _first_and_second(experiment, assume, compiled)
        refuse_hopeless_limits(first)
    elif assume or compiled:
        raise UserInputError(
            f"{OPTION}, {COMPILED_OPTION}: given for release {experiment.spec.release}, allowed "
            "with a Neuron release: a local experiment uses no AWS nodes and has no time line; "
            "next: leave them out, or `make rehearse` to run it"
        )
    today = datetime.now(UTC).date()
    sentences = [note.sentence for note in notes(experiment, run=first, today=today)]
    if arguments.json:
        print(_json_text(experiment, first, second, sentences))
        return 0
    print(plan_text(experiment, first, second, sentences, verbose=arguments.verbose))
    return 0


def _json_text(
    experiment: resolved.ResolvedExperiment,
    first: timeline.RunForecast | None,
    second: timeline.RunForecast | None,
    notes: Sequence[str],
) -> str:
    document: dict[str, object] = {
        "schema": "draftworth.plan/1",
        "experiment": experiment.name,
        "release": experiment.spec.release,
        "variants": [variant.name for variant in experiment.variants],
        "loads": [load.label for load in experiment.loads],
    }
    if first and second:
        document |= run_figures(first) | {"second": run_figures(second)}
        document |= {"hold": hold_figures(first)}
    return dump_json(document | {"notes": notes}, indent=2).decode().rstrip()


def _first_and_second(
    experiment: resolved.ResolvedNeuron, assume: Sequence[str], compiled: Sequence[str]
) -> tuple[timeline.RunForecast, timeline.RunForecast]:
    assumed = replaced(assumption_data().for_target(experiment.spec.target.model), assume)
    names = [variant.name for variant in experiment.variants]
    for name in compiled:
        if name not in names:
            raise UserInputError(
                f"{COMPILED_OPTION}: given {name!r}, allowed: {', '.join(names)}"
                f"{suggestion(name, names)}; next: give names of variants in {experiment.path}"
            )
    first = timeline.forecast(experiment, assumed, compiled=compiled)
    return first, timeline.forecast(experiment, assumed, second=True)
