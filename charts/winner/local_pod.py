"""The winner of a local experiment as a pod: for whoever has an image with its engine.

The measured flags and environment, and nothing that nobody measured: no resources, no node. The
checkpoints, folders on the machine that measured, are expected on a volume of the reader's own.
"""

from __future__ import annotations

from charts.vllm_pod import CONTAINER_NAME, PORT_NAME
from charts.winner.export import Object
from draftworth.experiment.variants import Speculative
from draftworth.planning.resolved import ResolvedLocal, ResolvedVariant
from draftworth.serving.command import SERVING_PORT, ModelPaths, ServingCommand
from draftworth.serving.dialects import serving_command

# As long as a rehearsal waits for its engines (`rehearsal/engine.py`).
_STARTUP_SECONDS = 600
_PERIOD_SECONDS = 10


def local_command(experiment: ResolvedLocal, variant: ResolvedVariant) -> ServingCommand:
    """The measured command, with paths inside the pod."""
    command = serving_command(experiment.spec, variant.spec, ModelPaths())
    return ServingCommand(
        arguments=(*command.arguments, f"--port={SERVING_PORT}"),
        environment=command.environment,
    )


def local_pod(
    variant: ResolvedVariant, command: ServingCommand, image: str, *, service_account: str
) -> Object:
    """The spec of the pod; its checkpoints are on the claim that `checkpoints_claim` names."""
    roles = {"target": ModelPaths().target}
    if isinstance(variant.spec, Speculative):
        roles["draft"] = ModelPaths().draft
    server: Object = {
        "name": CONTAINER_NAME,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["vllm", "serve"],
        "args": list(command.arguments),
        "env": [{"name": n, "value": v} for n, v in sorted(command.environment.items())],
        "ports": [{"name": PORT_NAME, "containerPort": SERVING_PORT, "protocol": "TCP"}],
        "startupProbe": _probe(_STARTUP_SECONDS // _PERIOD_SECONDS),
        "readinessProbe": _probe(6),
        "livenessProbe": _probe(30),
        "securityContext": {"allowPrivilegeEscalation": False},
        "volumeMounts": [
            {"name": "checkpoints", "mountPath": path, "subPath": role, "readOnly": True}
            for role, path in roles.items()
        ],
    }
    claim = {"claimName": checkpoints_claim(service_account), "readOnly": True}
    return {
        "serviceAccountName": service_account,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [server],
        "volumes": [{"name": "checkpoints", "persistentVolumeClaim": claim}],
    }


def checkpoints_claim(name: str) -> str:
    """The PersistentVolumeClaim with the folders `target` and `draft`, which the reader makes."""
    return f"{name}-checkpoints"


def _probe(failures: int) -> Object:
    return {
        "httpGet": {"path": "/health", "port": PORT_NAME, "scheme": "HTTP"},
        "periodSeconds": _PERIOD_SECONDS,
        "timeoutSeconds": 10,
        "failureThreshold": failures,
    }
