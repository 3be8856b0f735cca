"""The objects that exist in a cluster, compared with those that were deployed."""

import copy
from collections.abc import Iterable
from typing import Any

from charts.names import NAMESPACE
from tests.cluster.api import KINDS, Api, Object, path_of_object

# Kinds of objects that Kubernetes' controllers make.
MADE_BY_CONTROLLERS = (
    "DeviceClass",
    "EndpointSlice",
    "Endpoints",
    "Event",
    "Lease",
    "Node",
    "Pod",
    "ResourceClaim",
    "ResourceSlice",
)
DEPLOYED_KINDS = tuple(kind for kind in KINDS if kind not in MADE_BY_CONTROLLERS)
MADE_BY_KUBERNETES = {"ConfigMap kube-root-ca.crt", "ServiceAccount default"}
REFERENCE = "reference"

# Fields that the API server and its controllers write, in all objects or in those of a kind.
_WRITTEN = (
    "metadata.annotations.deployment\\.kubernetes\\.io/revision",
    "metadata.annotations.kubectl\\.kubernetes\\.io/last-applied-configuration",
    "metadata.annotations.pv\\.kubernetes\\.io/bind-completed",
    "metadata.annotations.pv\\.kubernetes\\.io/bound-by-controller",
    "metadata.creationTimestamp",
    "metadata.finalizers",
    "metadata.generation",
    "metadata.managedFields",
    "metadata.name",
    "metadata.namespace",
    "metadata.resourceVersion",
    "metadata.uid",
    "status",
)
_WRITTEN_IN = {
    "Job": (
        "metadata.labels",
        "spec.selector",
        "spec.template.metadata.labels.batch\\.kubernetes\\.io/controller-uid",
        "spec.template.metadata.labels.batch\\.kubernetes\\.io/job-name",
        "spec.template.metadata.labels.controller-uid",
        "spec.template.metadata.labels.job-name",
    ),
    "PersistentVolume": ("spec.claimRef",),
    "Service": ("spec.clusterIP", "spec.clusterIPs"),
}


def living(api: Api) -> dict[str, Object]:
    items = {
        name(item): item for kind in DEPLOYED_KINDS for item in api.all(kind) if _is_ours(item)
    }
    return {key: item for key, item in items.items() if key not in MADE_BY_KUBERNETES}


def as_created(api: Api, items: Iterable[Object]) -> dict[str, Object]:
    """Return {name: object} of `items`, with the defaults that the API server adds to them.

    The server only tries to create them (`dryRun`), with other names and in an empty namespace.
    """
    return {name(item): _tried(api, item) for item in items}


def comparable(items: dict[str, Object]) -> dict[str, Object]:
    return {key: _without_written(item) for key, item in items.items()}


def name(item: Object) -> str:
    return f"{item['kind']} {item['metadata']['name']}"


def _is_ours(item: Object) -> bool:
    metadata = item["metadata"]
    if "namespace" in metadata:
        return bool(metadata["namespace"] == NAMESPACE)
    if item["kind"] == "Namespace":
        return bool(metadata["name"] == NAMESPACE)
    return bool(item["kind"] == "PersistentVolume")


def _tried(api: Api, item: Object) -> Object:
    tried = copy.deepcopy(item)
    # The name is cut, because the names of an Indexed Job's pods, with their index added, may have
    # only 63 characters.
    tried["metadata"]["name"] = f"tried-{item['metadata']['name']}"[:60].rstrip("-")
    if "namespace" in tried["metadata"]:
        tried["metadata"]["namespace"] = REFERENCE
    made = api.ask("POST", path_of_object(tried, with_name=False), tried, dryRun="All")
    if item["kind"] == "Namespace":
        made["metadata"]["labels"]["kubernetes.io/metadata.name"] = item["metadata"]["name"]
    return {"kind": item["kind"], **made}


def _without_written(item: Object) -> Object:
    left = copy.deepcopy(item)
    left.pop("apiVersion", None)
    for path in (*_WRITTEN, *_WRITTEN_IN.get(item["kind"], ())):
        _drop(left, [part.replace("\0", ".") for part in path.replace("\\.", "\0").split(".")])
    return left


def _drop(node: Any, path: list[str]) -> None:
    """Remove the field at `path` below `node`, and each parent that then has no field left."""
    first, *rest = path
    if rest and isinstance(node.get(first), dict):
        _drop(node[first], rest)
        if not node[first]:
            del node[first]
    elif not rest:
        node.pop(first, None)
