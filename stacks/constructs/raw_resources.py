"""Resources that CDK writes without its own tag support: named here, and tagged by hand.

CloudFormation hands the stack's tags on to them at deployment all the same; in the template, a test
sees them.
"""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import CfnResource
from constructs import IConstruct

# Of these types CloudFormation takes tags as a mapping instead of a list.
_TAGS_AS_MAPPING = {"AWS::SSM::Parameter"}


def tag_raw_resources(construct: IConstruct, tags: Mapping[str, str]) -> None:
    """Tag every CloudFormation resource that stands directly below a construct, or is it."""
    listed = [{"Key": key, "Value": value} for key, value in tags.items()]
    for child in (construct, *construct.node.children):
        if isinstance(child, CfnResource):
            as_mapping = child.cfn_resource_type in _TAGS_AS_MAPPING
            child.add_property_override("Tags", dict(tags) if as_mapping else listed)
