"""One experiment in one AWS account and region, and how its resources are recognised."""

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

# What the logical ids in this project's stacks begin with: CDK makes them from the path of the
# construct, which begins with a part of the stack (`network`, `storage`, ...), or with `Custom` for
# a function that CDK adds.
_LOGICAL_IDS = "|".join((*PARTS, "Custom"))


@dataclass(frozen=True, kw_only=True)
class Scope:
    """An experiment, the AWS clients of its region, and the time of the command (`now`)."""

    experiment: ResolvedNeuron
    clients: Clients
    now: datetime

    @property
    def names(self) -> Names:
        return self.experiment.names

    @property
    def region(self) -> str:
        return self.experiment.spec.aws.region

    @cached_property
    def here(self) -> Region:
        return Region(name=self.region, clients=self.clients)

    @property
    def client(self) -> Callable[[str], Any]:
        return self.here.client

    @cached_property
    def vpc_ids(self) -> list[str]:
        """Ids of the experiment's VPCs: everything in them is the experiment's, tagged or not."""
        tagged = {"Name": f"tag:{EXPERIMENT_TAG}", "Values": [self.experiment.name]}
        doing, result = "list the networks", "Vpcs[].VpcId"
        return self.here.list_all(doing, "ec2", "describe_vpcs", result, Filters=[tagged])

    def owns(self, name: str, tags: Callable[[], Mapping[str, str]]) -> bool:
        """Return whether a resource is this experiment's: by its tag, or without a tag by its name.

        tags: a function that reads the resource's tags. The tag counts before the name, because
        CloudFormation cuts long stack names: resources of two experiments may be named alike.
        """
        if not name.startswith(f"{PROJECT}-"):
            return False
        if tagged := tags().get(EXPERIMENT_TAG):
            return tagged == self.experiment.name
        return of_stack(self.names.stack, name)


def of_stack(stack: str, name: str) -> bool:
    """Return whether `name` is the stack's name, or the name of a resource of the stack.

    CloudFormation names resources `STACK-LOGICALID-RANDOM`. Logical ids have no hyphens, so
    `draftworth-x-network-...` belongs to the experiment `x-network`, and not to `x`.
    """
    made = rf"{re.escape(stack)}(-({_LOGICAL_IDS})[a-z0-9]+-[a-z0-9]+)?"
    return re.fullmatch(made, name, re.IGNORECASE) is not None


def stack_outputs(experiment: ResolvedNeuron) -> Mapping[str, str]:
    """Return the outputs of the experiment's stack by name; AwsError: it cannot be read."""
    region, stack = experiment.spec.aws.region, experiment.names.stack
    with explained(f"look up the outputs of the stack {stack}", region=region):
        answer = client("cloudformation", region).describe_stacks(StackName=stack)
    outputs = answer["Stacks"][0].get("Outputs", [])
    return {output["OutputKey"]: output["OutputValue"] for output in outputs}


def bucket_in(outputs: Mapping[str, str], name: str) -> str | None:
    """Return the bucket that the stack's output `name` states; None without such an output.

    outputs: values such as `s3://BUCKET/FOLDER`, by name.
    """
    location = outputs.get(name)
    return location.removeprefix("s3://").partition("/")[0] if location else None


def bucket_of(experiment: ResolvedNeuron, name: str) -> str:
    """Return the bucket that output `name` of the experiment's stack states.

    DraftworthError is raised if the stack has no such output, or cannot be read.
    """
    bucket = bucket_in(stack_outputs(experiment), name)
    if bucket is None:
        raise DraftworthError(
            f"stack {experiment.names.stack} in {experiment.spec.aws.region}: it has no output "
            f"{name}; next: deploy again with this version"
        )
    return bucket
