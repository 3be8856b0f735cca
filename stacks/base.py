"""The parts of the one stack of an experiment, and their order."""

from collections.abc import Mapping

from aws_cdk import CfnOutput, CfnResource, CfnWaitConditionHandle, Stack, Tags
from constructs import Construct, IConstruct

from draftworth.planning.resolved import ResolvedNeuron

# Of these types CloudFormation takes tags as a mapping instead of a list.
_TAGS_AS_MAPPING = {"AWS::SSM::Parameter"}


class StackPart(Construct):
    """A part of the one stack of an experiment: its resources carry its tags.

    The region is the experiment's; the account stays open until deployment. With an account CDK
    would look zones up in it; the experiment names them, and synthesis needs no credentials.
    """

    def __init__(self, scope: Stack, part: str, *, experiment: ResolvedNeuron) -> None:
        super().__init__(scope, part)
        self.names, self.own_tags = experiment.names, experiment.names.tags(part)
        self.region = experiment.spec.aws.region
        for key, value in self.own_tags.items():
            Tags.of(self).add(key, value)

    def output(self, id_: str, value: str, description: str) -> None:
        """Show a value that a person or a command needs after the deploy."""
        CfnOutput(Stack.of(self), id_, value=value, description=description)


def stands_on(part: StackPart, *others: StackPart) -> None:
    """Create all of a part after all of the others, and delete it before any of them.

    The order goes through one resource without a function (a handle without a condition): a
    dependency of each resource on each other would be thousands of lines of template.
    """
    barrier = CfnWaitConditionHandle(Stack.of(part), f"{part.node.id}-may-begin")
    barrier.node.add_dependency(*others)
    part.node.add_dependency(barrier)


def tag_raw_resources(construct: IConstruct, tags: Mapping[str, str]) -> None:
    """Tag a construct and those directly below it that CDK writes without tag support.

    CloudFormation would hand the stack's tags on to them; in the template a test sees them.
    """
    listed = [{"Key": key, "Value": value} for key, value in tags.items()]
    for child in (construct, *construct.node.children):
        if isinstance(child, CfnResource):
            as_mapping = child.cfn_resource_type in _TAGS_AS_MAPPING
            child.add_property_override("Tags", dict(tags) if as_mapping else listed)
