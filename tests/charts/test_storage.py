"""Buckets as volumes: which, how, and that the pods use exactly those."""

import pytest

from tests.charts import rendering
from tests.support.experiments import resolved, with_third_variant

pytestmark = pytest.mark.synth


def buckets(name: str) -> dict[str, tuple[str, list[str]]]:
    """Bucket and mount options by the volume's role."""
    return {
        volume["metadata"]["name"].split("-")[-2]: (
            volume["spec"]["csi"]["volumeAttributes"]["bucketName"],
            volume["spec"]["mountOptions"],
        )
        for volume in rendering.of_kind("PersistentVolume", name)
    }


@pytest.mark.parametrize(
    ("name", "target", "draft"),
    [
        ("qwen3-32b", "Qwen/Qwen3-32B", "Qwen/Qwen3-1.7B"),
        (
            "llama-3.1-8b-eagle3",
            "meta-llama/Llama-3.1-8B-Instruct",
            "RedHatAI/Llama-3.1-8B-Instruct-speculator.eagle3",
        ),
    ],
)
def test_checkpoints_are_mounted_by_model_and_revision(name: str, target: str, draft: str) -> None:
    common = ["read-only", "allow-other", "region us-east-2", "maximum-throughput-gbps 100"]
    assert buckets(name) == {
        "target": (rendering.BINDINGS.checkpoints_bucket, [*common, f"prefix {target}/main/"]),
        "draft": (rendering.BINDINGS.checkpoints_bucket, [*common, f"prefix {draft}/main/"]),
        "artifacts": (rendering.BINDINGS.artifacts_bucket, common),
    }


def test_variants_with_the_same_draft_share_its_volume() -> None:
    more = rendering.render(with_third_variant(resolved()))
    assert len(more["serving"]) == len(rendering.rendered()["serving"]) + 4
    assert more["storage"] == rendering.rendered()["storage"]


@pytest.mark.parametrize("name", rendering.EXPERIMENTS)
def test_every_volume_has_its_claim_and_the_pods_own_role(name: str) -> None:
    claims = {
        claim["metadata"]["name"]: claim
        for claim in rendering.of_kind("PersistentVolumeClaim", name)
    }
    volumes = rendering.of_kind("PersistentVolume", name)
    assert len(volumes) == len(claims)
    for volume in volumes:
        spec = volume["spec"]
        assert spec["csi"]["volumeAttributes"]["authenticationSource"] == "pod"
        claim = claims[spec["claimRef"]["name"]]
        assert claim["metadata"]["namespace"] == spec["claimRef"]["namespace"]
        assert claim["spec"]["volumeName"] == volume["metadata"]["name"]
        assert claim["spec"]["storageClassName"] == spec["storageClassName"] == ""


@pytest.mark.parametrize("name", rendering.EXPERIMENTS)
def test_pods_use_every_claim_read_only(name: str) -> None:
    used: set[str] = set()
    for deployment in rendering.of_kind("Deployment", name):
        pod = deployment["spec"]["template"]["spec"]
        used |= set(_claims_mounted_read_only(pod))
    assert used == {c["metadata"]["name"] for c in rendering.of_kind("PersistentVolumeClaim", name)}


def _claims_mounted_read_only(pod: rendering.Object) -> list[str]:
    read_only = {m["name"] for m in pod["containers"][0]["volumeMounts"] if m.get("readOnly")}
    return [
        volume["persistentVolumeClaim"]["claimName"]
        for volume in pod["volumes"]
        if volume["name"] in read_only
        and "persistentVolumeClaim" in volume
        and volume["persistentVolumeClaim"]["readOnly"]
    ]


@pytest.mark.parametrize("name", rendering.EXPERIMENTS)
def test_every_model_a_server_is_told_of_is_mounted_there(name: str) -> None:
    plain, drafted = {"target"}, {"target", "draft"}
    variants = resolved(name).variants
    wanted = [drafted if v.speculates else plain for v in variants for _ in v.slots]
    assert len(wanted) >= 4
    for deployment, models in zip(rendering.of_kind("Deployment", name), wanted, strict=True):
        container, _ = deployment["spec"]["template"]["spec"]["containers"]
        mounted = {m["mountPath"]: m["name"] for m in container["volumeMounts"]}
        arguments = " ".join(container["args"])
        assert {n for path, n in mounted.items() if path in arguments} == models
