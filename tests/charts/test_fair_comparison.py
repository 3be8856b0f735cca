"""The comparison is fair: the pods of two variants differ only in what speculation needs.

That is: the flags for speculation, the mount of the draft model, the artifact key, and names (also
that of the service account, as each variant has its own role). The pods of one variant in two slots
differ in their names and in the selector that says which slot they get.
"""

import copy
import dataclasses
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from charts.shared_settings import SharedSettings
from charts.vllm_server import VllmServer
from draftworth.planning.resolved import load_neuron
from draftworth.records.results import AS_SHIPPED
from draftworth.serving.server_command import PER_REQUEST_ACCEPTANCE
from tests.charts.rendering import EXPERIMENTS, Object, all_objects, homes, of_kind, render
from tests.support.experiments import DFLASH, both, on_small_nodes, put, resolved, write_experiment

pytestmark = pytest.mark.synth

# The end of a claim template's name: the number of the slot on its node, and a content hash.
_PLACE_SUFFIX = re.compile(r"(-\d)?-[0-9a-f]{8}$")
NAME_LABELS = ("app.kubernetes.io/instance", "draftworth/variant")


def what_must_be_equal(deployment: Object) -> Object:
    """Return a copy of a server's Deployment without what its variant or slot may change."""
    shared = copy.deepcopy(deployment)
    spec = shared["spec"]
    name = shared["metadata"].pop("name")
    assert spec["selector"]["matchLabels"].pop("app.kubernetes.io/instance") == name
    home = re.sub(r"^slot\d+-", "", name)
    # A server in its home slot runs from the start. Of the other servers, which have another name,
    # that of a search's first candidate runs from the start too.
    assert spec.pop("replicas") >= (name == home)
    for metadata in (shared["metadata"], spec["template"]["metadata"]):
        for label in NAME_LABELS:
            del metadata["labels"][label]
    pod = spec["template"]["spec"]
    assert pod.pop("serviceAccountName") == home
    (claim,) = pod["resourceClaims"]
    claim["resourceClaimTemplateName"] = _PLACE_SUFFIX.sub("", claim["resourceClaimTemplateName"])
    pod["volumes"] = _without_draft(pod["volumes"])
    # The second container, which uploads graphs, is compared with all that it has.
    container, _ = pod["containers"]
    container["volumeMounts"] = _without_draft(container["volumeMounts"])
    # The artifact key, and the values of which it is a hash.
    artifact = ("ARTIFACT_KEY", "ARTIFACT_INPUTS")
    container["env"] = [e for e in container["env"] if e["name"] not in artifact]
    # The flags that only a speculating variant has: without speculation vLLM refuses to start with
    # PER_REQUEST_ACCEPTANCE.
    speculation_flags = ("--speculative-config=", f"{PER_REQUEST_ACCEPTANCE}=")
    container["args"] = [a for a in container["args"] if not a.startswith(speculation_flags)]
    return shared


def _without_draft(items: list[Any]) -> list[Any]:
    return [item for item in items if item["name"] != "draft"]


def test_a_server_takes_nothing_else_of_its_variant() -> None:
    """A new parameter would be something that a variant can change: a reviewer must see it here."""
    parameters = set(inspect.signature(VllmServer.__init__).parameters)
    assert parameters - {"self", "scope", "id_"} == {
        "shared",
        *("name", "variant", "replicas", "claim_template"),
        *("flags", "draft", "artifact_key", "artifact_inputs"),
    }


def test_shared_settings_hold_no_variant() -> None:
    """If the settings `shared` held a variant, they could differ from one variant to another."""
    types = {field.name: str(field.type) for field in dataclasses.fields(SharedSettings)}
    assert types
    assert [n for n, of in types.items() if "Variant" in of or "Experiment" in of] == []


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_variants_of_an_experiment_share_their_environment(name: str) -> None:
    """All servers get the baseline's environment (`shared_settings.engine_environment`)."""
    experiment = resolved(name)
    environments = [variant.command.environment for variant in experiment.variants]
    assert environments == [experiment.baseline.command.environment] * len(environments)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_variants_differ_in_speculation_and_names_only(name: str) -> None:
    baseline, *other_deployments = of_kind("Deployment", name)
    servers = [slot for variant in resolved(name).variants for slot in variant.slots]
    assert len(other_deployments) + 1 == len(servers) >= 4, (
        "each variant in both slots, or every candidate"
    )
    for other in other_deployments:
        assert what_must_be_equal(other) == what_must_be_equal(baseline)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_variants_do_differ_in_speculation(name: str) -> None:
    plain, drafted = _by_variant(name)
    assert all(_speculates(server) for server in drafted)
    assert not any(_speculates(server) for server in plain)


