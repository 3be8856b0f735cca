"""`draftworth leftovers`: what of an experiment still exists, why, and what it costs a month.

Reads only. Exit code 0: nothing is there but what stays on purpose; 1: something else is, or could
not be looked at; 2: the experiment file is wrong.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from account.checks.identity import home_region
from account.clients import AwsError, client, explained
from account.prices import oldest_price
from account.remains import compute, control, network, storage
from account.remains.scope import Finder, Remnant, Scope, age_text
from account.remains.tagged import tagged_remnants
from draftworth.planning.resolved import load_neuron

FINDERS: Sequence[Finder] = (
    *control.FINDERS,
    *compute.FINDERS,
    *network.FINDERS,
    *storage.FINDERS,
)
TAG_INDEX = "the index of tags"


@dataclass(frozen=True, kw_only=True)
class Report:
    """All that was found, and all that could not be looked at with the reason."""

    remnants: tuple[Remnant, ...]
    unseen: tuple[tuple[str, str], ...]

    @property
    def unplanned(self) -> tuple[Remnant, ...]:
        """What should be gone."""
        return tuple(r for r in self.remnants if not r.kept)

    @property
    def planned(self) -> tuple[Remnant, ...]:
        """What stays on purpose."""
        return tuple(r for r in self.remnants if r.kept)

    @property
    def clean(self) -> bool:
        """Only what is planned remains, and everything was looked at."""
        return not self.unplanned and not self.unseen


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The experiment file."""
    parser.add_argument("experiment", type=Path, help="experiment file, YAML")


def run(arguments: argparse.Namespace) -> int:
    """Look, and print what is there."""
    experiment = load_neuron(arguments.experiment)
    scope = Scope(experiment=experiment, clients=client, now=datetime.now(UTC))
    home = home_region(scope.region)
    with explained("ask who you are", region=home):
        account = client("sts", home).get_caller_identity()["Account"]
    report = look(scope)
    lines = (
        f"{experiment.name} in account {account}, {scope.region}",
        *report_lines(report, scope.now),
    )
    sys.stdout.write("\n".join([*lines, ""]))
    return 0 if report.clean else 1


def look(scope: Scope, finders: Sequence[Finder] = FINDERS) -> Report:
    """Ask every finder, then the index of tags for what none of them knows.

    A finder that is refused leaves its kinds to the index, and is reported.
    """
    remnants: list[Remnant] = []
    unseen: list[tuple[str, str]] = []
    known_better: set[str] = set()
    for finder in finders:
        try:
            with explained(f"list {finder.looks_at}", region=scope.region):
                remnants.extend(finder.find(scope))
            known_better.update(finder.covers)
        except AwsError as error:
            unseen.append((finder.looks_at, str(error)))
    try:
        with explained(f"read {TAG_INDEX}", region=scope.region):
            remnants.extend(tagged_remnants(scope, known_better=known_better))
    except AwsError as error:
        unseen.append((TAG_INDEX, str(error)))
    return Report(remnants=tuple(remnants), unseen=tuple(unseen))


def report_lines(report: Report, now: datetime) -> Iterator[str]:
    """What should be gone, what stays on purpose, what could not be looked at, what it costs."""
    yield ""
    yield f"should be gone: {len(report.unplanned) or 'nothing'}"
    yield from _table(report.unplanned, now)
    if report.planned:
        yield f"stays on purpose: {len(report.planned)}"
        yield from _table(report.planned, now)
    if report.unseen:
        yield f"could not be looked at: {len(report.unseen)}"
        yield from (f"  {what}: {reason}" for what, reason in report.unseen)
    if report.remnants:
        yield from _cost_lines(report)


def _table(remnants: Sequence[Remnant], now: datetime) -> Iterator[str]:
    """One thing a line, aligned, with what removes it below."""
    kind_width = max((len(r.kind) for r in remnants), default=0)
    for remnant in remnants:
        name = f" ({remnant.name})" if remnant.name else ""
        usd = "    ?" if remnant.usd_per_month is None else f"{remnant.usd_per_month:8.2f}"
        yield (
            f"  {remnant.kind:<{kind_width}}  {age_text(remnant.created, now):>5}  {usd:>8} "
            f"USD a month  {remnant.id}{name}"
        )
        if remnant.kept:
            yield f"  {'':<{kind_width}}  why: {remnant.kept}"
        yield f"  {'':<{kind_width}}  remove: {remnant.remove}"


def _cost_lines(report: Report) -> Iterator[str]:
    known = [r.usd_per_month for r in report.remnants if r.usd_per_month is not None]
    unknown = len(report.remnants) - len(known)
    without = f", without {unknown} of unknown cost" if unknown else ""
    yield ""
    yield (
        f"about {sum(known):.2f} USD a month{without}: list prices of US East, the oldest of "
        f"{oldest_price().isoformat()}, of low confidence; the accelerators' is the experiment's"
    )
