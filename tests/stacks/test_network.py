"""The network: where nodes are, and what reaches them."""

import pytest

from draftworth.experiment.aws import second_zone
from tests.stacks.synthesis import Template, experiments, of_type, only, synthesis

pytestmark = [pytest.mark.synth]
NAMES = tuple(experiments())


def zones(template: Template, kind: str) -> list[str]:
    """Zones of the public or private subnets, in order."""
    subnets = of_type(template, "AWS::EC2::Subnet")
    return [s["Properties"]["AvailabilityZone"] for k, s in subnets.items() if f"Vpc{kind}" in k]


@pytest.mark.parametrize("name", NAMES)
def test_subnets_are_in_the_accelerators_zone_first_and_a_second_one(name: str) -> None:
    template = synthesis().template(name, "network")
    aws = experiments()[name].spec.aws
    assert zones(template, "Private") == [aws.availability_zone, second_zone(aws)]
    assert zones(template, "Public") == [aws.availability_zone, second_zone(aws)]


@pytest.mark.parametrize("name", NAMES)
def test_every_node_is_in_the_private_subnet_of_the_accelerators_zone(name: str) -> None:
    groups = of_type(synthesis().template(name, "cluster"), "AWS::EKS::Nodegroup").values()
    assert len(groups) >= 2
    for group in groups:
        (subnet,) = group["Properties"]["Subnets"]
        assert "VpcPrivateSubnet1" in subnet["Ref"]


def test_one_nat_gateway_stands_in_the_accelerators_zone() -> None:
    gateway = only(synthesis().template("qwen3-32b", "network"), "AWS::EC2::NatGateway")
    assert "PublicSubnet1" in gateway["Properties"]["SubnetId"]["Ref"]


def test_no_subnet_hands_out_public_addresses() -> None:
    subnets = of_type(synthesis().template("qwen3-32b", "network"), "AWS::EC2::Subnet").values()
    assert [s["Properties"]["MapPublicIpOnLaunch"] for s in subnets] == [False] * 4


def test_s3_is_reached_without_the_nat_gateway() -> None:
    template = synthesis().template("qwen3-32b", "network")
    endpoint = only(template, "AWS::EC2::VPCEndpoint")["Properties"]
    assert endpoint["VpcEndpointType"] == "Gateway"
    tables = {table["Ref"] for table in endpoint["RouteTableIds"]}
    private = {k for k in of_type(template, "AWS::EC2::RouteTable") if "Private" in k}
    assert len(private) == 2
    assert private <= tables
    assert "PolicyDocument" not in endpoint, "docs/security.md says why"
