"""Zones of the control plane, CPU nodes, add-ons and node images."""

import dataclasses
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace
from typing import Any

import pytest
from moto import mock_aws

from draftworth.account.checks import cluster
from draftworth.account.checks.cluster import add_ons, control_plane_zones, cpu_nodes, node_image
from draftworth.account.market import offers
from draftworth.experiment.aws import ADD_ONS, CPU_INSTANCE_TYPE, S3_ADD_ON
from tests.draftworth.account import stubs

pytestmark = [pytest.mark.emulator]


def running(*types: str) -> stubs.Answer:
    """Instances of four vCPUs each."""
    cores = {"CoreCount": 2, "ThreadsPerCore": 2}
    return stubs.instances(*({"InstanceType": kind, "CpuOptions": cores} for kind in types))


def add_on(*versions: str, default: int = 0, kubernetes: str = "1.35") -> stubs.Answer:
    """Versions of an add-on, one of them the default."""
    listed = [
        {
            "addonVersion": version,
            "compatibilities": [{"clusterVersion": kubernetes, "defaultVersion": i == default}],
        }
        for i, version in enumerate(versions)
    ]
    return stubs.Answer(
        method="describe_addon_versions", response={"addons": [{"addonVersions": listed}]}
    )


def all_add_ons(**others: stubs.Answer) -> list[stubs.Answer]:
    """An answer for each add-on; `others`: by name, hyphens as underscores."""
    given = {name.replace("_", "-"): answer for name, answer in others.items()}
    return [given.get(name) or add_on("v2.1.0-eksbuild.1") for name in ADD_ONS]


def release(value: str) -> stubs.Answer:
    return stubs.Answer(method="get_parameter", response={"Parameter": {"Value": value}})


def test_two_zones_of_the_account_pass_with_their_ids() -> None:
    with mock_aws():
        result = control_plane_zones(stubs.situation())
    assert result.status == "pass"
    assert "us-east-2c (use2-az3) and us-east-2a (use2-az1)" in result.found


@pytest.mark.parametrize(
    ("ids", "second", "next_step"),
    [
        # The refused zone is known by its id, whatever its letter.
        ("a3 b1 c2", None, "set aws.second_zone to us-east-1c"),
        ("a1 b2 c3", None, ""),
        ("a3 b1 c2", "us-east-1c", ""),
        ("a1 b3 c2", None, "set aws.availability_zone to us-east-1a or us-east-1c"),
        ("b1 d4", None, "set aws.second_zone to us-east-1d"),
    ],
)
def test_both_zones_must_exist_and_be_accepted_by_eks(
    ids: str, second: str | None, next_step: str
) -> None:
    listed = stubs.zones(**{f"us_east_1{pair[0]}": f"use1-az{pair[1]}" for pair in ids.split()})
    given = stubs.experiment(region="us-east-1", availability_zone="us-east-1b", second_zone=second)
    result = control_plane_zones(stubs.situation(given, ec2=[listed]))
    assert (result.status, result.next_step) == ("fail" if next_step else "pass", next_step)


@pytest.mark.parametrize(
    ("zone", "vcpus", "status", "told"),
    [
        ("us-east-2c", 16, "pass", "(L-1216C47A): 16 vCPU, 8 in use, 8 needed"),
        ("us-east-2a", 16, "fail", "choose another aws.availability_zone"),
        ("us-east-2c", 5, "fail", "--quota-code L-1216C47A --desired-value 8"),
    ],
)
def test_cpu_nodes_need_their_type_in_the_zone_and_the_quota(
    zone: str, vcpus: int, status: str, told: str
) -> None:
    # Families with quotas of their own take nothing of the standard one.
    others = ("trn2.48xlarge", "inf2.xlarge", "hpc7a.48xlarge", "dl1.24xlarge")
    answers = [
        stubs.offered(zone, kind=CPU_INSTANCE_TYPE),
        running("m7i.xlarge", "c7i.xlarge", *others),
    ]
    result = cpu_nodes(stubs.situation(ec2=answers, service_quotas=[stubs.quota(vcpus)]))
    assert result.status == status
    assert told in f"{result.found}; {result.next_step}"


