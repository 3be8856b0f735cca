"""The base class of the stack's four parts, with their tags; and the order of the parts."""

from aws_cdk import CfnOutput, CfnWaitConditionHandle, Stack, Tags
from constructs import Construct

from draftworth.planning.resolved import ResolvedNeuron


class StackPart(Construct):
    """A part of an experiment's stack; all resources in it get the part's tags.

    id_: one of `PARTS`.

    The region is the experiment's. The stack names no account: with an account, CDK would look up
    availability zones. The experiment names the zones, so synthesis needs no credentials.
    """

    def __init__(self, scope: Stack, id_: str, *, experiment: ResolvedNeuron) -> None:
        super().__init__(scope, id_)
        self.names = experiment.names
        self.region = experiment.spec.aws.region
        self.part_tags = experiment.names.tags(id_)
        for key, value in self.part_tags.items():
            Tags.of(self).add(key, value)

    def output(self, id_: str, value: str, description: str) -> None:
        """Add a stack output: a value that a user or a program needs after the deploy."""
        CfnOutput(Stack.of(self), id_, value=value, description=description)


def stands_on(part: StackPart, *lower_parts: StackPart) -> None:
    """Make `part` depend on `lower_parts`: it is created after them and deleted before them.

    `part` depends on one resource that does nothing (a wait condition's handle), and that resource
    depends on `lower_parts`. Dependencies between all resources would be thousands of lines of the
    template.
    """
    barrier = CfnWaitConditionHandle(Stack.of(part), f"{part.node.id}-may-begin")
    barrier.node.add_dependency(*lower_parts)
    part.node.add_dependency(barrier)
