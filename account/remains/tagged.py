"""What only the account's tag index knows: kinds that no finder looks for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from dataclasses import dataclass

from account.remains.scope import Remnant, Scope, pages
from draftworth.experiment.naming import EXPERIMENT_TAG

# Services whose ARNs have no type in front of the name.
_UNTYPED = ("s3", "sns", "sqs")
_TYPED = re.compile(r"(?P<kind>[^/:]+)[/:](?P<id>.+)")


@dataclass(frozen=True, kw_only=True)
class Arn:
    """The parts of an ARN that say what a thing is: `ec2:subnet` and `subnet-0abc`."""

    kind: str
    id: str


def parse_arn(arn: str) -> Arn:
    """Of `arn:PARTITION:SERVICE:REGION:ACCOUNT:TYPE/ID`; some services put a colon for the slash,
    some have no type."""
    service, resource = arn.split(":", 5)[2], arn.split(":", 5)[5]
    typed = _TYPED.match(resource)
    if service in _UNTYPED or typed is None:
        return Arn(kind=service, id=resource)
    return Arn(kind=f"{service}:{typed['kind']}", id=typed["id"])


def tagged_remnants(scope: Scope, *, known_better: Set[str]) -> Iterator[Remnant]:
    """Things of other kinds than `known_better` that carry the experiment's tag.

    The index goes on listing a thing for some time after it was deleted.
    """
    index = scope.client("resourcegroupstaggingapi")
    wanted = [{"Key": EXPERIMENT_TAG, "Values": [scope.experiment.name]}]
    for entry in pages(index, "get_resources", "ResourceTagMappingList", TagFilters=wanted):
        arn = parse_arn(entry["ResourceARN"])
        if arn.kind not in known_better:
            yield Remnant(
                kind=arn.kind,
                id=arn.id,
                usd_per_month=None,
                remove=f"look for {entry['ResourceARN']}, which may be gone already: AWS's index "
                "of tags is late",
            )
