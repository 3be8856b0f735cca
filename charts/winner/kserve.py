"""The winner as a KServe InferenceService with a predictor of its own.

InferenceService and not LLMInferenceService: that one writes vLLM's command line itself, and this
one's is what was measured. Mode `Standard` (KServe before 0.16 calls it `RawDeployment`): Knative
takes no pod with a resource claim.
"""

from __future__ import annotations

from charts.winner.export import Export, Object

# By this name KServe finds the server among a pod's containers.
SERVER_NAME = "kserve-container"
MODE: dict[str, str] = {
    "serving.kserve.io/deploymentMode": "Standard",
    # One server was measured; how many are needed is the reader's to say.
    "serving.kserve.io/autoscalerClass": "none",
}


def inference_service(export: Export) -> Object:
    """The object."""
    server = {**export.server, "name": SERVER_NAME}
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": export.metadata({**MODE, **export.annotations}),
        "spec": {
            "predictor": {
                "minReplicas": 1,
                "maxReplicas": 1,
                "deploymentStrategy": {"type": "Recreate"},
                "labels": dict(export.labels),
                **export.pod,
                "containers": [server],
            }
        },
    }
