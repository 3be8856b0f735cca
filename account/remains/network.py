"""The network and all that holds it: gateways, addresses, interfaces, groups, load balancers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from account.prices import NAT_GATEWAY, monthly_usd, standing_usd
from account.remains.scope import Finder, Remnant, Scope, name_tag, pages

_NAT_GONE = ("deleted", "deleting", "failed")
# The other things of EC2 that a tag finds: type in the tag's entry, what deletes one.
_OTHERS: Mapping[str, str] = {
    "internet-gateway": "delete-internet-gateway --internet-gateway-id",
    "launch-template": "delete-launch-template --launch-template-id",
    "route-table": "delete-route-table --route-table-id",
    "subnet": "delete-subnet --subnet-id",
    "vpc-endpoint": "delete-vpc-endpoints --vpc-endpoint-ids",
    "vpc-flow-log": "delete-flow-logs --flow-log-ids",
}
LAMBDA_KEEPS = "wait: Lambda gives it back by itself, up to some tens of minutes after its function"


def vpcs(scope: Scope) -> Iterator[Remnant]:
    """The network itself; it cannot go before what is in it."""
    for vpc in scope.vpcs:
        yield Remnant(
            kind="VPC",
            id=vpc["VpcId"],
            name=name_tag(vpc),
            remove=scope.command(f"ec2 delete-vpc --vpc-id {vpc['VpcId']}"),
        )


def nat_gateways(scope: Scope) -> Iterator[Remnant]:
    """NAT gateways by tag; a deleted one is listed for an hour more."""
    for gateway in _in_network_or_tagged(scope, "describe_nat_gateways", "NatGateways", "Filter"):
        if gateway["State"] in _NAT_GONE:
            continue
        id_ = gateway["NatGatewayId"]
        yield Remnant(
            kind="NAT gateway",
            id=id_,
            name=name_tag(gateway),
            created=gateway.get("CreateTime"),
            usd_per_month=standing_usd(NAT_GATEWAY),
            remove=scope.command(f"ec2 delete-nat-gateway --nat-gateway-id {id_}"),
        )


def addresses(scope: Scope) -> Iterator[Remnant]:
    """Elastic addresses, which cost whether used or not."""
    answer = scope.client("ec2").describe_addresses(Filters=[scope.tag_filter])
    for address in answer["Addresses"]:
        yield Remnant(
            kind="elastic address",
            id=address["AllocationId"],
            name=address.get("PublicIp", ""),
            usd_per_month=monthly_usd("public_ipv4"),
            remove=scope.command(f"ec2 release-address --allocation-id {address['AllocationId']}"),
        )


def interfaces(scope: Scope) -> Iterator[Remnant]:
    """Interfaces in the network, tagged or not: CNI and Lambda make them without our tags."""
    found = _in_network_or_tagged(scope, "describe_network_interfaces", "NetworkInterfaces")
    for interface in found:
        id_ = interface["NetworkInterfaceId"]
        delete = scope.command(f"ec2 delete-network-interface --network-interface-id {id_}")
        lambdas = interface.get("Description", "").startswith("AWS Lambda VPC ENI")
        yield Remnant(
            kind="interface",
            id=id_,
            name=f"{interface['Status']}, {interface.get('Description', '')}".rstrip(", "),
            remove=LAMBDA_KEEPS if lambdas and interface["Status"] == "in-use" else delete,
        )


def security_groups(scope: Scope) -> Iterator[Remnant]:
    """Groups in the network but its own: EKS makes one a cluster, and may fail to delete it."""
    for group in _in_network_or_tagged(scope, "describe_security_groups", "SecurityGroups"):
        if group["GroupName"] == "default":
            continue
        yield Remnant(
            kind="security group",
            id=group["GroupId"],
            name=group["GroupName"],
            remove=scope.command(f"ec2 delete-security-group --group-id {group['GroupId']}"),
        )


def _in_network_or_tagged(
    scope: Scope, operation: str, key: str, filters: str = "Filters"
) -> Iterator[Mapping[str, Any]]:
    """EC2's things inside the experiment's networks or with its tag, each once."""
    ec2 = scope.client("ec2")
    asked = [scope.tag_filter]
    if scope.vpc_ids:
        asked.append({"Name": "vpc-id", "Values": scope.vpc_ids})
    seen: list[Mapping[str, Any]] = []
    for one in asked:
        for entry in pages(ec2, operation, key, **{filters: [one]}):
            if entry not in seen:
                seen.append(entry)
    yield from seen


def load_balancers(scope: Scope) -> Iterator[Remnant]:
    """Load balancers in the network: ours has none, a Service somebody applied may have."""
    inside = set(scope.vpc_ids)
    if not inside:
        return
    for balancer in pages(scope.client("elbv2"), "describe_load_balancers", "LoadBalancers"):
        if balancer.get("VpcId") in inside:
            arn = balancer["LoadBalancerArn"]
            yield Remnant(
                kind="load balancer",
                id=balancer["LoadBalancerName"],
                created=balancer.get("CreatedTime"),
                usd_per_month=monthly_usd("load_balancer"),
                remove=scope.command(f"elbv2 delete-load-balancer --load-balancer-arn {arn}"),
            )


def classic_load_balancers(scope: Scope) -> Iterator[Remnant]:
    """The older kind, which a Service without annotations gets."""
    inside = set(scope.vpc_ids)
    if not inside:
        return
    elb = scope.client("elb")
    for balancer in pages(elb, "describe_load_balancers", "LoadBalancerDescriptions"):
        if balancer.get("VPCId") in inside:
            name = balancer["LoadBalancerName"]
            yield Remnant(
                kind="classic load balancer",
                id=name,
                created=balancer.get("CreatedTime"),
                usd_per_month=monthly_usd("load_balancer"),
                remove=scope.command(f"elb delete-load-balancer --load-balancer-name {name}"),
            )


def placement_groups(scope: Scope) -> Iterator[Remnant]:
    """Placement groups by tag."""
    answer = scope.client("ec2").describe_placement_groups(Filters=[scope.tag_filter])
    for group in answer["PlacementGroups"]:
        if group.get("State") != "deleted":
            name = group["GroupName"]
            yield Remnant(
                kind="placement group",
                id=name,
                remove=scope.command(f"ec2 delete-placement-group --group-name {name}"),
            )


def other_network_parts(scope: Scope) -> Iterator[Remnant]:
    """Subnets, route tables and the like: EC2's own list of tags, which is never late."""
    for entry in pages(scope.client("ec2"), "describe_tags", "Tags", Filters=_tag_entry(scope)):
        delete = _OTHERS.get(entry["ResourceType"])
        if delete:
            yield Remnant(
                kind=entry["ResourceType"].replace("-", " "),
                id=entry["ResourceId"],
                remove=scope.command(f"ec2 {delete} {entry['ResourceId']}"),
            )


