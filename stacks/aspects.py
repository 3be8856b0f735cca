"""CDK aspects that give tags and log groups to the resources that CDK itself adds to the stack.

CDK visits every construct of the stack at synthesis. No aspect looks for a construct of CDK by its
id, which another version of CDK may change.
"""

import json
from typing import cast

import jsii
from aws_cdk import CfnCondition, CfnResource, IAspect, Stack, aws_lambda
from aws_cdk import aws_eks_v2 as eks
from constructs import Construct, IConstruct

from draftworth.experiment.naming import PARTS, Names
from stacks.constructs.functions import owned_log_group
from stacks.constructs.roles import accept, accept_managed_policies

# For these resource types CloudFormation expects the tags as a mapping instead of a list.
_TAGS_AS_MAPPING = {"AWS::SSM::Parameter"}
# CDK adds resources beside the four parts of the stack, such as the function that empties the
# buckets. They get the tags of this part.
PART_OF_WHAT_CDK_ADDS = "storage"

KUBECTL_PROVIDER = (
    "CDK's own kubectl provider: it runs only during deployment, in the VPC's private subnets. CDK "
    "chooses its policies and runtimes; its one wildcard is the versions of its own function."
)
KUBECTL_PROVIDER_POLICIES = (
    "service-role/AWSLambdaBasicExecutionRole",
    "service-role/AWSLambdaVPCAccessExecutionRole",
    "AmazonEC2ContainerRegistryReadOnly",
)
_PUBLIC_ECR_POLICY = ":iam::aws:policy/AmazonElasticContainerRegistryPublicReadOnly"


@jsii.implements(IAspect)
class OwnedFunctionLogs:
    """Gives each Lambda function without a log group one that belongs to the stack.

    The function refers to the log group, so CloudFormation creates the log group before the
    function and deletes it after the function.
    """

    def visit(self, node: IConstruct) -> None:
        if isinstance(node, CfnResource) and _is_function(node) and not _names_log_group(node):
            # The log group is a sibling of the function's resource, not its child. CDK makes the
            # resource and its children depend on the function's role, so a child would be deleted
            # before the role, and a late log event could use the role to create the group again.
            log_group = owned_log_group(cast(Construct, node.node.scope), "LogGroup")
            node.add_property_override("LoggingConfig.LogGroup", log_group.log_group_name)


def _is_function(resource: CfnResource) -> bool:
    if isinstance(resource, aws_lambda.CfnFunction):
        return True
    return _is_raw(resource) and resource.cfn_resource_type == "AWS::Lambda::Function"


def _names_log_group(function: CfnResource) -> bool:
    # CDK defines some of its own functions as a plain `CfnResource`, whose properties cannot be
    # read; none of these functions names a log group.
    logging = function.logging_config if isinstance(function, aws_lambda.CfnFunction) else None
    return bool(getattr(logging, "log_group", None))


@jsii.implements(IAspect)
class RawResourceTags:
    """Tags the resources that CDK writes as raw CloudFormation, which `Tags` does not reach.

    CloudFormation adds the stack's tags only at deployment; tags in the template can be tested.
    """

    def __init__(self, names: Names) -> None:
        self._names = names

    def visit(self, node: IConstruct) -> None:
        if not isinstance(node, CfnResource) or not _is_raw(node):
            return
        # CloudFormation takes no tags for a custom resource, whose type begins with `Custom::`.
        if not node.cfn_resource_type.startswith("AWS::"):
            return
        tags = self._names.tags(_part_of(node))
        as_list = [{"Key": key, "Value": value} for key, value in tags.items()]
        as_mapping = node.cfn_resource_type in _TAGS_AS_MAPPING
        node.add_property_override("Tags", tags if as_mapping else as_list)


@jsii.implements(IAspect)
class KubectlProviderFindings:
    """Accepts cdk-nag's findings on the functions of CDK that run kubectl and Helm."""

    def visit(self, node: IConstruct) -> None:
        if isinstance(node, eks.KubectlProvider):
            accept_managed_policies(node, *KUBECTL_PROVIDER_POLICIES, reason=KUBECTL_PROVIDER)
            accept(node, "AwsSolutions-L1", reason=KUBECTL_PROVIDER)
            for condition in node.node.find_all():
                if isinstance(condition, CfnCondition):
                    accept(node, *_handler_findings(condition), reason=KUBECTL_PROVIDER)


def _handler_findings(has_public_ecr: CfnCondition) -> tuple[str, str]:
    """Return the ids of two cdk-nag findings on the function with which CDK runs kubectl.

    One is on the function's policy for ECR Public, the other on the right to call all versions of
    the function. The template gives the policy's ARN as an `Fn::If`, and the finding's id contains
    that `Fn::If` as JSON.
    has_public_ecr: the condition of that `Fn::If`; its parent construct is the function.
    """
    stack = Stack.of(has_public_ecr)
    arn = {"Fn::Join": ["", ["arn:", {"Ref": "AWS::Partition"}, _PUBLIC_ECR_POLICY]]}
    condition_id = stack.resolve(has_public_ecr.logical_id)
    policy = {"Fn::If": [condition_id, arn, {"Ref": "AWS::NoValue"}]}
    handler = cast(Construct, has_public_ecr.node.scope)
    function_id = stack.resolve(cast(CfnResource, handler.node.default_child).logical_id)
    return (
        f"AwsSolutions-IAM4[Policy::{json.dumps(policy, separators=(',', ':'))}]",
        f"AwsSolutions-IAM5[Resource::<{function_id}.Arn>:*]",
    )


def _is_raw(node: IConstruct) -> bool:
    """Return whether a construct is a plain `CfnResource`, without a class for its resource type.

    Only such a class has a property for tags.
    """
    return type(node) is CfnResource


def _part_of(node: IConstruct) -> str:
    """Return the name of the stack's part whose tags a resource gets.

    It is the part that the resource is in, or `PART_OF_WHAT_CDK_ADDS` if it is in none.
    """
    below_stack = node.node.path.split("/")[1]
    return below_stack if below_stack in PARTS else PART_OF_WHAT_CDK_ADDS
