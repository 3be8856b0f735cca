"""Neuron SDK 2.26.1, vLLM 0.9.1 fork on NxD Inference: a draft model, fused, or EAGLE v1."""

from __future__ import annotations

from draftworth.experiment.model import NeuronExperiment
from draftworth.experiment.variants import Variant
from draftworth.serving.command import (
    ModelPaths,
    ServingCommand,
    engine_settings,
    json_flag,
    neuron_command,
    speculative_config,
)
from draftworth.serving.nxdi import shared_config as shared_config

VERSION = 1


def command(experiment: NeuronExperiment, variant: Variant, paths: ModelPaths) -> ServingCommand:
    """The fork's flags."""
    config = {**shared_config(experiment), **engine_settings(experiment, variant)}
    return neuron_command(
        experiment,
        paths,
        "--device=neuron",
        json_flag("--override-neuron-config", config),
        # No "method" key: the fork detects a draft model by itself.
        *speculative_config(variant, paths, max_model_len=experiment.serving.max_model_len),
        VLLM_NEURON_FRAMEWORK="neuronx-distributed-inference",
        VLLM_USE_V1="0",
    )