def test_add_ons_of_today_come_as_pins() -> None:
    result = add_ons(
        stubs.situation(eks=all_add_ons(vpc_cni=add_on("v1.9.0", "v1.20.4", default=1)))
    )
    assert result.status == "pass"
    pins = result.paste["pins"]["add_ons"]
    assert set(pins) == set(ADD_ONS)
    assert pins["vpc-cni"] == "v1.20.4"
    assert f"{S3_ADD_ON} v2.1.0-eksbuild.1" in result.found


def test_a_pin_is_what_a_deploy_gets_as_long_as_eks_has_it() -> None:
    old = add_on("v1.15.0-eksbuild.1", "v2.9.2-eksbuild.1")
    pinned = stubs.experiment(pins={"add_ons": {S3_ADD_ON: "v2.9.2-eksbuild.1"}})
    answers = all_add_ons(aws_mountpoint_s3_csi_driver=old)
    result = add_ons(stubs.situation(pinned, eks=answers))
    assert result.status == "pass"
    assert f"1 pinned, the others by default; {S3_ADD_ON} v2.9.2" in result.found
    gone = stubs.experiment(pins={"add_ons": {"vpc-cni": "v1.0.0-eksbuild.1"}})
    result = add_ons(stubs.situation(gone, eks=all_add_ons()))
    assert result.status == "fail"
    assert "no longer has vpc-cni v1.0.0-eksbuild.1" in result.found


def test_pins_that_are_pasted_are_pins_that_an_experiment_takes() -> None:
    pasted = offers.merged(
        [
            add_ons(stubs.situation(eks=all_add_ons())).paste,
            node_image(
                stubs.situation(stubs.experiment(EAGLE3), ssm=[release("1.35.6-20260714")] * 2)
            ).paste,
        ]
    )
    pins = stubs.experiment(pins=pasted["pins"]).spec.aws.pins
    assert pins.node_release == "1.35.6-20260714"
    assert set(pins.add_ons) == set(ADD_ONS)


@pytest.mark.parametrize(
    ("newest", "next_step", "pin"),
    [
        (
            "v2.10.0-eksbuild.2",
            f"set aws.pins.add_ons.{S3_ADD_ON} to v2.10.0-eksbuild.2",
            "v2.10.0-eksbuild.2",
        ),
        ("v1.14.0-eksbuild.1", "choose another region", None),
    ],
)
def test_an_s3_driver_of_version_1_fails_with_the_newest_one_to_pin_if_there_is_one(
    newest: str, next_step: str, pin: str | None
) -> None:
    old = add_on("v1.15.0-eksbuild.1", "v1.9.2-eksbuild.1", newest)
    result = add_ons(stubs.situation(eks=all_add_ons(aws_mountpoint_s3_csi_driver=old)))
    assert (result.status, result.next_step) == ("fail", next_step)
    assert result.paste.get("pins", {}).get("add_ons", {}).get(S3_ADD_ON) == pin


@pytest.mark.parametrize("none", [add_on(), add_on("v1.3.0", kubernetes="1.34")])
def test_an_add_on_without_a_default_for_this_kubernetes_fails(none: stubs.Answer) -> None:
    result = add_ons(stubs.situation(eks=all_add_ons(kube_proxy=none)))
    assert result.status == "fail"
    assert "no default version of kube-proxy" in result.found


# Drivers 2.28.0.0 and 2.29.0.0; those of later releases are not known, but are no older.
FITTING, NEWER, LATER = "1.35.6-20260625", "1.35.6-20260714", "1.35.10-20261119"
NO_PARAMETER = stubs.Answer(method="get_parameter", error="ParameterNotFound")
IMAGE = release("ami-0123")
EAGLE3 = "llama-3.1-8b-eagle3"  # its runtime is 2.34.10; that of the published experiment 2.28.23


