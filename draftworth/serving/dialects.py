"""How each release's command line says the same thing: one function a dialect.

A dialect turns the shared serving settings and ONE variant into the arguments and environment of
`vllm serve`. Everything a variant adds stands in its `--speculative-config` (and, where a dialect
has no other way, in keys that only speculation reads): the rest is written before the variant is
looked at, so two variants cannot differ in it.

Sources are named at each dialect; what could not be confirmed without the hardware is listed in
`docs/decisions/0004-fair-flags.md`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from draftworth.experiment.catalog import Dialect
from draftworth.experiment.model import (
    Experiment,
    LocalExperiment,
    NeuronExperiment,
    Speculative,
    Variant,
)

SERVING_PORT = 8000

# Raised whenever a dialect's output changes the compiled graph: part of the artifact key.
DIALECT_VERSIONS: Mapping[Dialect, int] = {
    "neuron_v0_nxdi": 1,
    "neuron_v1_nxdi": 1,
    "vllm_neuron": 1,
    "vllm_cpu": 1,
}


@dataclass(frozen=True, kw_only=True)
class ModelPaths:
    """Where the checkpoints are, as the serving process sees them."""

    target: str = "/models/target"
    # Not named after the method: the 0.9.1 fork takes any path with "eagle-" in it for EAGLE.
    draft: str = "/models/draft"


@dataclass(frozen=True, kw_only=True)
class ServingCommand:
    """Arguments of `vllm serve` and the environment it needs."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str]


def served_model_name(experiment: Experiment) -> str:
    """The name every variant's server answers to: the target's, so clients send the same body."""
    if isinstance(experiment, NeuronExperiment):
        return experiment.target.model
    return experiment.name


def serving_command(experiment: Experiment, variant: Variant, paths: ModelPaths) -> ServingCommand:
    """What to run for one variant, in the dialect of the experiment's release."""
    dialect = experiment.release_facts.dialect
    if isinstance(experiment, LocalExperiment):
        return _vllm_cpu(experiment, variant, paths)
    return _NEURON_DIALECTS[dialect](experiment, variant, paths)


def shared_neuron_config(experiment: NeuronExperiment) -> dict[str, Any]:
    """Neuron engine settings that both sides get, the experiment's own on top of the dialect's."""
    base = _NXDI_EQUAL_DEFAULTS if "nxdi" in experiment.release_facts.dialect else {}
    lnc = {"logical_nc_config": experiment.serving.lnc} if base else {}
    return {**base, **lnc, **experiment.serving.neuron_config}


# What the 0.9.1 fork sets differently with and without speculation (sequence parallelism, sampler),
# given explicitly to both. Greedy, static sampling: a dynamic sampler on one side only would put
# its cost into the speedup. `global_topk` must be there: reloaded artifacts read it each request.
# Source: vLLM 0.9.x model_loader/neuronx_distributed.py; NxD Inference 0.6 models/config.py.
_NXDI_EQUAL_DEFAULTS: Mapping[str, Any] = {
    "enable_bucketing": True,
    "is_continuous_batching": True,
    "on_device_sampling_config": {
        "deterministic": False,
        "do_sample": False,
        "dynamic": False,
        "global_topk": 256,
        "temperature": 1.0,
        "top_k": 1,
        "top_p": 1.0,
    },
    "padding_side": "right",
    "sequence_parallel_enabled": False,
}


def _common(experiment: Experiment, paths: ModelPaths) -> list[str]:
    serving = experiment.serving
    return [
        paths.target,
        f"--served-model-name={served_model_name(experiment)}",
        f"--max-num-seqs={serving.max_num_seqs}",
        f"--max-model-len={serving.max_model_len}",
    ]


def _neuron_common(experiment: NeuronExperiment, paths: ModelPaths) -> list[str]:
    size = experiment.serving.tensor_parallel_size
    return [*_common(experiment, paths), f"--port={SERVING_PORT}", f"--tensor-parallel-size={size}"]


def _neuron_environment(experiment: NeuronExperiment) -> dict[str, str]:
    # Two names for one setting: NxD Inference reads the first, older runtimes the second.
    # NEURON_RT_VISIBLE_CORES is left alone: with DRA the claim decides which devices are visible.
    lnc = str(experiment.serving.lnc)
    return {"NEURON_LOGICAL_NC_CONFIG": lnc, "NEURON_RT_VIRTUAL_CORE_SIZE": lnc}


