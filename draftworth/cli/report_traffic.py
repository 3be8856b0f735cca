"""`draftworth report --traffic`: what all prompts of a log cost, of which a run measured a few."""

import argparse
from collections.abc import Iterator
from pathlib import Path

from draftworth.analysis.traffic_ratio import TooFewMeasured
from draftworth.decision.all_traffic import AllTraffic, all_traffic
from draftworth.decision.facts import RunFacts
from draftworth.errors import UserInputError, counted
from draftworth.records.logged_traffic import MIN_MEASURED, LoggedTraffic, read_logged_traffic
from draftworth.report.all_traffic_section import all_traffic_section
from draftworth.report.document import Section
from draftworth.untrusted import one_line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the option that names the record of the choice."""
    parser.add_argument(
        "--traffic",
        metavar="FILE",
        type=Path,
        help="what `prompts choose` wrote beside the measured prompts: says what all prompts of "
        "their log cost: docs/prompts.md",
    )


def sections(path: Path | None, facts: RunFacts) -> Iterator[Section]:
    """Yield the section on all prompts of a log; none without a path.

    path: the record of the choice. UserInputError: the run says nothing about all of them.
    """
    if path is not None:
        yield all_traffic_section([*_verdicts(read_logged_traffic(path), path, facts)])


def _verdicts(logged: LoggedTraffic, path: Path, facts: RunFacts) -> Iterator[AllTraffic]:
    verdicts = [*all_traffic(facts, logged)]
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
