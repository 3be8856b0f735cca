"""The exported InferenceService is valid by the models of KServe's Python client."""

import copy
import importlib.util
import json
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from charts.winner.kserve import MODE, inference_service
from charts.winner.winner_objects import DeploymentChart, objects_of
from tests.charts.winner.runs import HEADS, LOCAL, NEURON, as_read, exported

pytestmark = pytest.mark.synth


@dataclass
class _Answer:
    """A stand-in for an HTTP response, from whose `data` KServe's client reads an object."""

    data: str


class Models:
    """KServe's models. The pod in them is not checked: another test validates the Deployment's."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def round_trip(self, item: Any) -> Any:
        """Return an InferenceService as the models read and write it, without unknown keys."""
        read = self._client.deserialize(_Answer(json.dumps(item)), "V1beta1InferenceService")
        return self._client.sanitize_for_serialization(read)


@pytest.fixture(scope="module")
def models() -> Iterator[Models]:
    """Yield KServe's models, imported without `kserve/__init__.py`, which is a model server.

    Its import would need all packages that a model server needs.
    """
    package_spec = importlib.util.find_spec("kserve")
    assert package_spec, (
        "KServe's models are not installed; next: make setup (requirements/kserve.txt)"
    )
    before = {name: module for name, module in sys.modules.items() if name.startswith("kserve")}
    package = types.ModuleType("kserve")
    package.__path__ = list(package_spec.submodule_search_locations or [])
    sys.modules["kserve"] = package
    models_module = importlib.import_module("kserve.models")
    # KServe's models refer to Kubernetes' own types, which are not among them. Data of such a type
    # is taken as it is.
    models_module.__getattr__ = _kubernetes_type  # type: ignore[method-assign]
    yield Models(importlib.import_module("kserve.api_client").ApiClient())
    for name in [name for name in sys.modules if name.partition(".")[0] == "kserve"]:
        del sys.modules[name]
    sys.modules.update(before)


def _kubernetes_type(name: str) -> type:
    if name.startswith(("V1", "K8sIoApi")) and not name.startswith(("V1alpha", "V1beta")):
        return object
    raise AttributeError(name)


@pytest.mark.parametrize("name", [NEURON, HEADS, LOCAL])
@pytest.mark.parametrize("pays", [True, False])
def test_kserves_models_know_every_key(models: Models, name: str, pays: bool) -> None:
    (item,) = as_read([inference_service(exported(name, pays=pays))])
    assert item["spec"]["predictor"]["containers"]
    assert models.round_trip(item) == item


@pytest.mark.parametrize("place", [("spec",), ("spec", "predictor"), ()])
def test_a_key_unknown_to_kserve_is_lost(models: Models, place: tuple[str, ...]) -> None:
    (item,) = as_read([inference_service(exported())])
    changed = copy.deepcopy(item)
    node = changed
    for key in place:
        node = node[key]
    node["minReplica"] = 1
    assert models.round_trip(changed) != changed


def test_the_pod_is_the_deployments_but_one_name() -> None:
    export = exported()
    item, *_, plain = as_read([inference_service(export), *objects_of(DeploymentChart, export)])
    predictor, pod = item["spec"]["predictor"], plain["spec"]["template"]["spec"]
    (server,) = predictor["containers"]
    assert server == {**pod["containers"][0], "name": "kserve-container"}
    rest = {key: value for key, value in pod.items() if key != "containers"}
    assert rest.items() <= predictor.items()
    assert "resourceClaims" in rest


def test_annotations_have_figures_and_a_mode_with_claims() -> None:
    export = exported()
    annotations = inference_service(export)["metadata"]["annotations"]
    assert annotations == {**MODE, **export.annotations}
    assert annotations["serving.kserve.io/deploymentMode"] == "Standard"
