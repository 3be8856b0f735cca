"""Where finders look, what they find, and how they know that a thing is the experiment's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

from account.checks.check import Clients
from account.clients import explained
from draftworth.experiment.naming import EXPERIMENT_TAG, PROJECT, STACK_PARTS, Names
from draftworth.planning.resolved import ResolvedNeuron

Tags = Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Remnant:
    """A thing that exists.

    usd_per_month: None where it costs something that nobody can tell from here.
    kept: why it stays on purpose; empty for what should be gone.
    remove: the command that removes it, or what to wait for.
    """

    kind: str
    id: str
    remove: str
    name: str = ""
    created: datetime | None = None
    usd_per_month: float | None = 0.0
    kept: str = ""


@dataclass(frozen=True)
class Scope:
    """One experiment in one account and region."""

    experiment: ResolvedNeuron
    clients: Clients
    now: datetime
    _made: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def names(self) -> Names:
        """The names made from the experiment's."""
        return self.experiment.names

    @property
    def region(self) -> str:
        """The experiment's region."""
        return self.experiment.spec.aws.region

    @property
    def tag_filter(self) -> dict[str, Any]:
        """The experiment's tag as a filter of EC2."""
        return {"Name": f"tag:{EXPERIMENT_TAG}", "Values": [self.experiment.name]}

    def client(self, service: str) -> Any:
        """A client in the experiment's region, made once."""
        if service not in self._made:
            self._made[service] = self.clients(service, self.region)
        return self._made[service]

    def command(self, text: str) -> str:
        """An AWS command line in the experiment's region."""
        service, _, rest = text.partition(" ")
        return f"aws {service} --region {self.region} {rest}"

    def ours(self, name: str, tags: Callable[[str], Tags], key: str) -> bool:
        """Whether a thing with the project's prefix is this experiment's: by tag, else by name.

        CloudFormation cuts long stack names inside the names it makes, so that those of two
        experiments may begin alike. `tags` is asked only for names with the project's prefix, with
        the `key` (ARN, URL or name) of the thing.
        """
        if not name.startswith(f"{PROJECT}-"):
            return False
        tagged = tags(key).get(EXPERIMENT_TAG)
        return tagged == self.experiment.name if tagged else of_stack(self.names, name)

    @cached_property
    def vpcs(self) -> tuple[dict[str, Any], ...]:
        """The experiment's networks: what is inside of them is the experiment's, tagged or not."""
        with explained("list the networks", region=self.region):
            answer = self.client("ec2").describe_vpcs(Filters=[self.tag_filter])
        return tuple(answer["Vpcs"])

    @property
    def vpc_ids(self) -> list[str]:
        """Ids of the experiment's networks."""
        return [vpc["VpcId"] for vpc in self.vpcs]


@dataclass(frozen=True, kw_only=True)
class Finder:
    """Looks for things of some kinds.

    looks_at: completes "could not look at". covers: ARN types (`service:type`) that it knows
    better than the tag index, which goes on listing what was deleted a while ago.
    """

    looks_at: str
    find: Callable[[Scope], Iterable[Remnant]]
    covers: Sequence[str] = ()


def of_stack(names: Names, name: str) -> bool:
    """Whether a name begins with one of the experiment's stacks'.

    `draftworth-x-network-...` may be the stack `network` of experiment `x` or a stack of experiment
    `x-network`: what follows the latter's part is another part, never a resource's id.
    """
    for stack in (names.stack(part) for part in STACK_PARTS):
        if name == stack:
            return True
        if name.startswith(f"{stack}-"):
            return name.removeprefix(f"{stack}-").split("-")[0] not in STACK_PARTS
    return False


def pages(client: Any, operation: str, key: str, **asked: Any) -> Iterator[Any]:
    """Every entry of a listing, page after page."""
    for page in client.get_paginator(operation).paginate(**asked):
        yield from page.get(key, [])


def tag_list(tags: Iterable[Mapping[str, str]]) -> Tags:
    """AWS's list of Key and Value as a mapping."""
    return {tag["Key"]: tag["Value"] for tag in tags}


def name_tag(thing: Mapping[str, Any]) -> str:
    """The Name tag; empty without one."""
    return tag_list(thing.get("Tags", [])).get("Name", "")


def from_millis(milliseconds: float | None) -> datetime | None:
    """A time stamp of CloudWatch Logs."""
    return None if milliseconds is None else datetime.fromtimestamp(milliseconds / 1000, tz=UTC)


def age_text(created: datetime | None, now: datetime) -> str:
    """`3 h` or `12 d`; a question mark when the creation time is unknown."""
    if created is None:
        return "?"
    age = now - created
    return f"{age.days} d" if age >= timedelta(days=2) else f"{age.total_seconds() / 3600:.0f} h"
