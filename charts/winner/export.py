"""What every exported form is made of: names, annotations, the server's pod, and what it needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# A Kubernetes object, or a part of one, as plain data.
Object = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Export:
    """The winner's server, to be written as a Deployment, for KServe and for a Helm chart.

    pod: the spec of a pod that stands alone, with one container, the server's.
    needs: objects that must be there before any pod: its service account, volumes.
    claim_templates: of its device claims, where it makes any: the chart's pod does not.
    devices: Neuron devices that the pod claims; 0: none.
    model: the name by which requests ask for it, and which its metrics carry.
    remarks: what a reader must know before applying a file, a sentence each.
    """

    name: str
    namespace: str
    labels: Mapping[str, str]
    selector: Mapping[str, str]
    annotations: Mapping[str, str]
    pod: Object
    needs: tuple[Object, ...]
    claim_templates: tuple[Object, ...]
    devices: int
    model: str
    remarks: tuple[str, ...]

    @property
    def server(self) -> Object:
        """The container."""
        (container,) = self.pod["containers"]
        return dict(container)

    def metadata(self, annotations: Mapping[str, str] | None = None) -> Object:
        """Of an object that has the winner's name."""
        found: Object = {
            "name": self.name,
            "namespace": self.namespace,
            "labels": dict(self.labels),
        }
        return found | ({"annotations": dict(annotations)} if annotations else {})
