"""A client of the Kubernetes API by plain HTTPS, with objects as dictionaries."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import requests

from charts.names import NAMESPACE
from tests.support.waiting import HANGS_AFTER_SECONDS

Object = dict[str, Any]

# {kind: (path of its API, its plural in paths, whether its objects are in a namespace)}.
KINDS: Mapping[str, tuple[str, str, bool]] = {
    "ConfigMap": ("api/v1", "configmaps", True),
    "Deployment": ("apis/apps/v1", "deployments", True),
    "DeviceClass": ("apis/resource.k8s.io/v1", "deviceclasses", False),
    "EndpointSlice": ("apis/discovery.k8s.io/v1", "endpointslices", True),
    "Endpoints": ("api/v1", "endpoints", True),
    "Event": ("api/v1", "events", True),
    "Job": ("apis/batch/v1", "jobs", True),
    "Lease": ("apis/coordination.k8s.io/v1", "leases", True),
    "Namespace": ("api/v1", "namespaces", False),
    "NetworkPolicy": ("apis/networking.k8s.io/v1", "networkpolicies", True),
    "Node": ("api/v1", "nodes", False),
    "PersistentVolume": ("api/v1", "persistentvolumes", False),
    "PersistentVolumeClaim": ("api/v1", "persistentvolumeclaims", True),
    "Pod": ("api/v1", "pods", True),
    "PodDisruptionBudget": ("apis/policy/v1", "poddisruptionbudgets", True),
    "ResourceClaim": ("apis/resource.k8s.io/v1", "resourceclaims", True),
    "ResourceClaimTemplate": ("apis/resource.k8s.io/v1", "resourceclaimtemplates", True),
    "ResourceSlice": ("apis/resource.k8s.io/v1", "resourceslices", False),
    "Role": ("apis/rbac.authorization.k8s.io/v1", "roles", True),
    "RoleBinding": ("apis/rbac.authorization.k8s.io/v1", "rolebindings", True),
    "Service": ("api/v1", "services", True),
    "ServiceAccount": ("api/v1", "serviceaccounts", True),
}


class RefusedError(Exception):
    """The API server refused a request."""


def of_component(component: str) -> str:
    """Return a selector of a component's pods, without those of a canary that stand in for it."""
    canaries = "app.kubernetes.io/name notin (listener, paths-canary)"
    return f"app.kubernetes.io/component={component},{canaries}"


def path_of(kind: str, name: str = "", namespace: str = NAMESPACE) -> str:
    api, plural, namespaced = KINDS[kind]
    where = f"/{api}/namespaces/{namespace}/{plural}" if namespaced else f"/{api}/{plural}"
    return f"{where}/{name}" if name else where


def path_of_object(item: Mapping[str, Any], *, with_name: bool = True) -> str:
    metadata = item["metadata"]
    name = metadata["name"] if with_name else ""
    return path_of(item["kind"], name, metadata.get("namespace", NAMESPACE))


@dataclass(frozen=True, kw_only=True)
class Api:
    """One API server, with an administrator's token. Safe to use from several threads."""

    url: str
    token: str
    certificate: Path

    @cached_property
    def _session(self) -> requests.Session:
        session = requests.Session()
        session.trust_env = False
        session.headers["Authorization"] = f"Bearer {self.token}"
        session.verify = str(self.certificate)
        return session

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        content_type: str = "application/json",
        **query: str,
    ) -> requests.Response:
        return self._session.request(
            method,
            self.url + path,
            params=query,
            data=None if body is None else json.dumps(body),
            headers={"Content-Type": content_type},
            timeout=HANGS_AFTER_SECONDS,
        )

    def ask(self, method: str, path: str, body: object = None, **options: str) -> Object:
        content: Object = self._accepted(method, path, body, **options).json()
        return content

    def _accepted(self, method: str, path: str, body: object, **options: str) -> requests.Response:
        answer = self.call(method, path, body, **options)
        if not answer.ok:
            raise RefusedError(f"{method} {path}: {answer.status_code} {answer.text}")
        return answer

    def find(self, path: str) -> Object | None:
        answer = self.call("GET", path)
        if answer.status_code == requests.codes.not_found:
            return None
        answer.raise_for_status()
        content: Object = answer.json()
        return content

    def all(self, kind: str, namespace: str = NAMESPACE, **query: str) -> list[Object]:
        items: list[Object] = self.ask("GET", path_of(kind, namespace=namespace), **query)["items"]
        return [{"kind": kind, **item} for item in items]

    def one(self, kind: str, name: str, namespace: str = NAMESPACE) -> Object:
        return self.ask("GET", path_of(kind, name, namespace))

    def token_of(self, account: str, **spec: Object) -> str:
        """Return a token of a service account, as a pod gets one."""
        path = f"{path_of('ServiceAccount', account)}/token"
        return str(self.ask("POST", path, {"spec": spec})["status"]["token"])

    def create(self, *items: Object) -> list[Object]:
        return [self.ask("POST", path_of_object(i, with_name=False), i) for i in items]

    def warnings(self, item: Object) -> list[str]:
        """Return the server's warnings about an object that it validates and does not create.

        Raises:
            RefusedError: the server refuses the object.
        """
        path = path_of_object(item, with_name=False)
        answer = self._accepted("POST", path, item, dryRun="All", fieldValidation="Strict")
        header = answer.headers.get("Warning", "")
        return [header] if header else []

    def change(self, path: str, patch: object) -> Object:
        return self.ask("PATCH", path, patch, content_type="application/merge-patch+json")

    def delete(self, path: str, *, grace_seconds: int | None = None) -> None:
        """Delete an object if it exists; Kubernetes deletes the objects that it owns afterwards.

        grace_seconds: None for the object's own grace period.

        Raises:
            RefusedError: the server refuses the request.
        """
        options: Object = {"propagationPolicy": "Background"}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        answer = self.call("DELETE", path, options)
        if not answer.ok and answer.status_code != requests.codes.not_found:
            raise RefusedError(f"DELETE {path}: {answer.status_code} {answer.text}")
