"""`draftworth leftovers` lists an experiment's remaining resources, why they stay, and their cost.

The command only reads; each kind of resource is an entry of `resource_kinds.yaml`. Exit code 0:
only resources that stay on purpose exist; 1: others exist, or a kind could not be listed.
"""

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from draftworth.account import printing, resource_kinds
from draftworth.account.checks.check import identity, stacks
from draftworth.account.clients import AwsError, client, explained, listed, or_none, tags_of
from draftworth.account.resource_kinds import Entry, Kind, Leftover, kinds, monthly_usd
from draftworth.account.scope import Scope
from draftworth.experiment.naming import EXPERIMENT_TAG, PROJECT
from draftworth.planning import prices, resolved
from draftworth.planning.assumptions import assumption_data
from draftworth.terminal import table_lines

# Error codes for a resource that does not exist, or was deleted since it was listed.
_NOT_THERE = ("NoSuchBucket", "NoSuchTagSet", "ResourceNotFoundException")
# Services whose ARNs have no resource type before the name.
_UNTYPED = ("s3", "sns", "sqs")
_TYPED = re.compile(r"(?P<kind>[^/:]+)[/:](?P<id>.+)")


@dataclass(frozen=True, kw_only=True)
class Report:
    """The experiment's resources that still exist.

    unseen: (kind, error) of each kind of resource that could not be listed.
    """

    leftovers: tuple[Leftover, ...]
    unseen: tuple[tuple[str, str], ...]

    @property
    def unplanned(self) -> tuple[Leftover, ...]:
        return tuple(leftover for leftover in self.leftovers if not leftover.kept)

    @property
    def planned(self) -> tuple[Leftover, ...]:
        return tuple(leftover for leftover in self.leftovers if leftover.kept)

    @property
    def clean(self) -> bool:
        return not self.unplanned and not self.unseen


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
    """List the experiment's resources.

    First each kind in `rows` is listed, then AWS's tag index is searched for other kinds.
    """
    leftovers: list[Leftover] = []
    unseen: list[tuple[str, str]] = []

    def add(what: str, found_leftovers: Iterator[Leftover], verb: str = "list") -> bool:
        try:
            with explained(f"{verb} {what}", region=scope.region):
                leftovers.extend(found_leftovers)
        except AwsError as error:
            unseen.append((what, str(error)))
            return False
        return True

    covered_types = {kind.covers for kind in rows if add(kind.looks_at, find(kind, scope))}
    in_index = find_in_tag_index(scope, covered_types=covered_types)
    add("the index of tags", in_index, "read")
    return Report(leftovers=tuple(leftovers), unseen=tuple(unseen))


def find(kind: Kind, scope: Scope) -> Iterator[Leftover]:
    """Yield the experiment's resources of one kind, each once."""
    seen = set[tuple[str, str]]()
    for entry in _entries(kind, scope):
        values = {**_values(scope), "aws": f"aws {kind.lists[0]} --region {scope.region}", **entry}
        id_, remove = (text.format_map(values) for text in (kind.id, kind.remove))
        # EventBridge schedules in different schedule groups may have the same id, so the command
        # that removes a resource, which names the group, is compared too.
        if (id_, remove) in seen or not _is_ours(kind, scope, entry, id_):
            continue
        seen.add((id_, remove))
        amount = entry[kind.amount] if kind.amount else 1
        leftover = Leftover(
            kind=kind.kind,
            id=id_,
            name=kind.name.format_map(values) or tags_of(entry).get("Name", ""),
            created=entry.get(kind.created),
            usd_per_month=monthly_usd(kind.usd, amount=amount) if kind.usd else 0.0,
            remove=remove,
        )
        yield resource_kinds.AMEND[kind.amend](scope, entry, leftover) if kind.amend else leftover


def _values(scope: Scope) -> dict[str, str]:
    names = scope.names
    return {
        "project": PROJECT,
        "assets": names.assets,
        "cluster": names.cluster,
        "dashboard": names.dashboard,
    }


def _entries(kind: Kind, scope: Scope) -> Iterator[Entry]:
    service, operation, result = kind.lists
    client = scope.client(service)

    def entries(**arguments: Any) -> list[Any]:
        return list(listed(client, operation, result.format_map(_values(scope)), **arguments))

    for arguments in _calls(kind, scope):
        for entry in or_none(entries, *_NOT_THERE, **arguments) or ():
            if isinstance(entry, str):
                yield {"Ref": entry, "Name": re.split("[:/]", entry)[-1]}
            else:
                yield entry


