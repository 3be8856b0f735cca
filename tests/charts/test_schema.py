"""Every object, its names and labels are what the API of each Kubernetes version accepts."""

import copy
import re

import kubernetes_validate
import pytest

from draftworth.experiment.catalog import catalog
from tests.charts.rendering import EXPERIMENTS, all_objects, kinds, of_kind, pod_templates

pytestmark = pytest.mark.synth

DNS_LABEL = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")
CLUSTER_SCOPED = {"Namespace", "PersistentVolume"}


def test_every_object_is_valid_for_the_cluster() -> None:
    """To save time, an object is validated only if it has a key or type that no earlier one has."""
    validated_kinds: set[tuple[str, ...]] = set()
    for name in EXPERIMENTS:
        for item in all_objects(name):
            new = {*kinds(item, item["kind"])} - validated_kinds
            for version in catalog().kubernetes_versions if new else ():
                assert kubernetes_validate.validate(item, version, strict=True) == version
            validated_kinds |= new


def test_a_misspelt_field_is_not_valid() -> None:
    broken = copy.deepcopy(of_kind("Deployment")[0])
    broken["spec"]["template"]["spec"]["resourceClaim"] = []
    with pytest.raises(kubernetes_validate.ValidationError, match="resourceClaim"):
        kubernetes_validate.validate(broken, "1.35", strict=True)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_names_are_unique_dns_labels(name: str) -> None:
    for item in all_objects(name):
        expected = None if item["kind"] in CLUSTER_SCOPED else "draftworth"
        assert item["metadata"].get("namespace") == expected, item["metadata"]["name"]
    keys = [(item["kind"], item["metadata"]["name"]) for item in all_objects(name)]
    assert [key for key in keys if not DNS_LABEL.fullmatch(key[1])] == []
    assert len(set(keys)) == len(keys)


def test_a_name_with_a_dot_is_found() -> None:
    assert not DNS_LABEL.fullmatch("vllm-qwen3-1.7b-k7")


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_object_has_its_experiments_label(name: str) -> None:
    for item in [*all_objects(name), *pod_templates(name)]:
        labels = item["metadata"]["labels"]
        assert labels["draftworth/experiment"] == name
        assert [v for v in labels.values() if not LABEL_VALUE.fullmatch(v)] == []
