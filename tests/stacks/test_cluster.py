"""The stack's part `cluster`: control plane, add-ons and nodes."""

import json
from typing import Any, get_args

import pytest

from charts.slot_resources import UPLOADER_EPHEMERAL_STORAGE_GIB, slot_resources
from draftworth.experiment.aws import ADD_ONS
from draftworth.experiment.naming import Names
from draftworth.records.deployment import CapacityKind
from tests.stacks.synthesis import Resource, Template, experiments, of_type, only, synthesis

pytestmark = [pytest.mark.synth]
NAMES = tuple(experiments())
SMALL = "small-nodes"
# Disk for unpacked images. The Neuron image has 18 GB when it is pulled, and more than 20 unpacked.
UNPACKED_IMAGES_GIB = 40


def cluster(name: str = "qwen3-32b") -> Template:
    return synthesis().template(name, "cluster")


def properties(template: Template, kind: str, fragment: str = "") -> dict[str, Any]:
    resource_properties: dict[str, Any] = only(template, kind, fragment)["Properties"]
    return resource_properties


def launch_data(name: str) -> dict[str, Any]:
    template = properties(cluster(name), "AWS::EC2::LaunchTemplate", "Accelerator")
    data: dict[str, Any] = template["LaunchTemplateData"]
    return data


def add_ons(template: Template) -> dict[str, Resource]:
    resources = of_type(template, "AWS::EKS::Addon").values()
    return {r["Properties"]["AddonName"]: r for r in resources}


@pytest.mark.parametrize("name", NAMES)
def test_public_endpoint_exists_only_for_listed_ranges(name: str) -> None:
    network = properties(cluster(name), "AWS::EKS::Cluster")["ResourcesVpcConfig"]
    listed = list(experiments()[name].spec.aws.public_access_cidrs)
    assert network["EndpointPrivateAccess"] is True
    assert network["EndpointPublicAccess"] is bool(listed)
    assert network.get("PublicAccessCidrs", []) == listed
    assert "0.0.0.0/0" not in listed


@pytest.mark.parametrize("name", NAMES)
def test_administrators_are_those_listed_and_the_deployment(name: str) -> None:
    entries = of_type(cluster(name), "AWS::EKS::AccessEntry").values()
    principals = [e["Properties"]["PrincipalArn"] for e in entries]
    people = [p for p in principals if isinstance(p, str)]
    assert people == list(experiments()[name].spec.aws.admin_principal_arns)
    assert len(principals) == len(people) + 1


@pytest.mark.parametrize("name", NAMES)
def test_versions_are_pinned_or_left_to_eks(name: str) -> None:
    pins = experiments()[name].spec.aws.pins
    assert (pins.add_ons.keys() == {*ADD_ONS}) == (name != SMALL)
    versions = {n: r["Properties"].get("AddonVersion") for n, r in add_ons(cluster(name)).items()}
    assert versions == {**dict.fromkeys(ADD_ONS), **pins.add_ons}


@pytest.mark.parametrize("name", NAMES)
def test_only_accelerator_nodes_have_a_pinned_image(name: str) -> None:
    groups = of_type(cluster(name), "AWS::EKS::Nodegroup")
    (accelerator,) = (k for k in groups if "Accelerator" in k)
    pinned = {k: g["Properties"].get("ReleaseVersion") for k, g in groups.items()}
    release = experiments()[name].spec.aws.pins.node_release
    assert pinned == {**dict.fromkeys(groups), accelerator: release}


@pytest.mark.parametrize("name", NAMES)
def test_helm_records_the_driver_in_an_existing_namespace(name: str) -> None:
    release = properties(cluster(name), "Custom::AWSCDK-EKS-HelmChart")
    assert release["Namespace"] == "kube-system"
    # CDK's handler takes any text for "yes", "false" too.
    assert "CreateNamespace" not in release


@pytest.mark.parametrize("name", NAMES)
def test_measured_programs_are_not_instrumented(name: str) -> None:
    """`test_instrumentation.py` renders the objects that the chart makes of these values."""
    add_on = add_ons(cluster(name))["amazon-cloudwatch-observability"]["Properties"]
    values = json.loads(add_on["ConfigurationValues"])
    assert values["applicationSignals"]["enabled"] is False
    assert values["manager"]["applicationSignals"]["autoMonitor"]["monitorAllServices"] is False
    (collected,) = values["agent"]["config"].values()
    assert collected["metrics_collected"].keys() == {"kubernetes"}


