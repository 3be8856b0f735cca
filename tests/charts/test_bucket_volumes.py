"""The volumes for S3 buckets: each has a claim, and pods mount exactly these, read-only."""

import pytest

from tests.charts import rendering
from tests.support.experiments import resolved, with_third_variant

pytestmark = pytest.mark.synth


def test_variants_with_the_same_draft_share_its_volume() -> None:
    more = rendering.render(with_third_variant(resolved()))
    assert len(more["serving"]) == len(rendering.rendered()["serving"]) + 4
    assert more["storage"] == rendering.rendered()["storage"]


@pytest.mark.parametrize("name", rendering.EXPERIMENTS)
def test_every_volume_has_a_claim_and_pod_role(name: str) -> None:
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
def test_every_model_of_a_server_is_mounted(name: str) -> None:
    plain, drafted = {"target"}, {"target", "draft"}
    variants = resolved(name).variants
    wanted = [drafted if v.speculates else plain for v in variants for _ in v.slots]
    assert len(wanted) >= 4
    for deployment, models in zip(rendering.of_kind("Deployment", name), wanted, strict=True):
        container, _ = deployment["spec"]["template"]["spec"]["containers"]
        mounted = {m["mountPath"]: m["name"] for m in container["volumeMounts"]}
        arguments = " ".join(container["args"])
        assert {n for path, n in mounted.items() if path in arguments} == models
