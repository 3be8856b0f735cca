"""`draftworth leftovers` lists what still exists of an experiment, why, and its cost a month.

It only reads; each kind of resource is a row in `resource_kinds.yaml`. Exit code 0: nothing is
there but what stays on purpose; 1: something else is, or could not be looked at.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from draftworth.account import printing, resources
from draftworth.account.checks.check import identity, stacks
from draftworth.account.clients import AwsError, client, explained, tags_of
from draftworth.account.resource_kinds import Kind, Leftover, kinds, oldest_price
from draftworth.account.scope import Scope
from draftworth.experiment.naming import EXPERIMENT_TAG
from draftworth.planning import prices, resolved
from draftworth.terminal import table_lines


@dataclass(frozen=True, kw_only=True)
class Report:
    """The resources that were found, and the kinds that could not be listed, with the reason."""

    leftovers: tuple[Leftover, ...]
    unseen: tuple[tuple[str, str], ...]

    @property
    def unplanned(self) -> tuple[Leftover, ...]:
        return tuple(found for found in self.leftovers if not found.kept)

    @property
    def planned(self) -> tuple[Leftover, ...]:
        return tuple(found for found in self.leftovers if found.kept)

    @property
    def clean(self) -> bool:
        return not self.unplanned and not self.unseen


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the experiment file."""
    parser.add_argument("experiment", type=Path, help="experiment file, YAML")


def run(arguments: argparse.Namespace) -> int:
    """Look for every kind of resource, and print what exists."""
    experiment = prices.with_looked_up_price(resolved.load_neuron(arguments.experiment))
    scope = Scope(experiment=experiment, clients=client, now=datetime.now(UTC))
    account = identity(scope)["Account"]
    report = look(scope, kinds())
    printing.print_lines([f"{experiment.name} in account {account}, {scope.region}"])
    printing.print_lines(report_lines(report, scope.now))
    printing.print_lines(other_lines(scope))
    return 0 if report.clean else 1


def look(scope: Scope, rows: Sequence[Kind]) -> Report:
    """Look for each kind; one that may not be listed is looked up in the index of tags."""
    leftovers: list[Leftover] = []
    unseen: list[tuple[str, str]] = []

    def add(what: str, found: Iterator[Leftover], verb: str = "list") -> bool:
        try:
            with explained(f"{verb} {what}", region=scope.region):
                leftovers.extend(found)
        except AwsError as error:
            unseen.append((what, str(error)))
            return False
        return True

    known_better = {kind.covers for kind in rows if add(kind.looks_at, resources.find(kind, scope))}
    in_index = resources.find_in_tag_index(scope, known_better=known_better)
    add("the index of tags", in_index, "read")
    return Report(leftovers=tuple(leftovers), unseen=tuple(unseen))


def report_lines(report: Report, now: datetime) -> Iterator[str]:
    """Yield the report as text."""
    yield ""
    yield f"should be gone: {len(report.unplanned) or 'nothing'}"
    yield from _table(report.unplanned, now)
    if report.planned:
        yield f"stays on purpose: {len(report.planned)}"
        yield from _table(report.planned, now)
    if report.unseen:
        yield f"could not be looked at: {len(report.unseen)}"
        yield from (f"  {what}: {reason}" for what, reason in report.unseen)
    if report.leftovers:
        yield from _cost_lines(report)


def other_lines(scope: Scope) -> Iterator[str]:
    """Name other experiments in this region: perhaps the destroy was given the wrong file."""
    try:
        existing = stacks(scope)
    except AwsError:
        return
    others = {tags_of(stack).get(EXPERIMENT_TAG): stack["StackStatus"] for stack in existing}
    for name, status in others.items():
        if name and name != scope.experiment.name:
            yield (
                f"another experiment is deployed in {scope.region}: {name} ({status}); remove: "
                "make destroy EXPERIMENT=its file"
            )


def _table(leftovers: Sequence[Leftover], now: datetime) -> Iterator[str]:
    headings = ("kind", "age", "USD a month", "resource")
    if leftovers:
        rows = (_row(found, now) for found in leftovers)
        yield from (f"  {line}" for line in table_lines(rows, headings, numbers=(1, 2)))


def _row(found: Leftover, now: datetime) -> tuple[str, str, str, str]:
    age = printing.duration_text((now - found.created).total_seconds()) if found.created else "?"
    lines = [f"{found.id} ({found.name})" if found.name else found.id, f"remove: {found.remove}"]
    if found.kept:
        lines.insert(1, f"why: {found.kept}")
    return found.kind, age, _usd_text(found.usd_per_month), "\n".join(lines)


def _usd_text(usd: float | None) -> str:
    if usd is None:
        return "?"
    return "below 0.01" if 0 < usd < 0.01 else f"{usd:.2f}"


def _cost_lines(report: Report) -> Iterator[str]:
    usd = [found.usd_per_month for found in report.leftovers]
    known = [value for value in usd if value is not None]
    unknown = len(usd) - len(known)
    without = f", without {unknown} of unknown cost" if unknown else ""
    yield ""
    yield (
        f"about {_usd_text(sum(known))} USD a month{without}: list prices of US East, the oldest "
        f"of {oldest_price().isoformat()}, of low confidence; the accelerators' is the experiment's"
    )
