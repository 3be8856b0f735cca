"""Tags for resources that CDK writes without tag support.

CloudFormation would hand the stack's tags on to them at deployment; in the template a test sees
them.
"""

from collections.abc import Mapping

from aws_cdk import CfnResource
from constructs import IConstruct

# Of these types CloudFormation takes tags as a mapping instead of a list.
_TAGS_AS_MAPPING = {"AWS::SSM::Parameter"}


def tag_raw_resources(construct: IConstruct, tags: Mapping[str, str]) -> None:
    """Tag a construct and those directly below it that are CloudFormation resources."""
    listed = [{"Key": key, "Value": value} for key, value in tags.items()]
    for child in (construct, *construct.node.children):
        if isinstance(child, CfnResource):
            as_mapping = child.cfn_resource_type in _TAGS_AS_MAPPING
            child.add_property_override("Tags", dict(tags) if as_mapping else listed)
