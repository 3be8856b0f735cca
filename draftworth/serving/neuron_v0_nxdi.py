"""Neuron SDK 2.26.1, vLLM 0.9.1 fork on NxD Inference: a draft model, fused, or EAGLE v1."""

from typing import Any

from draftworth.experiment.model import NeuronExperiment
from draftworth.experiment.variants import Variant
from draftworth.serving import command as vllm
from draftworth.serving.nxdi import shared_config as shared_config
from draftworth.serving.nxdi import shared_flags as shared_flags

VERSION = 1

# vLLM 0.9.x model_loader/neuronx_distributed.py, as the 0.9.1 fork of SDK 2.26.1 has it: sequence
# parallelism is on without speculation and not set with it; the sampler is dynamic without
# speculation, static and greedy with it.
SPECULATION_DEPENDENT_DEFAULTS = ("sequence_parallel_enabled", "on_device_sampling_config")


def command(
    experiment: NeuronExperiment,
    variant: Variant,
    paths: vllm.ModelPaths,
    config: dict[str, Any],
    flags: vllm.Flags,
) -> vllm.ServingCommand:
    """Return the fork's command."""
    return vllm.neuron_command(
        experiment,
        paths,
        {
            # No flag for prefix caching: "disabled by default for V0" (vLLM 0.9, CacheConfig).
            "--device": "neuron",
            # By default it logs every prompt, and it knows this name alone (vLLM 0.9,
            # AsyncEngineArgs).
            "--disable-log-requests": None,
            **flags,
            "--override-neuron-config": vllm.json_text(config),
            # No "method" key: the fork detects a draft model by itself.
            **vllm.speculative_config(
                variant, paths, max_model_len=experiment.serving.max_model_len
            ),
        },
        VLLM_NEURON_FRAMEWORK="neuronx-distributed-inference",
        VLLM_USE_V1="0",
    )
