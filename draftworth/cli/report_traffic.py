"""`draftworth report --traffic`: what all prompts of a log cost, of which a run measured a few."""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from draftworth.analysis.traffic_ratio import TooFewMeasured
from draftworth.cli.arguments import existing_path
from draftworth.decision.all_traffic import AllTraffic, all_traffic
from draftworth.decision.facts import RunFacts
from draftworth.errors import UserInputError, counted
from draftworth.records.logged_traffic import MIN_MEASURED, LoggedTraffic, read_logged_traffic
from draftworth.untrusted import one_line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the option that names the record of the choice."""
    parser.add_argument(
        "--traffic",
        metavar="FILE",
        type=existing_path,
        help="what `prompts choose` wrote beside the measured prompts: says what all prompts of "
        "their log cost: docs/prompts.md",
    )


def with_traffic(facts: RunFacts, path: Path | None) -> RunFacts:
    """Return the facts with the verdicts for all prompts of a log; unchanged without a path.

    path: the record of the choice. UserInputError: the run says nothing about all of them.
    """
    if path is None:
        return facts
    return replace(facts, all_traffic=tuple(_verdicts(read_logged_traffic(path), path, facts)))


def _verdicts(logged: LoggedTraffic, path: Path, facts: RunFacts) -> Iterator[AllTraffic]:
    comparisons = [c for variant in facts.speculative if (c := variant.comparison)]
    verdicts = [*all_traffic(facts.run, comparisons, logged)]
    if not verdicts:
        raise UserInputError(
            f"--traffic: given {one_line(str(path))}, which chose the prompts of class "
            f"{one_line(logged.prompt_class)}, allowed: of a class that the run measured with a "
            "baseline and a variant, at a load that is kept full; next: measure the chosen prompts"
        )
    for verdict in verdicts:
        if isinstance(verdict, TooFewMeasured):
            raise UserInputError(
                f"--traffic: given a run that measured {verdict.measured} of "
                f"{counted(verdict.chosen, 'chosen prompt')}, allowed: {MIN_MEASURED} or more, "
                "because fewer say too little of the others; next: measure more of them "
                "(workload.max_requests of an experiment, --rounds of `measure` and `compare`)"
            )
        yield verdict
