"""The winner as a plain Deployment behind a ClusterIP Service."""

from __future__ import annotations

from collections.abc import Iterator

from charts.vllm_pod import PORT_NAME
from charts.winner.export import Export, Object
from draftworth.serving.command import SERVING_PORT


def deployment(export: Export) -> Iterator[Object]:
    """The template of its device claim, where it has one; the Service; the Deployment."""
    yield from export.claim_templates
    port = {"name": PORT_NAME, "port": SERVING_PORT, "targetPort": PORT_NAME, "protocol": "TCP"}
    yield {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": export.metadata(),
        "spec": {"type": "ClusterIP", "selector": dict(export.selector), "ports": [port]},
    }
    yield {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": export.metadata(export.annotations),
        "spec": {
            "replicas": 1,
            # A rolling update would need a second set of devices beside the running one.
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": dict(export.selector)},
            "template": {
                "metadata": {"labels": dict(export.labels)},
                "spec": export.pod,
            },
        },
    }
