"""The winner as an InferenceService of KServe.

An LLMInferenceService would generate its own vLLM command line instead of the measured one.
"""

from collections.abc import Mapping

from charts.manifest_files import Object
from charts.winner.exported_server import Export

# The mode `Standard` (`RawDeployment` in KServe before 0.16), because Knative does not support pods
# with resource claims.
MODE: Mapping[str, str] = {
    "serving.kserve.io/deploymentMode": "Standard",
    # Only one server was measured; the user decides how many are needed.
    "serving.kserve.io/autoscalerClass": "none",
}


def inference_service(export: Export) -> Object:
    """Return the winner as an InferenceService; its predictor has the fields of the pod's spec."""
    # KServe expects this name for the container with the server.
    server = {**export.server_data, "name": "kserve-container"}
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
                **export.pod_data,
                "containers": [server],
            }
        },
    }