@pytest.mark.parametrize("name", NAMES)
def test_accelerators_are_as_asked_and_none_at_deploy(name: str) -> None:
    """The node group has the wanted kind of capacity, and no nodes when it is created.

    Its sizes are equal for all experiments: a deploy that does not change them ends no nodes.
    """
    group = properties(cluster(name), "AWS::EKS::Nodegroup", "Accelerator")
    types = {"spot": "SPOT", "capacity_block": "CAPACITY_BLOCK", "on_demand": "ON_DEMAND"}
    assert group["CapacityType"] == types[experiments()[name].spec.aws.capacity.kind]
    assert group["ScalingConfig"] == {"MinSize": 0, "DesiredSize": 0, "MaxSize": 1}
    # The AMI is the one with Neuron's driver; the launch template has the instance type.
    assert group["AmiType"] == "AL2023_x86_64_NEURON"
    assert not {"InstanceTypes", "DiskSize"} & set(group)
    assert launch_data(name)["InstanceType"] == experiments()[name].spec.aws.instance_type


def test_another_way_of_buying_is_another_node_group() -> None:
    """CloudFormation creates a new group before it deletes the old one, so names must differ."""
    made = [Names(experiment="x" * 32).node_group(kind) for kind in get_args(CapacityKind)]
    assert len(set(made)) == 3
    assert all(len(name) <= 63 for name in made)
    group = properties(cluster(), "AWS::EKS::Nodegroup", "Accelerator")
    assert group["NodegroupName"] == "draftworth-qwen3-32b-accelerator-spot"


@pytest.mark.parametrize("name", NAMES)
def test_reservation_and_placement_group_follow_capacity_and_efa(name: str) -> None:
    data, capacity = launch_data(name), experiments()[name].spec.aws.capacity
    groups = of_type(cluster(name), "AWS::EC2::PlacementGroup")
    if capacity.is_block:
        target = data["CapacityReservationSpecification"]["CapacityReservationTarget"]
        assert target == {"CapacityReservationId": capacity.reservation_id}
        assert data["InstanceMarketOptions"] == {"MarketType": "capacity-block"}
    else:
        assert "InstanceMarketOptions" not in data
        assert "CapacityReservationSpecification" not in data
    # Only `on-demand` has two nodes with EFA; the other experiment with two nodes has no EFA.
    assert bool(groups) == (name == "on-demand")
    placements = [data["Placement"]] if "Placement" in data else []
    assert placements == [{"GroupName": {"Fn::GetAtt": [group, "GroupName"]}} for group in groups]


def test_without_efa_there_are_no_interfaces_or_groups() -> None:
    """EKS attaches the cluster's security group if a launch template has no interface or group."""
    assert not {"NetworkInterfaces", "SecurityGroupIds"} & set(launch_data(SMALL))
    assert not [k for k in of_type(cluster(SMALL), "AWS::EC2::SecurityGroup") if "Efa" in k]


def test_a_lone_root_disk_suits_image_and_pods() -> None:
    """A disk without NVMe beside it has room for images and pods, and is fast enough.

    Of the disk EKS reserves 1 GiB, and kubelet evicts pods when less than a tenth of it is free.
    """
    (disk,) = launch_data(SMALL)["BlockDeviceMappings"]
    pod_storage_gib = slot_resources(experiments()[SMALL]).ephemeral_storage_gib
    pod_storage_gib += UPLOADER_EPHEMERAL_STORAGE_GIB
    assert pod_storage_gib + UNPACKED_IMAGES_GIB < (disk["Ebs"]["VolumeSize"] - 1) * 0.9
    assert disk["Ebs"]["Throughput"] >= 600, "a fast image pull would be a slow one"
    assert disk["Ebs"]["Iops"] >= 4 * disk["Ebs"]["Throughput"], "gp3 gives 0.25 MiB/s each"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("fragment", "hops"), [("Accelerator", 2), ("Cpu", 1)])
def test_nodes_limit_metadata_and_encrypt_their_disk(name: str, fragment: str, hops: int) -> None:
    data = properties(cluster(name), "AWS::EC2::LaunchTemplate", fragment)["LaunchTemplateData"]
    assert data["MetadataOptions"] == {"HttpTokens": "required", "HttpPutResponseHopLimit": hops}
    (disk,) = data["BlockDeviceMappings"]
    assert disk["Ebs"]["Encrypted"] is True
    assert disk["Ebs"]["VolumeType"] == "gp3"
