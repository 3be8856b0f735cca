"""The API server accepts all objects of the charts: no unknown or deprecated field."""

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
    """Yield the API of a cluster that has the experiment's namespace.

    The server needs the namespace to validate objects, although none is created.
    """
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    plane.api.create(namespace)
    yield plane.api
    empty(plane.api)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_object_is_accepted_without_a_warning(namespaced: Api, name: str) -> None:
    warnings_by_object = {
        f"{item['kind']} {item['metadata']['name']}": warnings
        for item in all_objects(name)
        if (warnings := namespaced.warnings(_renamed(item)))
    }
    assert warnings_by_object == {}


@pytest.mark.parametrize("name", [NEURON, HEADS, LOCAL])
@pytest.mark.parametrize("pays", [True, False])
def test_every_winners_object_is_accepted_without_a_warning(
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
    """Return the object; if it is the Namespace, with another name, because its own exists."""
    if item["kind"] != "Namespace":
        return item
    return {**item, "metadata": {**item["metadata"], "name": "another"}}
