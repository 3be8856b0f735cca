"""Zones of the control plane, CPU nodes, add-ons and node images."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from moto import mock_aws

from draftworth.account.checks.cluster import add_ons, control_plane_zones, cpu_nodes, node_image
from draftworth.account.market import offer
from draftworth.experiment.aws import ADD_ONS, S3_ADD_ON
from tests.draftworth.account.stubs import Answer, experiment, situation

pytestmark = [pytest.mark.emulator]


def zones(**ids: str) -> Answer:
    """Zones of us-east-1 by letter."""
    listed = [
        {"ZoneName": f"us-east-1{letter}", "ZoneId": zone_id, "ZoneType": "availability-zone"}
        for letter, zone_id in ids.items()
    ]
    local = {"ZoneName": "us-east-1-bos-1a", "ZoneId": "use1-bos1-az1", "ZoneType": "local-zone"}
    return Answer(
        method="describe_availability_zones", response={"AvailabilityZones": [*listed, local]}
    )


def in_virginia(letter: str, **aws: Any) -> Any:
    return experiment(region="us-east-1", availability_zone=f"us-east-1{letter}", **aws)


def offered(*places: str) -> Answer:
    offerings = [{"InstanceType": "m7i.xlarge", "Location": zone} for zone in places]
    return Answer(
        method="describe_instance_type_offerings", response={"InstanceTypeOfferings": offerings}
    )


def quota(vcpus: float) -> Answer:
    return Answer(method="get_service_quota", response={"Quota": {"Value": vcpus}})


def running(*types: str) -> Answer:
    """Instances of four vCPUs each."""
    instances = [
        {"InstanceType": kind, "CpuOptions": {"CoreCount": 2, "ThreadsPerCore": 2}}
        for kind in types
    ]
    return Answer(
        method="describe_instances", response={"Reservations": [{"Instances": instances}]}
    )


def add_on(*versions: str, default: int = 0, kubernetes: str = "1.35") -> Answer:
    """Versions of an add-on, one of them the default."""
    listed = [
        {
            "addonVersion": version,
            "compatibilities": [{"clusterVersion": kubernetes, "defaultVersion": i == default}],
        }
        for i, version in enumerate(versions)
    ]
    return Answer(
        method="describe_addon_versions", response={"addons": [{"addonVersions": listed}]}
    )


def all_add_ons(**others: Answer) -> list[Answer]:
    """An answer for each add-on; `others`: by name, hyphens as underscores."""
    given = {name.replace("_", "-"): answer for name, answer in others.items()}
    return [given.get(name) or add_on("v2.1.0-eksbuild.1") for name in ADD_ONS]


def release(value: str) -> Answer:
    return Answer(method="get_parameter", response={"Parameter": {"Value": value}})


def test_two_zones_of_the_account_pass_with_their_ids() -> None:
    with mock_aws():
        outcome = control_plane_zones(situation())
    assert outcome.status == "pass"
    assert "us-east-2c (use2-az3) and us-east-2a (use2-az1)" in outcome.found


def test_the_zone_that_eks_refuses_is_found_by_its_id() -> None:
    given = situation(in_virginia("b"), ec2=[zones(a="use1-az3", b="use1-az1", c="use1-az2")])
    outcome = control_plane_zones(given)
    assert outcome.status == "fail"
    assert "us-east-1a, which is use1-az3" in outcome.found
    assert outcome.next_step == "set aws.second_zone to us-east-1c"


def test_another_letter_of_the_refused_zone_is_none_of_our_business() -> None:
    given = situation(in_virginia("b"), ec2=[zones(a="use1-az1", b="use1-az2", c="use1-az3")])
    assert control_plane_zones(given).status == "pass"


def test_the_second_zone_that_the_experiment_names_is_the_one_that_counts() -> None:
    named = in_virginia("b", second_zone="us-east-1c")
    given = situation(named, ec2=[zones(a="use1-az3", b="use1-az1", c="use1-az2")])
    assert control_plane_zones(given).status == "pass"


def test_accelerators_in_a_refused_zone_fail_with_the_zones_that_do() -> None:
    given = situation(in_virginia("b"), ec2=[zones(a="use1-az1", b="use1-az3", c="use1-az2")])
    outcome = control_plane_zones(given)
    assert outcome.status == "fail"
    assert outcome.next_step == "set aws.availability_zone to us-east-1a or us-east-1c"


def test_a_zone_that_the_account_does_not_have_fails() -> None:
    given = situation(in_virginia("b"), ec2=[zones(b="use1-az1", d="use1-az4")])
    outcome = control_plane_zones(given)
    assert outcome.status == "fail"
    assert "no zone us-east-1a" in outcome.found
    assert outcome.next_step == "set aws.second_zone to us-east-1d"


def test_cpu_nodes_need_their_type_in_the_zone_and_the_quota() -> None:
    answers = [offered("us-east-2c"), running("m7i.xlarge", "c7i.xlarge")]
    outcome = cpu_nodes(situation(ec2=answers, service_quotas=[quota(16)]))
    assert outcome.status == "pass"
    assert "(L-1216C47A): 16 vCPU, 8 in use, 8 needed" in outcome.found


def test_a_zone_without_the_cpu_nodes_type_fails() -> None:
    outcome = cpu_nodes(situation(ec2=[offered("us-east-2a")]))
    assert outcome.status == "fail"
    assert "not offered in us-east-2c, but in us-east-2a" in outcome.found


def test_a_new_accounts_quota_is_too_small_for_the_cpu_nodes() -> None:
    given = situation(ec2=[offered("us-east-2c")], service_quotas=[quota(5)])
    outcome = cpu_nodes(given)
    assert outcome.status == "fail"
    assert "--quota-code L-1216C47A --desired-value 8" in outcome.next_step


@pytest.mark.parametrize(
    "other", ["trn2.48xlarge", "inf2.xlarge", "hpc7a.48xlarge", "dl1.24xlarge"]
)
def test_families_with_quotas_of_their_own_take_nothing_of_the_standard_one(other: str) -> None:
    answers = [offered("us-east-2c"), running("t3.large", other)]
    outcome = cpu_nodes(situation(ec2=answers, service_quotas=[quota(12)]))
    assert outcome.status == "pass"
    assert "4 in use" in outcome.found


def test_add_ons_of_today_come_as_pins() -> None:
    outcome = add_ons(situation(eks=all_add_ons(vpc_cni=add_on("v1.9.0", "v1.20.4", default=1))))
    assert outcome.status == "pass"
    pins = outcome.paste["pins"]["add_ons"]
    assert set(pins) == set(ADD_ONS)
    assert pins["vpc-cni"] == "v1.20.4"
    assert f"{S3_ADD_ON} v2.1.0-eksbuild.1" in outcome.found


def test_a_pin_is_what_a_deploy_gets_as_long_as_eks_has_it() -> None:
    old = add_on("v1.15.0-eksbuild.1", "v2.9.2-eksbuild.1")
    pinned = experiment(pins={"add_ons": {S3_ADD_ON: "v2.9.2-eksbuild.1"}})
    answers = all_add_ons(aws_mountpoint_s3_csi_driver=old)
    outcome = add_ons(situation(pinned, eks=answers))
    assert outcome.status == "pass"
    assert f"1 pinned, the others by default; {S3_ADD_ON} v2.9.2" in outcome.found
    gone = experiment(pins={"add_ons": {"vpc-cni": "v1.0.0-eksbuild.1"}})
    outcome = add_ons(situation(gone, eks=all_add_ons()))
    assert outcome.status == "fail"
    assert "no longer has vpc-cni v1.0.0-eksbuild.1" in outcome.found


def test_pins_that_are_pasted_are_pins_that_an_experiment_takes() -> None:
    pasted = offer.merged(
        [
            add_ons(situation(eks=all_add_ons())).paste,
            node_image(situation(ssm=[release("1.35.6-20261112")] * 2)).paste,
        ]
    )
    pins = experiment(pins=pasted["pins"]).spec.aws.pins
    assert pins.node_release == "1.35.6-20261112"
    assert set(pins.add_ons) == set(ADD_ONS)


def test_a_pinned_node_release_is_told_beside_todays() -> None:
    pinned = experiment(pins={"node_release": "1.35.2-20260901"})
    outcome = node_image(situation(pinned, ssm=[release("1.35.6-20261112")] * 2))
    assert outcome.status == "pass"
    assert "pinned to 1.35.2-20260901; today's: neuron 1.35.6-20261112" in outcome.found
    assert outcome.paste == {}


def test_an_s3_driver_whose_default_is_version_1_fails_with_the_newest_one_to_pin() -> None:
    old = add_on("v1.15.0-eksbuild.1", "v2.9.2-eksbuild.1", "v2.10.0-eksbuild.2")
    outcome = add_ons(situation(eks=all_add_ons(aws_mountpoint_s3_csi_driver=old)))
    assert outcome.status == "fail"
    assert outcome.next_step == f"set aws.pins.add_ons.{S3_ADD_ON} to v2.10.0-eksbuild.2"
    assert outcome.paste["pins"]["add_ons"][S3_ADD_ON] == "v2.10.0-eksbuild.2"


def test_an_s3_driver_without_a_second_version_fails_with_nothing_to_pin() -> None:
    old = add_on("v1.15.0-eksbuild.1")
    outcome = add_ons(situation(eks=all_add_ons(aws_mountpoint_s3_csi_driver=old)))
    assert outcome.status == "fail"
    assert outcome.next_step == "choose another region"
    assert outcome.paste == {}


@pytest.mark.parametrize("none", [add_on(), add_on("v1.3.0", kubernetes="1.34")])
def test_an_add_on_without_a_default_for_this_kubernetes_fails(none: Answer) -> None:
    outcome = add_ons(situation(eks=all_add_ons(kube_proxy=none)))
    assert outcome.status == "fail"
    assert "no default version of kube-proxy" in outcome.found


def test_the_node_images_release_comes_as_a_pin() -> None:
    outcome = node_image(situation(ssm=[release("1.35.6-20261112"), release("1.35.6-20261112")]))
    assert outcome.status == "pass"
    assert outcome.paste == {"pins": {"node_release": "1.35.6-20261112"}}


def test_releases_that_differ_are_a_warning_with_the_older_one() -> None:
    outcome = node_image(situation(ssm=[release("1.35.6-20261112"), release("1.35.10-20261119")]))
    assert outcome.status == "warn"
    assert outcome.paste == {"pins": {"node_release": "1.35.6-20261112"}}


@pytest.mark.parametrize(
    "answer", [release("ami-0123"), Answer(method="get_parameter", error="ParameterNotFound")]
)
def test_a_release_that_is_none_is_a_warning_without_a_pin(answer: Answer) -> None:
    outcome = node_image(situation(ssm=[release("1.35.6-20261112"), answer]))
    assert outcome.status == "warn"
    assert "standard unknown" in outcome.found
    assert outcome.paste == {}


def test_pins_of_several_checks_become_one_piece_of_yaml() -> None:
    parts: list[dict[str, Any]] = [
        {"pins": {"add_ons": {"vpc-cni": "v1.20.4"}}},
        {},
        {"pins": {"node_release": "1.35.6-20261112"}, "region": "us-east-2"},
    ]
    lines = list(offer.yaml_lines(offer.merged(parts)))
    assert lines[:3] == ["aws:", "  pins:", "    add_ons:"]
    assert yaml.safe_load("\n".join(lines))["aws"] == {
        "pins": {"add_ons": {"vpc-cni": "v1.20.4"}, "node_release": "1.35.6-20261112"},
        "region": "us-east-2",
    }
