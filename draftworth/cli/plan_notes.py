"""Notes in `plan` and in CDK on settings that are allowed, but probably not intended.

Their texts are in `notes.txt.jinja`. A deadline or budget that no run can keep is refused here.
"""

import math
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

from draftworth.cli.templates import paragraphs
from draftworth.errors import UserInputError
from draftworth.experiment.catalog import catalog
from draftworth.experiment.model import variants_of
from draftworth.experiment.node_images import DriverAndRuntime
from draftworth.experiment.variants import HubSpeculative
from draftworth.planning.assumptions import Bounds
from draftworth.planning.capacity_block import PaidBlock
from draftworth.planning.prices import PRICE_RENEWAL, price_doubt
from draftworth.planning.resolved import ResolvedExperiment, ResolvedNeuron
from draftworth.planning.timeline import BUDGET, DEADLINE, NODE_START, RunForecast
from draftworth.records.results import AS_SHIPPED

_MORE = "raise it, or ask for less (max_requests, concurrency, cases, output_tokens or repetitions)"


def notes(
    experiment: ResolvedExperiment, *, run: RunForecast | None = None, today: date
) -> list[str]:
    """Return an experiment's notes, each once; `run`: the forecast; None: a local experiment."""
    prompts = (prompt for case in experiment.cases for prompt in case.prompts)
    values: dict[str, object] = {
        "experiment": experiment,
        "in_flight": max(load.in_flight or 1 for load in experiment.loads),
        # In languages with spaces, a text has at least as many tokens as words.
        "longest_words": max(sum(len(text.split()) for text in p.texts) for p in prompts),
    }
    if isinstance(experiment, ResolvedNeuron):
        values |= _aws_values(experiment, today)
    if run is not None:
        values |= _run_values(run)
    return paragraphs("notes.txt.jinja", values)


def _aws_values(experiment: ResolvedNeuron, today: date) -> Mapping[str, Any]:
    spec = experiment.spec
    stops = ("last_start_usd", "tokens_per_day") if spec.search and spec.aws.price is None else ()
    return {
        "aws": spec.aws,
        "driver": DriverAndRuntime.of(spec),
        "heads": [*variants_of(spec, HubSpeculative)],
        "methods": catalog().methods,
        "as_shipped": AS_SHIPPED,
        "defaults_by_speculation": spec.release_facts.depends_on_speculation,
        "unpriced_stops": [
            f"search.stop.{name}"
            for name in stops
            if spec.search and getattr(spec.search.stop, name) is not None
        ],
        "price_doubt": price_doubt(experiment, today),
        "price_renewal": PRICE_RENEWAL,
    }


def _run_values(run: RunForecast) -> Mapping[str, Any]:
    aws = run.experiment.spec.aws
    needed = [*_needed(run, run.released_minutes)]
    needs, costs = "needs {:.0f} minutes", "costs {:.2f} USD"
    limits: list[tuple[str, float, str, list[Bounds]]] = [
        (f"{DEADLINE} {aws.deadline_minutes}", aws.deadline_minutes, needs, needed)
    ]
    if aws.price is not None:
        usd = [run.usd(minutes) for minutes in _needed(run, run.needed_minutes)]
        budget = aws.accelerator_budget_usd
        limits.append((f"{BUDGET} {budget:.2f}", budget, costs, usd))
    return {
        "run": run,
        "limits": limits,
        "block": PaidBlock.of(run.experiment),
        "stopped_at": _stopped_at(run),
        "node_start": NODE_START,
    }


def _needed(run: RunForecast, needed: Bounds) -> Iterator[Bounds]:
    """Yield the minutes a run needs; for a search, with the fewest, average and most candidates."""
    if search := run.search:
        certain = needed.worst - run.others_minutes.worst
        average = certain + search.further_minutes(search.extent.average).worst
        yield Bounds(needed.best, certain)
        yield Bounds(needed.best, min(average, needed.worst))
    yield needed


def _stopped_at(run: RunForecast) -> float | None:
    # `search.stop` never leaves out the first candidate, so a single certain one gets no note.
    if run.search is None or len(run.search.extent.certain) < 2:
        return None
    spans, last = run.unlimited.worst.spans, run.search.extent.certain[-1].variant
    begin = min(span.start for name, span in spans.items() if name.partition(" ")[2] == last)
    passed = begin - spans[NODE_START].end
    return passed if passed >= run.search.stop_minutes else None


def refuse_hopeless_limits(run: RunForecast) -> None:
    """Raise UserInputError if the deadline or the budget is less than the best case needs."""
    aws = run.experiment.spec.aws
    # A Capacity Block is paid in advance, so the budget does not end its nodes.
    free = aws.price is None or aws.capacity.is_block
    usd = 0.0 if free else run.usd(run.needed_minutes).best
    for key, given, best, unit in (
        (DEADLINE, float(aws.deadline_minutes), run.released_minutes.best, "minutes"),
        (BUDGET, aws.accelerator_budget_usd, usd, "USD"),
    ):
        if best > given:
            raise UserInputError(
                f"{run.experiment.path}: {key}: given {given:g}, allowed: {math.ceil(best)} or "
                f"more, because even the best case needs {best:.0f} {unit}; next: {_MORE}"
            )
