"""The network: in which subnet nodes are, and that they reach the Internet only through NAT."""

import pytest

from draftworth.experiment.aws import second_zone
from tests.stacks.synthesis import Template, experiments, of_type, synthesis

pytestmark = [pytest.mark.synth]
NAMES = tuple(experiments())


def zones(template: Template, kind: str) -> list[str]:
    """Return the zones of the subnets, in order; kind: `Public` or `Private`."""
    subnets = of_type(template, "AWS::EC2::Subnet")
    return [s["Properties"]["AvailabilityZone"] for k, s in subnets.items() if f"Vpc{kind}" in k]


@pytest.mark.parametrize("name", NAMES)
def test_subnets_are_in_the_accelerators_and_another_zone(name: str) -> None:
    template = synthesis().template(name, "network")
    aws = experiments()[name].spec.aws
    assert zones(template, "Private") == [aws.availability_zone, second_zone(aws)]
    assert zones(template, "Public") == [aws.availability_zone, second_zone(aws)]


@pytest.mark.parametrize("name", NAMES)
def test_every_node_is_in_the_accelerators_private_subnet(name: str) -> None:
    groups = of_type(synthesis().template(name, "cluster"), "AWS::EKS::Nodegroup").values()
    assert len(groups) >= 2
    for group in groups:
        (subnet,) = group["Properties"]["Subnets"]
        assert "VpcPrivateSubnet1" in subnet["Ref"]


def test_nodes_use_the_nat_gateway_without_public_addresses() -> None:
    """Nodes call out, and nothing can call them; this is enough for Session Manager's agent too."""
    template = synthesis().template("qwen3-32b", "network")
    routes = of_type(template, "AWS::EC2::Route")
    (route,) = (r["Properties"] for k, r in routes.items() if "VpcPrivateSubnet1" in k)
    assert route["DestinationCidrBlock"] == "0.0.0.0/0"
    assert "NatGatewayId" in route
    subnets = of_type(template, "AWS::EC2::Subnet").values()
    assert not any(s["Properties"]["MapPublicIpOnLaunch"] for s in subnets)
