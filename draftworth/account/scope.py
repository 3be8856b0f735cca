"""One experiment in one account and region, and how its resources are recognised."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from draftworth.account.clients import Clients, Region, client, explained
from draftworth.errors import DraftworthError
from draftworth.experiment.naming import EXPERIMENT_TAG, PARTS, PROJECT, Names
from draftworth.planning.resolved import ResolvedNeuron

# What logical ids begin with: a part's name, or that of CDK's function beside the parts.
_LOGICAL_IDS = "|".join((*PARTS, "Custom"))


@dataclass(frozen=True, kw_only=True)
class Scope:
    """Where to look, and whose resources to look for."""

    experiment: ResolvedNeuron
    clients: Clients
    now: datetime

    @property
    def names(self) -> Names:
        """The names made from the experiment's."""
        return self.experiment.names

    @property
    def region(self) -> str:
        """The experiment's region."""
        return self.experiment.spec.aws.region

    @cached_property
    def here(self) -> Region:
        """The experiment's region, to be asked."""
        return Region(name=self.region, clients=self.clients)

    @property
    def client(self) -> Callable[[str], Any]:
        """Gives the client of a service in the experiment's region, made once."""
        return self.here.client

    @cached_property
    def vpc_ids(self) -> list[str]:
        """The experiment's networks: what is inside them is the experiment's, tagged or not."""
        tagged = {"Name": f"tag:{EXPERIMENT_TAG}", "Values": [self.experiment.name]}
        doing, result = "list the networks", "Vpcs[].VpcId"
        return self.here.list_all(doing, "ec2", "describe_vpcs", result, Filters=[tagged])

    def owns(self, name: str, tags: Callable[[], Mapping[str, str]]) -> bool:
        """Whether a name with the project's prefix is this experiment's: by tag, else by name.

        CloudFormation cuts long stack names inside the names it makes, so that those of two
        experiments may begin alike. `tags` is called only for names with the project's prefix.
        """
        if not name.startswith(f"{PROJECT}-"):
            return False
        if tagged := tags().get(EXPERIMENT_TAG):
            return tagged == self.experiment.name
        return of_stack(self.names.stack, name)


def of_stack(stack: str, name: str) -> bool:
    """Whether a name is a stack's, or one that CloudFormation made in it: `STACK-LOGICALID-RANDOM`.

    `draftworth-x-network-...` is no resource of experiment `x`: its logical ids are longer than a
    part's name and have no hyphens. So it is one of experiment `x-network`.
    """
    made = rf"{re.escape(stack)}(-({_LOGICAL_IDS})[a-z0-9]+-[a-z0-9]+)?"
    return re.fullmatch(made, name, re.IGNORECASE) is not None


def stack_outputs(experiment: ResolvedNeuron) -> Mapping[str, str]:
    """Every output by its name; raises AwsError where there is no stack, or it may not be read."""
    region, stack = experiment.spec.aws.region, experiment.names.stack
    with explained(f"look up the outputs of the stack {stack}", region=region):
        answer = client("cloudformation", region).describe_stacks(StackName=stack)
    found = answer["Stacks"][0].get("Outputs", [])
    return {output["OutputKey"]: output["OutputValue"] for output in found}


def bucket_in(outputs: Mapping[str, str], name: str) -> str | None:
    """The bucket in an output such as `s3://BUCKET/FOLDER`."""
    location = outputs.get(name)
    return location.removeprefix("s3://").partition("/")[0] if location else None


def bucket_of(experiment: ResolvedNeuron, name: str) -> str:
    """The same of a deployed experiment; raises DraftworthError where the stack names none."""
    bucket = bucket_in(stack_outputs(experiment), name)
    if bucket is None:
        raise DraftworthError(
            f"stack {experiment.names.stack} in {experiment.spec.aws.region}: it has no output "
            f"{name}; next: deploy again with this version"
        )
    return bucket