def _neuron_v0_nxdi(
    experiment: NeuronExperiment, variant: Variant, paths: ModelPaths
) -> ServingCommand:
    """Neuron SDK 2.26.1, vLLM 0.9.1 fork on NxD Inference: a draft model, fused, or EAGLE v1."""
    config = shared_neuron_config(experiment)
    arguments = [*_neuron_common(experiment, paths), "--device=neuron"]
    speculation: list[str] = []
    if isinstance(variant, Speculative):
        if variant.method == "eagle":
            config = {**config, "enable_eagle_speculation": True}
        # No "method" key: the fork detects a draft model by itself.
        settings = {
            "model": paths.draft,
            "num_speculative_tokens": variant.window,
            "max_model_len": experiment.serving.max_model_len,
        }
        speculation = [_json_flag("--speculative-config", settings)]
    return ServingCommand(
        arguments=(*arguments, _json_flag("--override-neuron-config", config), *speculation),
        environment={
            **_neuron_environment(experiment),
            "VLLM_NEURON_FRAMEWORK": "neuronx-distributed-inference",
            "VLLM_USE_V1": "0",
        },
    )


def _neuron_v1_nxdi(
    experiment: NeuronExperiment, variant: Variant, paths: ModelPaths
) -> ServingCommand:
    """Neuron SDK 2.28 to 2.31: the V1 plugin on NxD Inference, EAGLE v1 and v3."""
    config = shared_neuron_config(experiment)
    arguments = [
        *_neuron_common(experiment, paths),
        "--no-enable-prefix-caching",
        "--no-enable-chunked-prefill",
        # Without prefix caching and chunked prefill the plugin keeps one block a sequence.
        f"--num-gpu-blocks-override={experiment.serving.max_num_seqs}",
    ]
    speculation: list[str] = []
    if isinstance(variant, Speculative):
        config = {**config, "enable_eagle_speculation": True}
        if variant.method == "eagle3":
            config = {**config, "is_eagle3": True}
        speculation = [_json_flag("--speculative-config", _upstream_settings(variant, paths))]
    additional = {"override_neuron_config": config}
    return ServingCommand(
        arguments=(*arguments, _json_flag("--additional-config", additional), *speculation),
        environment=_neuron_environment(experiment),
    )


def _vllm_neuron(
    experiment: NeuronExperiment, variant: Variant, paths: ModelPaths
) -> ServingCommand:
    """vLLM Neuron (0.21 and 0.24, no NxD Inference): EAGLE3."""
    sampling: dict[str, Any] = {"on_device_sampling_config": {"all_greedy": True}}
    config = {"neuron_config": {**sampling, **shared_neuron_config(experiment)}}
    arguments = [
        *_neuron_common(experiment, paths),
        "--no-enable-prefix-caching",
        _json_flag("--additional-config", config),
    ]
    if isinstance(variant, Speculative):
        arguments.append(_json_flag("--speculative-config", _upstream_settings(variant, paths)))
    return ServingCommand(arguments=tuple(arguments), environment=_neuron_environment(experiment))


def _vllm_cpu(experiment: LocalExperiment, variant: Variant, paths: ModelPaths) -> ServingCommand:
    """Upstream vLLM on CPU, for the rehearsal. The port is the caller's."""
    arguments = [
        *_common(experiment, paths),
        "--dtype=bfloat16",
        "--enforce-eager",
        f"--max-num-batched-tokens={experiment.serving.max_model_len}",
        # A prompt that was sent before must not come out of a cache.
        "--no-enable-prefix-caching",
    ]
    if isinstance(variant, Speculative):
        arguments.append(_json_flag("--speculative-config", _upstream_settings(variant, paths)))
    return ServingCommand(
        arguments=tuple(arguments),
        environment={
            "VLLM_TARGET_DEVICE": "cpu",
            # The worker stays inside the engine core: two processes a server instead of three, and
            # two servers at once are up in about 25 s instead of 47 s.
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
            # One thread, bound to no core: tiny matrices gain nothing from a second one, and vLLM's
            # own binding leaves the client waiting for a core (a TTFT of 600 ms instead of 15 ms).
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "OMP_NUM_THREADS": "1",
            # An explicit size also skips the warm-up pass.
            "VLLM_CPU_KVCACHE_SPACE": str(experiment.serving.kv_cache_gib),
            "HF_HUB_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1",
        },
    )


def _upstream_settings(variant: Speculative, paths: ModelPaths) -> dict[str, Any]:
    return {
        "method": variant.method,
        "model": paths.draft,
        "num_speculative_tokens": variant.window,
    }


def _json_flag(flag: str, value: Mapping[str, Any]) -> str:
    return f"{flag}={json.dumps(value, sort_keys=True, separators=(',', ':'))}"


_NEURON_DIALECTS: Mapping[
    str, Callable[[NeuronExperiment, Variant, ModelPaths], ServingCommand]
] = {
    "neuron_v0_nxdi": _neuron_v0_nxdi,
    "neuron_v1_nxdi": _neuron_v1_nxdi,
    "vllm_neuron": _vllm_neuron,
}
