"""The role of a pod can be assumed only for one service account, namespace and cluster."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from stacks.constructs.roles import POD_IDENTITY_PRINCIPAL
from tests.stacks.rendering import collapsed
from tests.stacks.synthesis import Template, experiments, of_type, synthesis

pytestmark = [pytest.mark.synth]
PREFIX = "aws:RequestTag/"
# {service account of an add-on: its namespace}. EKS chooses the namespace, so no template has it
# ("Amazon EKS add-ons", EKS User Guide).
ADD_ON_NAMESPACES = {"aws-node": "kube-system", "cloudwatch-agent": "amazon-cloudwatch"}
Pods = tuple[str, str]


def associated(template: Template) -> Iterator[tuple[str, Pods]]:
    """Yield (role, (namespace, service account)) for a template's Pod Identity associations."""
    for association in of_type(template, "AWS::EKS::PodIdentityAssociation").values():
        properties = association["Properties"]
        yield role_of(properties), (properties["Namespace"], properties["ServiceAccount"])
    for add_on in of_type(template, "AWS::EKS::Addon").values():
        for association in add_on["Properties"].get("PodIdentityAssociations", []):
            account = association["ServiceAccount"]
            yield role_of(association), (ADD_ON_NAMESPACES[account], account)


def role_of(association: dict[str, Any]) -> str:
    logical_id: str = association["RoleArn"]["Fn::GetAtt"][0]
    return logical_id


def wrong_about_trust(template: Template) -> list[str]:
    """Return the trust statements that let other pods than the associated ones assume a role."""
    pods = dict(associated(template))
    wrong_statements: list[str] = []
    for logical_id, role in of_type(template, "AWS::IAM::Role").items():
        for statement in role["Properties"]["AssumeRolePolicyDocument"]["Statement"]:
            if POD_IDENTITY_PRINCIPAL in json.dumps(statement):
                wrong_statements += _wrong_about(logical_id, statement, pods.get(logical_id))
    return wrong_statements


def _wrong_about(role: str, statement: dict[str, Any], pods: Pods | None) -> Iterator[str]:
    tags = statement.get("Condition", {}).get("StringEquals", {})
    cluster = json.dumps(tags.get(f"{PREFIX}eks-cluster-arn", ""))
    if "AWS::AccountId" not in cluster or ":cluster/" not in str(collapsed(json.loads(cluster))):
        yield f"{role}: {statement['Action']} from any cluster or account"
    trusted = tuple(tags.get(f"{PREFIX}kubernetes-{of}") for of in ("namespace", "service-account"))
    if trusted != pods:
        yield f"{role}: {statement['Action']} trusts {trusted}, associated with {pods}"


@pytest.mark.parametrize("name", tuple(experiments()))
@pytest.mark.parametrize("part", ["cluster", "benchmark"])
def test_roles_trust_their_service_account_and_cluster_alone(name: str, part: str) -> None:
    template = synthesis().template(name, part)
    assert list(associated(template)), "without roles this proves nothing"
    assert wrong_about_trust(template) == []


@pytest.mark.parametrize("key", ["eks-cluster-arn", "kubernetes-namespace"])
def test_a_role_that_trusts_more_is_found(key: str) -> None:
    template = copy.deepcopy(synthesis().template("qwen3-32b", "benchmark"))
    roles = [r for k, r in of_type(template, "AWS::IAM::Role").items() if "WorkloadRoles" in k]
    (statement,) = roles[0]["Properties"]["AssumeRolePolicyDocument"]["Statement"]
    del statement["Condition"]["StringEquals"][f"{PREFIX}{key}"]
    assert len(wrong_about_trust(template)) == 1


def test_two_servers_with_each_others_roles_are_found() -> None:
    template = copy.deepcopy(synthesis().template("qwen3-32b", "benchmark"))
    associations = of_type(template, "AWS::EKS::PodIdentityAssociation").values()
    one, other = (
        a["Properties"] for a in associations if a["Properties"]["ServiceAccount"][:4] == "vllm"
    )
    one["RoleArn"], other["RoleArn"] = other["RoleArn"], one["RoleArn"]
    assert len(wrong_about_trust(template)) == 2


def test_the_session_tags_of_trust_are_on() -> None:
    for _, template in synthesis().templates():
        for association in of_type(template, "AWS::EKS::PodIdentityAssociation").values():
            assert not association["Properties"].get("DisableSessionTags")