def _calls(kind: Kind, scope: Scope) -> Iterator[Mapping[str, Any]]:
    if not kind.filters:
        for arguments in kind.asks:
            yield {key: text.format_map(_values(scope)) for key, text in arguments.items()}
    for name in kind.filters:
        values: Mapping[str, Sequence[str]] = resource_kinds.FILTERS[name](scope)
        if all(values.values()):
            yield {"Filters": [{"Name": key, "Values": list(v)} for key, v in values.items()]}


def _is_ours(kind: Kind, scope: Scope, entry: Entry, name: str) -> bool:
    if kind.ours and resource_kinds.OURS[kind.ours](scope, entry):
        return True
    if kind.tags is None:
        return not kind.ours
    operation, argument, key = kind.tags
    call, arguments = getattr(scope.client(kind.lists[0]), operation), {argument: entry[key]}
    return scope.owns(name, lambda: tags_of(or_none(call, *_NOT_THERE, **arguments) or {}))


def parse_arn(arn: str) -> tuple[str, str]:
    """Return the type and the id in an ARN, such as `ec2:subnet` and `subnet-0abc`."""
    service, resource = arn.split(":", 5)[2], arn.split(":", 5)[5]
    typed = _TYPED.match(resource)
    if service in _UNTYPED or typed is None:
        return service, resource
    return f"{service}:{typed['kind']}", typed["id"]


def find_in_tag_index(scope: Scope, *, covered_types: Set[str]) -> Iterator[Leftover]:
    """Yield the experiment's resources in AWS's tag index, except those of `covered_types`.

    covered_types: ARN types, such as `ec2:subnet`, that were listed by their own service.
    """
    index = scope.client("resourcegroupstaggingapi")
    wanted = [{"Key": EXPERIMENT_TAG, "Values": [scope.experiment.name]}]
    arns = "ResourceTagMappingList[].ResourceARN"
    for text in listed(index, "get_resources", arns, TagFilters=wanted):
        kind, id_ = parse_arn(text)
        if kind not in covered_types:
            yield Leftover(
                kind=kind,
                id=id_,
                usd_per_month=None,
                remove=f"look for {text}, which may be gone already: AWS's index of tags is late",
            )


def report_lines(report: Report, now: datetime) -> Iterator[str]:
    """Yield lines to print: the resources that should be gone, those that stay, and their cost.

    now: the time from which the age of each resource is computed.
    """
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
    """Yield a line for each other experiment that is deployed in the region.

    They are shown because a user may have given `make destroy` the file of a wrong experiment.
    """
    try:
        existing = stacks(scope)
    except AwsError:
        return
    other_experiments = {
        tags_of(stack).get(EXPERIMENT_TAG): stack["StackStatus"] for stack in existing
    }
    for name, status in other_experiments.items():
        if name and name != scope.experiment.name:
            yield (
                f"another experiment is deployed in {scope.region}: {name} ({status}); remove: "
                "make destroy EXPERIMENT=its file"
            )


def _table(leftovers: Sequence[Leftover], now: datetime) -> Iterator[str]:
    headings = ("kind", "age", "USD per month", "resource")
    if leftovers:
        rows = (_row(leftover, now) for leftover in leftovers)
        yield from (f"  {line}" for line in table_lines(rows, headings, numbers=(1, 2)))


def _row(leftover: Leftover, now: datetime) -> tuple[str, str, str, str]:
    age = (
        printing.duration_text((now - leftover.created).total_seconds())
        if leftover.created
        else "?"
    )
    lines = [
        f"{leftover.id} ({leftover.name})" if leftover.name else leftover.id,
        f"remove: {leftover.remove}",
    ]
    if leftover.kept:
        lines.insert(1, f"why: {leftover.kept}")
    return leftover.kind, age, _usd_text(leftover.usd_per_month), "\n".join(lines)


def _usd_text(usd: float | None) -> str:
    if usd is None:
        return "?"
    return "below 0.01" if 0 < usd < 0.01 else f"{usd:.2f}"


def _cost_lines(report: Report) -> Iterator[str]:
    usd = [leftover.usd_per_month for leftover in report.leftovers]
    known_usd = [value for value in usd if value is not None]
    unknown = len(usd) - len(known_usd)
    without = f", without {unknown} of unknown cost" if unknown else ""
    oldest = min(price.as_of for price in assumption_data().prices.values())
    yield ""
    yield (
        f"about {_usd_text(sum(known_usd))} USD per month{without}: list prices of US East, the "
        f"oldest of {oldest.isoformat()}, of low confidence; the accelerators' is the experiment's"
    )
