"""The winner as values of the vLLM production-stack's Helm chart (`vllm/vllm-stack`).

The chart runs `vllm serve` with its own host and port. It makes some flags from keys of
`vllmConfig` and copies others from `extraArgs`. It does not support a pod's resource claims, so the
pod requests Neuron devices from the device plugin instead. Source: helm/ of
github.com/vllm-project/production-stack, chart version 0.1.12.
"""

from collections.abc import Callable, Mapping
from typing import Any, cast

from charts.templates import Object, objects_in
from charts.winner.annotations import PREFIX
from charts.winner.measured import Export
from draftworth.serving.server_command import SERVING_PORT, Flags, flag_texts

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
    # The memory volume is left out, because the chart mounts shared memory itself.
    in_memory = [v for v in pod["volumes"] if v.get("emptyDir", {}).get("medium") == "Memory"]
    left_out = {volume["name"] for volume in in_memory}
    values = objects_in(
        "charts.winner",
        "production_stack.yaml.jinja",
        export=export,
        server=server,
        pod=pod,
        port=SERVING_PORT,
        # Only our own labels: the chart sets the common labels itself and selects pods by them.
        labels={k: v for k, v in export.labels.items() if k.startswith(PREFIX)},
        vllm_config=_vllm_config(export.flags),
        volumes=[v for v in pod["volumes"] if v["name"] not in left_out],
        mounts=[m for m in server["volumeMounts"] if m["name"] not in left_out],
        shared_memory=in_memory[0]["emptyDir"]["sizeLimit"] if in_memory else None,
        resources=_resources(export),
    )
    return cast(Object, values)


def _vllm_config(flags: Flags) -> Object:
    # `--port` is left out because the chart sets it.
    keys = {key: convert(flags[flag]) for flag, (key, convert) in _KEYS.items() if flag in flags}
    written = {*_KEYS, "--port"}
    others = {flag: value for flag, value in flags.items() if flag not in written}
    # enablePrefixCaching is always set, because the chart makes a flag of both true and false.
    return {"enablePrefixCaching": False, **keys, "extraArgs": flag_texts(others)}


def _resources(export: Export) -> Object:
    given = export.server.get("resources", {})
    devices = {DEVICE_RESOURCE: str(export.devices)} if export.devices else {}
    amounts = {kind: {**given[kind], **devices} for kind in ("requests", "limits") if kind in given}
    # The chart requires resources. If the pod has none, a request of 0 CPUs reserves nothing.
    return amounts or {"requests": {"cpu": "0"}}
