"""Kubernetes' objects: cdk8s-plus' types for the type checker, plain data at run time.

At run time cdk8s-plus is not imported and no struct is sent to jsii's process: both would take 10%
of a synthesis's time (`benchmarks/synth.py`). Tests validate the objects with Kubernetes' schema.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cdk8s_plus_35.k8s import *  # noqa: F403 (the types of all that `__getattr__` makes)
else:
    import cdk8s

    _API_VERSIONS = {
        "ConfigMap": "v1",
        "Deployment": "apps/v1",
        "Job": "batch/v1",
        "Namespace": "v1",
        "NetworkPolicy": "networking.k8s.io/v1",
        "PersistentVolume": "v1",
        "PersistentVolumeClaim": "v1",
        "ResourceClaimTemplate": "resource.k8s.io/v1",
        "Role": "rbac.authorization.k8s.io/v1",
        "RoleBinding": "rbac.authorization.k8s.io/v1",
        "Service": "v1",
        "ServiceAccount": "v1",
    }

    class IntOrString:
        """A port's number or name, or an amount such as `4Gi`, unchanged in the manifest."""

        from_string = staticmethod(str)
        from_number = staticmethod(int)

    Quantity = IntOrString

    def __getattr__(name: str) -> Any:
        """Return a function that makes an object (names with `Kube`, as `KubeJob`) or a struct."""
        if name.startswith("_"):
            raise AttributeError(name)
        return _kind(name.removeprefix("Kube")) if name.startswith("Kube") else _fields

    def _fields(**values: Any) -> dict[str, Any]:
        """Return a struct's fields, named in camelCase as in Kubernetes, without None values."""
        return {_camel(name): value for name, value in values.items() if value is not None}

    def _camel(name: str) -> str:
        return re.sub(r"_(\w)", lambda match: match[1].upper(), name.rstrip("_"))

    def _plain(value: Any) -> Any:
        """Return JSON data with sorted keys, because cdk8s does not sort keys in a JSON patch."""
        if isinstance(value, Mapping):
            return {key: _plain(item) for key, item in sorted(value.items())}
        return [_plain(item) for item in value] if isinstance(value, list | tuple) else value

    def _kind(kind: str) -> Callable[..., cdk8s.ApiObject]:
        version = {"apiVersion": _API_VERSIONS[kind], "kind": kind}

        def make(scope: Any, id_: str, *, metadata: Any, **values: Any) -> cdk8s.ApiObject:
            made = cdk8s.ApiObject(
                scope, id_, api_version=version["apiVersion"], kind=kind, metadata=metadata
            )
            fields = _fields(**values).items()
            made.add_json_patch(*(cdk8s.JsonPatch.add(f"/{k}", _plain(v)) for k, v in fields))
            return made

        make.manifest = lambda **values: {**version, **_fields(**values)}
        return make
