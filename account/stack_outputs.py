"""What a deployed stack says of itself: its outputs."""

from __future__ import annotations

from collections.abc import Mapping

from account.clients import client, explained
from draftworth.errors import DraftworthError
from draftworth.planning.resolved import ResolvedNeuron


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
