"""The winner as values of the vLLM production-stack's Helm chart (`vllm/vllm-stack`).

The chart runs `vllm serve` with its own host and port. It makes some flags from keys of
`vllmConfig` and copies others from `extraArgs`. It does not support a pod's resource claims, so the
pod requests Neuron devices from the device plugin instead. Source: helm/ of
github.com/vllm-project/production-stack, chart version 0.1.12.
"""

from collections.abc import Callable, Mapping
from typing import Any

from charts.winner.annotations import PREFIX
from charts.winner.measured import Export, Object
from draftworth.serving.command import SERVING_PORT, Flags, flag_texts

CHART_VERSION = "0.1.12"
CHART_REPOSITORY = "https://vllm-project.github.io/production-stack"
# The resource name of the Neuron device plugin.
DEVICE_RESOURCE = "aws.amazon.com/neuron"

# By flag that the chart makes from `vllmConfig`: the key there, and the conversion of the value.
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
    server, pod = export.server, export.pod
    return {
        "servingEngineSpec": {
            # The default is `nvidia`; a cluster without that runtime class would reject the pod.
            "runtimeClassName": "",
            "containerPort": SERVING_PORT,
            "strategy": {"type": "Recreate"},
            "securityContext": pod["securityContext"],
            "containerSecurityContext": server["securityContext"],
            **{name: _probe(server[name]) for name in _PROBES},
            "modelSpec": [_model(export)],
        }
    }


_PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


def _model(export: Export) -> Object:
    server, pod = export.server, export.pod
    repository, _, tag = server["image"].rpartition(":")
    # The memory volume is left out, because the chart mounts shared memory itself.
    in_memory = [v for v in pod["volumes"] if v.get("emptyDir", {}).get("medium") == "Memory"]
    left_out = {volume["name"] for volume in in_memory}
    found: Object = {
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
        "extraVolumes": [v for v in pod["volumes"] if v["name"] not in left_out],
        "extraVolumeMounts": [m for m in server["volumeMounts"] if m["name"] not in left_out],
    }
    if in_memory:
        found["shmSize"] = in_memory[0]["emptyDir"]["sizeLimit"]
    return {**found, **_placing(export), **_init_container(pod)}


def _vllm_config(flags: Flags) -> Object:
    # `--port` is left out because the chart sets it.
    keys = {key: convert(flags[flag]) for flag, (key, convert) in _KEYS.items() if flag in flags}
    written = {*_KEYS, "--port"}
    others = {flag: value for flag, value in flags.items() if flag not in written}
    # enablePrefixCaching is always set, because the chart makes a flag of both true and false.
    return {"enablePrefixCaching": False, **keys, "extraArgs": flag_texts(others)}


def _placing(export: Export) -> Object:
    pod, given = export.pod, export.server.get("resources", {})
    found: Object = {}
    if selector := pod.get("nodeSelector"):
        terms = [{"key": k, "operator": "In", "values": [v]} for k, v in selector.items()]
        found["nodeSelectorTerms"] = [{"matchExpressions": terms}]
    if tolerations := pod.get("tolerations"):
        found["tolerations"] = tolerations
    devices = {DEVICE_RESOURCE: str(export.devices)} if export.devices else {}
    amounts = {kind: {**given[kind], **devices} for kind in ("requests", "limits") if kind in given}
    # The chart requires resources. If the pod has none, a request of 0 CPUs reserves nothing.
    found["resources"] = amounts or {"requests": {"cpu": "0"}}
    return found


def _init_container(pod: Object) -> Object:
    if "initContainers" not in pod:
        return {}
    (container,) = pod["initContainers"]
    taken = {key: container[key] for key in ("name", "image", "command", "args", "resources")}
    return {"initContainer": {**taken, "extraVolumeMounts": container["volumeMounts"]}}


def _probe(probe: Object) -> Object:
    """Return the probe with a port number; without values the chart would probe port 8000."""
    return {**probe, "httpGet": {"path": probe["httpGet"]["path"], "port": SERVING_PORT}}