def _by_variant(name: str) -> tuple[list[Object], list[Object]]:
    """Return the Deployments of (the baseline's servers, the other variants' servers)."""
    servers = of_kind("Deployment", name)
    plain = [s for s in servers if s["metadata"]["labels"]["draftworth/variant"] == "baseline"]
    return plain, [server for server in servers if server not in plain]


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if not resolved(name).spec.search])
def test_a_variants_two_servers_differ_in_slot_only(name: str) -> None:
    for home, other in _by_variant(name):
        containers = [s["spec"]["template"]["spec"]["containers"] for s in (home, other)]
        assert containers[0] == containers[1], "flags, graphs and mounts too"


@pytest.mark.parametrize("name", ["qwen3-32b", "llama-3.1-8b-eagle3"])
def test_both_variants_claim_each_slot_alike(name: str) -> None:
    (plain, plain_other), (drafted, drafted_other) = _by_variant(name)
    assert _claim(plain) == _claim(drafted_other) != _claim(plain_other) == _claim(drafted)
    templates = [copy.deepcopy(t["spec"]) for t in of_kind("ResourceClaimTemplate", name)]
    assert len(templates) == 2
    for template in templates:
        (request,) = template["spec"]["devices"]["requests"]
        _, place = request["exactly"]["selectors"]
        assert "deviceId" in place.pop("cel")["expression"]
    assert templates[0] == templates[1]


def _claim(deployment: Object) -> str:
    (claim,) = deployment["spec"]["template"]["spec"]["resourceClaims"]
    return str(claim["resourceClaimTemplateName"])


def test_the_baseline_as_shipped_differs_in_flags_alone(tmp_path: Path) -> None:
    edit = both(DFLASH, put("baseline_as_shipped", value=True))
    path = write_experiment(tmp_path, edit, base="llama-3.1-8b-eagle3")
    baseline, _, shipped = homes(render(load_neuron(path))["serving"])
    assert shipped["metadata"]["name"] == f"vllm-{AS_SHIPPED}"
    comparable_parts = [what_must_be_equal(item) for item in (baseline, shipped)]
    assert comparable_parts[0] != comparable_parts[1]
    flags = []
    for item in comparable_parts:
        container = item["spec"]["template"]["spec"]["containers"][0]
        flags.append(container.pop("args"))
    assert comparable_parts[0] == comparable_parts[1]
    assert [a for a in flags[0] if a in flags[1]] == flags[1], "it has nothing of its own"


def _speculates(deployment: Object) -> bool:
    pod = deployment["spec"]["template"]["spec"]
    flag = any("--speculative-config=" in a for a in pod["containers"][0]["args"])
    mount = any(v["name"] == "draft" for v in pod["volumes"])
    assert flag == mount
    return flag


@pytest.mark.parametrize(
    "plant",
    [
        lambda vllm, _: vllm["resources"]["limits"].update(memory="1000Gi"),
        lambda vllm, _: vllm.update(image="patched"),
        lambda vllm, _: vllm["args"].append("--enable-prefix-caching"),
        lambda vllm, _: vllm["env"].append({"name": "NEURON_RT_NUM_CORES", "value": "16"}),
        lambda vllm, _: vllm["command"].remove("--checkpoint=draft=/models/draft"),
        lambda _, pod: pod["resourceClaims"][0].update(resourceClaimTemplateName="another"),
        lambda _, pod: pod["containers"][1]["resources"]["limits"].update(cpu="8"),
    ],
)
def test_a_planted_difference_is_found(plant: Any) -> None:
    baseline, speculative = copy.deepcopy(homes(all_objects()))
    pod = speculative["spec"]["template"]["spec"]
    plant(pod["containers"][0], pod)
    assert what_must_be_equal(speculative) != what_must_be_equal(baseline)


def test_variants_on_small_nodes_differ_in_speculation_only() -> None:
    objects = render(on_small_nodes(resolved("llama-3.1-8b-eagle3")))["serving"]
    baseline, *other_deployments = (item for item in objects if item["kind"] == "Deployment")
    assert len(other_deployments) == 3
    for other in other_deployments:
        assert what_must_be_equal(other) == what_must_be_equal(baseline)
        assert _claim(other) == _claim(baseline), "a node of one place has no other"
