"""Fair by construction.

Two variants' pods differ in the speculation flags, the draft mount, the artifact key and the names
(the service account's is one: a role of its own), and in nothing else.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.charts.rendering import EXPERIMENTS, Object, of_kind, render
from tests.support.experiments import on_small_nodes, resolved

pytestmark = pytest.mark.synth

NAME_LABELS = ("app.kubernetes.io/instance", "draftworth/variant")


def what_must_be_equal(deployment: Object) -> Object:
    """A Deployment without what a variant may decide, and with everything else."""
    shared = copy.deepcopy(deployment)
    spec = shared["spec"]
    del shared["metadata"]["name"]
    del spec["selector"]["matchLabels"]["draftworth/variant"]
    for metadata in (shared["metadata"], spec["template"]["metadata"]):
        for label in NAME_LABELS:
            del metadata["labels"][label]
    pod = spec["template"]["spec"]
    assert pod.pop("serviceAccountName") == deployment["metadata"]["name"]
    pod["volumes"] = _without_draft(pod["volumes"])
    # The container beside it is compared whole.
    container, _ = pod["containers"]
    container["volumeMounts"] = _without_draft(container["volumeMounts"])
    # The key, and what it is the address of.
    artifact = ("ARTIFACT_KEY", "ARTIFACT_INPUTS")
    container["env"] = [e for e in container["env"] if e["name"] not in artifact]
    container["args"] = [a for a in container["args"] if not a.startswith("--speculative-config=")]
    return shared


def _without_draft(items: list[Any]) -> list[Any]:
    return [item for item in items if item["name"] != "draft"]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_variants_differ_in_speculation_and_names_only(name: str) -> None:
    baseline, *others = of_kind("Deployment", name)
    assert others, "one variant alone compares nothing"
    for other in others:
        assert what_must_be_equal(other) == what_must_be_equal(baseline)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_variants_do_differ_in_speculation(name: str) -> None:
    baseline, speculative = of_kind("Deployment", name)
    assert _speculates(speculative)
    assert not _speculates(baseline)


def _speculates(deployment: Object) -> bool:
    pod = deployment["spec"]["template"]["spec"]
    flag = any("--speculative-config=" in a for a in pod["containers"][0]["args"])
    mount = any(v["name"] == "draft" for v in pod["volumes"])
    assert flag == mount
    return flag


def _more_memory(pod: Object) -> None:
    pod["containers"][0]["resources"]["limits"]["memory"] = "1000Gi"


def _another_image(pod: Object) -> None:
    pod["containers"][0]["image"] += "-patched"


def _another_flag(pod: Object) -> None:
    pod["containers"][0]["args"].append("--enable-prefix-caching")


def _another_claim(pod: Object) -> None:
    pod["resourceClaims"][0]["resourceClaimTemplateName"] = "neuron-16-devices"


def _another_variable(pod: Object) -> None:
    pod["containers"][0]["env"].append({"name": "NEURON_RT_NUM_CORES", "value": "16"})


def _another_command(pod: Object) -> None:
    pod["containers"][0]["command"].remove("--checkpoint=draft=/models/draft")


def _a_busier_neighbour(pod: Object) -> None:
    pod["containers"][1]["resources"]["limits"]["cpu"] = "8"


@pytest.mark.parametrize(
    "plant",
    [
        _more_memory,
        _another_image,
        _another_flag,
        _another_claim,
        _another_variable,
        _another_command,
        _a_busier_neighbour,
    ],
)
def test_a_planted_difference_is_found(plant: Any) -> None:
    baseline, speculative = copy.deepcopy(of_kind("Deployment"))
    plant(speculative["spec"]["template"]["spec"])
    assert what_must_be_equal(speculative) != what_must_be_equal(baseline)


def test_variants_on_small_nodes_differ_in_speculation_and_names_only() -> None:
    objects = render(on_small_nodes(resolved("llama-3.1-8b-eagle3")))["serving"]
    baseline, other = (item for item in objects if item["kind"] == "Deployment")
    assert what_must_be_equal(other) == what_must_be_equal(baseline)
