"""Neuron SDK 2.26.1, vLLM 0.9.1 fork on NxD Inference: a draft model, fused, or EAGLE v1."""

from __future__ import annotations

from typing import Any

from draftworth.experiment.model import NeuronExperiment
from draftworth.experiment.variants import Variant
from draftworth.serving import command as vllm
from draftworth.serving.nxdi import shared_config as shared_config

VERSION = 1


def command(
    experiment: NeuronExperiment, variant: Variant, paths: vllm.ModelPaths, config: dict[str, Any]
) -> vllm.ServingCommand:
    """The fork's flags."""
    return vllm.neuron_command(
        experiment,
        paths,
        # No flag for prefix caching: "disabled by default for V0" (vLLM 0.9, CacheConfig).
        "--device=neuron",
        # Logs every prompt by default, and knows no other name for it (vLLM 0.9, AsyncEngineArgs).
        "--disable-log-requests",
        vllm.json_flag("--override-neuron-config", config),
        # No "method" key: the fork detects a draft model by itself.
        *vllm.speculative_config(variant, paths, max_model_len=experiment.serving.max_model_len),
        VLLM_NEURON_FRAMEWORK="neuronx-distributed-inference",
        VLLM_USE_V1="0",
    )
