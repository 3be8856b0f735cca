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
from draftworth.records.logged_traffic import (
    MIN_MEASURED,
    LoggedTraffic,
    read_logged_traffic,
    sha256_of,
)
from draftworth.untrusted import one_line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the option that names the record of the choice."""
    parser.add_argument(
        "--traffic",
        metavar="FILE",
        type=existing_path,
        help="the file that `prompts choose` wrote beside the measured prompts; says what all "
        "prompts of the log cost (docs/prompts.md)",
    )


def with_traffic(facts: RunFacts, path: Path | None) -> RunFacts:
    """Return the facts with the verdicts for all prompts of a log; unchanged without a path.

    path: the record of the choice. UserInputError: the run says nothing about all of them.
    """
    if path is None:
        return facts
    logged = read_logged_traffic(path)
    _refuse_another_choice(logged, path, facts)
    return replace(facts, all_traffic=tuple(_verdicts(logged, path, facts)))


def _refuse_another_choice(logged: LoggedTraffic, path: Path, facts: RunFacts) -> None:
    """Raise UserInputError if the run's prompts were chosen with another record.

    A run that has no hash of a record takes any: it is older, or its prompts lay without theirs.
    """
    measured = facts.run.result.chosen_by.get(logged.prompt_class)
    actual = sha256_of(path)
    if measured and measured != actual:
        raise UserInputError(
            f"--traffic: given {one_line(str(path))} with SHA-256 {actual[:12]}, allowed: with "
            f"{one_line(measured[:12])}, the record with which the prompts of class "
            f"{one_line(logged.prompt_class)} were chosen that this run measured, because another "
            "one weighs them otherwise; next: give that file, which `prompts choose` wrote beside "
            "the folder of the class"
        )


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
