"""What the charts make is what the API server takes: every field known, nothing deprecated."""

import copy
from collections.abc import Iterator

import pytest

from charts.names import NAMESPACE
from charts.winner.winner_objects import CommonChart, DeploymentChart, objects_of
from tests.charts.rendering import EXPERIMENTS, Object, all_objects
from tests.charts.winner.runs import HEADS, LOCAL, NEURON, as_read, exported
from tests.cluster.api import Api, RefusedError
from tests.cluster.conftest import empty
from tests.cluster.control_plane import ControlPlane

pytestmark = [pytest.mark.synth]


@pytest.fixture(scope="module")
def namespaced(plane: ControlPlane) -> Iterator[Api]:
    """With the namespace, in which all else is tried and nothing made."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    plane.api.create(namespace)
    yield plane.api
    empty(plane.api)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_object_is_accepted_strictly_and_without_a_warning(
    namespaced: Api, name: str
) -> None:
    found = {
        f"{item['kind']} {item['metadata']['name']}": warnings
        for item in all_objects(name)
        if (warnings := namespaced.warnings(_renamed(item)))
    }
    assert found == {}


@pytest.mark.parametrize("name", [NEURON, HEADS, LOCAL])
@pytest.mark.parametrize("pays", [True, False])
def test_every_object_of_a_winner_is_accepted_strictly_and_without_a_warning(
    namespaced: Api, name: str, pays: bool
) -> None:
    export = exported(name, namespace=NAMESPACE, pays=pays)
    objects = as_read([*objects_of(CommonChart, export), *objects_of(DeploymentChart, export)])
    assert {"ServiceAccount", "Service", "Deployment"} <= {item["kind"] for item in objects}
    assert {item["metadata"]["name"]: namespaced.warnings(item) for item in objects} == {
        item["metadata"]["name"]: [] for item in objects
    }


def test_a_misspelt_field_is_refused(namespaced: Api) -> None:
    changed = copy.deepcopy(next(i for i in all_objects() if i["kind"] == "Deployment"))
    changed["spec"]["template"]["spec"]["nodeSelektor"] = {}
    with pytest.raises(RefusedError, match="nodeSelektor"):
        namespaced.warnings(changed)


def test_what_is_deprecated_is_seen(namespaced: Api) -> None:
    old: Object = {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "x"}}
    assert "deprecated" in "".join(namespaced.warnings(old))


def _renamed(item: Object) -> Object:
    """A namespace under another name: there is one already."""
    if item["kind"] != "Namespace":
        return item
    return {**item, "metadata": {**item["metadata"], "name": "another"}}
