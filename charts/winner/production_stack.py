"""The winner as values of the vLLM production-stack's Helm chart (`vllm/vllm-stack`).

The chart runs `vllm serve` with its own host and port. It makes some flags from keys of
`vllmConfig` and copies others from `extraArgs`. It does not support a pod's resource claims, so the
pod requests Neuron devices from the device plugin instead. Source: helm/ of
github.com/vllm-project/production-stack, chart version 0.1.12.
"""

from collections.abc import Callable, Mapping
from typing import Any

from charts.manifest_files import Object
from charts.vllm_pod import SHARED_MEMORY
from charts.winner.exported_server import Export
from charts.winner.winner_annotations import PREFIX
from draftworth.serving.server_command import SERVING_PORT, Flags, flag_texts

CHART_VERSION = "0.1.12"
CHART_REPOSITORY = "https://vllm-project.github.io/production-stack"
# The resource name of the Neuron device plugin.
DEVICE_RESOURCE = "aws.amazon.com/neuron"
_PROBES = ("startupProbe", "readinessProbe", "livenessProbe")

# The flags that the chart makes from `vllmConfig`: {flag: (key there, conversion of the value)}.
_KEYS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "--max-model-len": ("maxModelLen", int),
    "--max-num-seqs": ("maxNumSeqs", int),
    "--tensor-parallel-size": ("tensorParallelSize", int),
    "--dtype": ("dtype", str),
    "--no-enable-chunked-prefill": ("enableChunkedPrefill", lambda _: False),
    "--no-enable-prefix-caching": ("enablePrefixCaching", lambda _: False),
}


def production_stack_values(export: Export) -> Object:
    """Return the values for `helm install ... vllm/vllm-stack --values FILE`."""
    server, pod = export.server_data, export.pod_data
    return {
        "servingEngineSpec": {
            # The default is `nvidia`; a cluster without that runtime class would reject the pod.
            "runtimeClassName": "",
            "containerPort": SERVING_PORT,
            "strategy": {"type": "Recreate"},
            "securityContext": pod["securityContext"],
            "containerSecurityContext": server["securityContext"],
            **{name: _probe(server[name]) for name in _PROBES},
            "modelSpec": [_model_spec(export)],
        }
    }


def _probe(probe: Object) -> Object:
    # If `httpGet` had no values, the chart would probe port 8000.
    return {**probe, "httpGet": {"path": probe["httpGet"]["path"], "port": SERVING_PORT}}


def _model_spec(export: Export) -> Object:
    server, pod = export.server_data, export.pod_data
    repository, _, tag = server["image"].rpartition(":")
    return {
        "name": export.name,
        "annotations": dict(export.annotations),
        # Only our own labels: the chart sets the common labels itself and selects pods by them.
        "podLabels": {k: v for k, v in export.labels.items() if k.startswith(PREFIX)},
        "serviceAccountName": pod["serviceAccountName"],
        "repository": repository,
        "tag": tag,
        "modelURL": server["args"][0],
        "replicaCount": 1,
        "vllmConfig": _vllm_config(export.flags),
        "env": server["env"],
        **_volumes(export),
        **_node(pod),
        "resources": _resources(export),
        **_init_container(pod),
    }


def _volumes(export: Export) -> Object:
    """Return the chart's values for the pod's volumes and mounts.

    The chart mounts shared memory itself, so the values have only its size.
    """
    volumes = {volume["name"]: volume for volume in export.pod_data["volumes"]}
    shared_memory = volumes.pop(SHARED_MEMORY, None)
    mounts = export.server_data["volumeMounts"]
    values: Object = {
        "extraVolumes": [*volumes.values()],
        "extraVolumeMounts": [mount for mount in mounts if mount["name"] in volumes],
    }
    return values | ({"shmSize": shared_memory["emptyDir"]["sizeLimit"]} if shared_memory else {})


def _node(pod: Object) -> Object:
    """Return the chart's values for the nodes on which the pod may run; empty for any node.

    pod: the pod's spec as plain data.
    """
    if "nodeSelector" not in pod:
        return {}
    labels = [
        {"key": key, "operator": "In", "values": [value]}
        for key, value in pod["nodeSelector"].items()
    ]
    return {
        "nodeSelectorTerms": [{"matchExpressions": labels}],
        "tolerations": pod["tolerations"],
    }


def _init_container(pod: Object) -> Object:
    """Return the chart's value for the pod's init container, or {} if the pod has none.

    The chart allows one init container. pod: the pod's spec as plain data.
    """
    if "initContainers" not in pod:
        return {}
    (container,) = pod["initContainers"]
    keys = ("name", "image", "command", "args", "resources")
    mounts = {"extraVolumeMounts": container["volumeMounts"]}
    return {"initContainer": {key: container[key] for key in keys} | mounts}


def _vllm_config(flags: Flags) -> Object:
    # `--port` is left out because the chart sets it.
    keys = {key: convert(flags[flag]) for flag, (key, convert) in _KEYS.items() if flag in flags}
    written = {*_KEYS, "--port"}
    further_flags = {flag: value for flag, value in flags.items() if flag not in written}
    # enablePrefixCaching is always set, because the chart always writes a flag for or against it.
    return {"enablePrefixCaching": False, **keys, "extraArgs": flag_texts(further_flags)}


def _resources(export: Export) -> Object:
    resources = export.server_data.get("resources", {})
    devices = {DEVICE_RESOURCE: str(export.devices)} if export.devices else {}
    amounts = {
        kind: {**resources[kind], **devices} for kind in ("requests", "limits") if kind in resources
    }
    # The chart requires resources. If the pod has none, a request of 0 CPUs reserves nothing.
    return amounts or {"requests": {"cpu": "0"}}