@pytest.mark.parametrize(
    ("name", "pinned", "answers", "status", "found", "pin"),
    [
        # The published experiment: as it is shipped, without a pin, and with one that does not fit.
        ("qwen3-32b", FITTING, [LATER, LATER, IMAGE], "pass", f"pinned to {FITTING}", None),
        ("qwen3-32b", None, [LATER, LATER, IMAGE], "fail", f"{LATER}: Neuron driver 2.29", FITTING),
        ("qwen3-32b", NEWER, [LATER, LATER, IMAGE, IMAGE], "fail", "needs Neuron runt", FITTING),
        ("qwen3-32b", None, [None, None, IMAGE], "fail", "neuron unknown", FITTING),
        # EKS no longer has the newest one that fits, or any.
        ("qwen3-32b", None, [LATER, LATER, None, IMAGE], "fail", "not fit", "1.35.6-20260618"),
        ("qwen3-32b", None, [LATER, LATER, *[None] * 3], "fail", "not fit", None),
        ("qwen3-32b", FITTING, [LATER, LATER, *[None] * 4], "warn", "may refuse it", None),
        # A runtime that no known driver refuses.
        (EAGLE3, None, [NEWER, NEWER], "pass", f"a deploy today gets {NEWER}", NEWER),
        (EAGLE3, None, [LATER, LATER, IMAGE], "warn", "it is not known whether they fit", NEWER),
        (EAGLE3, None, [LATER, NEWER, IMAGE], "warn", "differ today", NEWER),
        (EAGLE3, None, [NEWER, "ami-0123", IMAGE], "warn", "standard unknown", NEWER),
        (EAGLE3, LATER, [LATER, LATER, IMAGE, IMAGE], "warn", "it is not known whether", NEWER),
    ],
)
def test_the_newest_node_release_that_fits_the_image_comes_as_a_pin(
    name: str,
    pinned: str | None,
    answers: list[Any],
    status: str,
    found: str,
    pin: str | None,
) -> None:
    asked = [release(one) if isinstance(one, str) else one or NO_PARAMETER for one in answers]
    given = stubs.experiment(name, pins={"node_release": pinned})
    result = node_image(stubs.situation(given, ssm=asked))
    assert result.status == status
    assert found in result.found
    assert result.paste == ({"pins": {"node_release": pin}} if pin else {})
    assert status == "pass" or not pin or result.next_step.endswith(pin)


def test_a_pinned_release_is_asked_for_by_the_name_of_its_image() -> None:
    asked: list[str] = []

    def answer(**given: str) -> Any:
        asked.append(given["Name"])
        return {"Parameter": {"Value": LATER}}

    here: Any = SimpleNamespace(get_parameter=answer)
    node_image(dataclasses.replace(stubs.situation(), clients=lambda *_: here))
    images = "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64"
    assert asked == [
        f"{images}/neuron/recommended/release_version",
        f"{images}/standard/recommended/release_version",
        f"{images}/neuron/amazon-eks-node-al2023-x86_64-neuron-1.35-v20260625/image_id",
    ]


class Registry(BaseHTTPRequestHandler):
    """Gives a token to everybody, and says of a manifest what `status` and `token` have."""

    status, token = 200, b'{"token": "anonymous"}'

    def do_GET(self) -> None:
        self.answer(200, self.token)

    def do_HEAD(self) -> None:
        known = self.headers["Authorization"] == "Bearer anonymous"
        ours = self.path == "/v2/neuron/neuron-helm-chart/manifests/1.10.0"
        self.answer(self.status if known and ours else 401)

    def answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Docker-Content-Digest", "sha256:0123")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize(
    ("answers", "status", "found"),
    [
        ({}, "pass", "1.10.0 by its tag; today it is sha256:0123"),
        ({"status": 404}, "fail", "public.ecr.aws has no neuron/neuron-helm-chart 1.10.0"),
        ({"status": 503}, "warn", "answers 503"),
        ({"token": b"{}"}, "warn", "cannot be asked"),
        ({"token": b"[" * 10_000_000}, "warn", "cannot be asked"),
    ],
)
def test_the_drivers_chart_is_looked_up_where_a_deploy_pulls_it(
    monkeypatch: pytest.MonkeyPatch, answers: dict[str, Any], status: str, found: str
) -> None:
    with HTTPServer(("127.0.0.1", 0), type("Handler", (Registry,), answers)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setattr(cluster, "REGISTRY_URL", f"http://127.0.0.1:{server.server_port}")
        result = cluster.neuron_chart(stubs.situation())
        server.shutdown()
    assert result.status == status
    assert found in result.found
    assert ("-c neuron-chart=FOLDER" in result.next_step) == (status != "pass")
    # Nobody answers any more.
    assert cluster.neuron_chart(stubs.situation()).status == "warn"