def _tag_entry(scope: Scope) -> list[dict[str, Any]]:
    name = scope.tag_filter["Name"].removeprefix("tag:")
    return [
        {"Name": "key", "Values": [name]},
        {"Name": "value", "Values": scope.tag_filter["Values"]},
    ]


FINDERS = (
    Finder(
        looks_at="load balancers",
        find=load_balancers,
        covers=("elasticloadbalancing:loadbalancer",),
    ),
    Finder(looks_at="classic load balancers", find=classic_load_balancers),
    Finder(looks_at="NAT gateways", find=nat_gateways, covers=("ec2:natgateway",)),
    Finder(looks_at="elastic addresses", find=addresses, covers=("ec2:elastic-ip",)),
    Finder(looks_at="interfaces", find=interfaces, covers=("ec2:network-interface",)),
    Finder(looks_at="security groups", find=security_groups, covers=("ec2:security-group",)),
    Finder(looks_at="placement groups", find=placement_groups, covers=("ec2:placement-group",)),
    Finder(
        looks_at="subnets, route tables, gateways, endpoints, launch templates and flow logs",
        find=other_network_parts,
        covers=tuple(f"ec2:{kind}" for kind in _OTHERS),
    ),
    Finder(looks_at="VPCs", find=vpcs, covers=("ec2:vpc",)),
)
