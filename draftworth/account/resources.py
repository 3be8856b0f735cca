"""The existing resources of an experiment, by the table of kinds and by the tag index."""

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

from draftworth.account import resource_kinds
from draftworth.account.clients import listed, or_none, tags_of
from draftworth.account.scope import Scope
from draftworth.experiment.naming import EXPERIMENT_TAG, PROJECT

# Error codes for a resource that does not exist, or was deleted since it was listed.
_NOT_THERE = ("NoSuchBucket", "NoSuchTagSet", "ResourceNotFoundException")
# Services whose ARNs have no type in front of the name.
_UNTYPED = ("s3", "sns", "sqs")
_TYPED = re.compile(r"(?P<kind>[^/:]+)[/:](?P<id>.+)")


def find(kind: resource_kinds.Kind, scope: Scope) -> Iterator[resource_kinds.Leftover]:
    """Yield the experiment's resources of one kind, each once."""
    seen = set[tuple[str, str]]()
    for entry in _entries(kind, scope):
        values = {**_values(scope), "aws": f"aws {kind.lists[0]} --region {scope.region}", **entry}
        # Schedules of two groups may have the same name; then only the commands differ.
        id_, remove = (text.format_map(values) for text in (kind.id, kind.remove))
        if (id_, remove) in seen or not _is_ours(kind, scope, entry, id_):
            continue
        seen.add((id_, remove))
        amount = entry[kind.amount] if kind.amount else 1
        found = resource_kinds.Leftover(
            kind=kind.kind,
            id=id_,
            name=kind.name.format_map(values) or tags_of(entry).get("Name", ""),
            created=entry.get(kind.created),
            usd_per_month=resource_kinds.monthly_usd(kind.usd, amount=amount) if kind.usd else 0.0,
            remove=remove,
        )
        yield resource_kinds.AMEND[kind.amend](scope, entry, found) if kind.amend else found


def _values(scope: Scope) -> dict[str, str]:
    names = scope.names
    return {
        "project": PROJECT,
        "assets": names.assets,
        "cluster": names.cluster,
        "dashboard": names.dashboard,
    }


def _entries(kind: resource_kinds.Kind, scope: Scope) -> Iterator[resource_kinds.Entry]:
    service, operation, result = kind.lists
    client = scope.client(service)

    def entries(**asked: Any) -> list[Any]:
        return list(listed(client, operation, result.format_map(_values(scope)), **asked))

    for asked in _calls(kind, scope):
        for entry in or_none(entries, *_NOT_THERE, **asked) or ():
            if isinstance(entry, str):
                yield {"Ref": entry, "Name": re.split("[:/]", entry)[-1]}
            else:
                yield entry


def _calls(kind: resource_kinds.Kind, scope: Scope) -> Iterator[Mapping[str, Any]]:
    """Yield the arguments of each call; a filter without values is left out."""
    if not kind.filters:
        for asked in kind.asks:
            yield {key: text.format_map(_values(scope)) for key, text in asked.items()}
    for name in kind.filters:
        values: Mapping[str, Sequence[str]] = resource_kinds.FILTERS[name](scope)
        if all(values.values()):
            yield {"Filters": [{"Name": key, "Values": list(v)} for key, v in values.items()]}


def _is_ours(
    kind: resource_kinds.Kind, scope: Scope, entry: resource_kinds.Entry, name: str
) -> bool:
    if kind.ours and resource_kinds.OURS[kind.ours](scope, entry):
        return True
    if kind.tags is None:
        return not kind.ours
    operation, argument, key = kind.tags
    call, asked = getattr(scope.client(kind.lists[0]), operation), {argument: entry[key]}
    return scope.owns(name, lambda: tags_of(or_none(call, *_NOT_THERE, **asked) or {}))


def parse_arn(arn: str) -> tuple[str, str]:
    """Return kind and id of an ARN, such as `ec2:subnet` and `subnet-0abc`."""
    service, resource = arn.split(":", 5)[2], arn.split(":", 5)[5]
    typed = _TYPED.match(resource)
    if service in _UNTYPED or typed is None:
        return service, resource
    return f"{service}:{typed['kind']}", typed["id"]


def find_in_tag_index(scope: Scope, *, known_better: Set[str]) -> Iterator[resource_kinds.Leftover]:
    """Yield tagged resources of other kinds; the index lists deleted ones for some time."""
    index = scope.client("resourcegroupstaggingapi")
    wanted = [{"Key": EXPERIMENT_TAG, "Values": [scope.experiment.name]}]
    arns = "ResourceTagMappingList[].ResourceARN"
    for text in listed(index, "get_resources", arns, TagFilters=wanted):
        kind, id_ = parse_arn(text)
        if kind not in known_better:
            yield resource_kinds.Leftover(
                kind=kind,
                id=id_,
                usd_per_month=None,
                remove=f"look for {text}, which may be gone already: AWS's index of tags is late",
            )
