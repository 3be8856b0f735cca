"""The base class of the stack's parts, the order of the parts, and tags."""

from collections.abc import Mapping

from aws_cdk import CfnOutput, CfnResource, CfnWaitConditionHandle, Stack, Tags
from constructs import Construct, IConstruct

from draftworth.planning.resolved import ResolvedNeuron

# For these resource types CloudFormation expects the tags as a mapping instead of a list.
_TAGS_AS_MAPPING = {"AWS::SSM::Parameter"}


class StackPart(Construct):
    """A part of an experiment's stack; all resources in it get the part's tags.

    The region is the experiment's. The stack names no account: with an account, CDK would look up
    availability zones. The experiment names the zones, so synthesis needs no credentials.
    """

    def __init__(self, scope: Stack, part: str, *, experiment: ResolvedNeuron) -> None:
        super().__init__(scope, part)
        self.names, self.own_tags = experiment.names, experiment.names.tags(part)
        self.region = experiment.spec.aws.region
        for key, value in self.own_tags.items():
            Tags.of(self).add(key, value)

    def output(self, id_: str, value: str, description: str) -> None:
        """Add a stack output: a value that a person or a command needs after the deploy."""
        CfnOutput(Stack.of(self), id_, value=value, description=description)


def stands_on(part: StackPart, *others: StackPart) -> None:
    """Make `part` depend on `others`: it is created after them and deleted before them.

    `part` depends on one resource that does nothing (a wait condition's handle), and that resource
    depends on `others`. Dependencies between all resources would be thousands of template lines.
    """
    barrier = CfnWaitConditionHandle(Stack.of(part), f"{part.node.id}-may-begin")
    barrier.node.add_dependency(*others)
    part.node.add_dependency(barrier)


def tag_raw_resources(construct: IConstruct, tags: Mapping[str, str]) -> None:
    """Tag a construct and its direct children, for resources that CDK itself cannot tag.

    CloudFormation adds the stack's tags only at deployment; tags in the template can be tested.
    """
    listed = [{"Key": key, "Value": value} for key, value in tags.items()]
    for child in (construct, *construct.node.children):
        if isinstance(child, CfnResource):
            as_mapping = child.cfn_resource_type in _TAGS_AS_MAPPING
            child.add_property_override("Tags", dict(tags) if as_mapping else listed)
