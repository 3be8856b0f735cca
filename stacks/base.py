"""What the parts of an experiment's stack have in common, and the order in which they stand."""

from __future__ import annotations

from aws_cdk import CfnOutput, CfnWaitConditionHandle, Stack, Tags
from constructs import Construct

from draftworth.planning.resolved import ResolvedNeuron


class Part(Construct):
    """A part of an experiment's one stack: its resources carry its tags.

    The region is the experiment's; the account stays open until deployment. With it, CDK would look
    zones up in the account; the experiment says them, and synthesis needs no credentials.
    """

    def __init__(self, scope: Stack, part: str, *, experiment: ResolvedNeuron) -> None:
        super().__init__(scope, part)
        self.names, self.own_tags = experiment.names, experiment.names.tags(part)
        self.region = experiment.spec.aws.region
        for key, value in self.own_tags.items():
            Tags.of(self).add(key, value)

    def output(self, id_: str, value: str, description: str) -> None:
        """A value that a person or a command looks up after the deploy."""
        CfnOutput(Stack.of(self), id_, value=value, description=description)


def stands_on(part: Part, *others: Part) -> None:
    """All of a part is made after all of the others, and deleted before any of it.

    Through one resource that is nothing (a handle without a condition): each resource to each other
    would be thousands of lines of template.
    """
    barrier = CfnWaitConditionHandle(Stack.of(part), f"{part.node.id}-may-begin")
    barrier.node.add_dependency(*others)
    part.node.add_dependency(barrier)
