"""Neuron SDK 2.26.1, vLLM 0.9.1 fork on NxD Inference: a draft model, fused, or EAGLE v1."""

from __future__ import annotations

from draftworth.experiment.model import NeuronExperiment
from draftworth.experiment.variants import Speculative, Variant
from draftworth.serving.command import (
    ModelPaths,
    ServingCommand,
    engine_settings,
    json_flag,
    neuron_arguments,
    neuron_environment,
)
from draftworth.serving.nxdi import shared_config as shared_config

VERSION = 1


def command(experiment: NeuronExperiment, variant: Variant, paths: ModelPaths) -> ServingCommand:
    """The fork's flags."""
    config = {**shared_config(experiment), **engine_settings(experiment, variant)}
    return ServingCommand(
        arguments=(
            *neuron_arguments(experiment, paths),
            "--device=neuron",
            json_flag("--override-neuron-config", config),
            *_speculation(experiment, variant, paths),
        ),
        environment={
            **neuron_environment(experiment),
            "VLLM_NEURON_FRAMEWORK": "neuronx-distributed-inference",
            "VLLM_USE_V1": "0",
        },
    )


def _speculation(experiment: NeuronExperiment, variant: Variant, paths: ModelPaths) -> list[str]:
    if not isinstance(variant, Speculative):
        return []
    # No "method" key: the fork detects a draft model by itself.
    settings = {
        "model": paths.draft,
        "num_speculative_tokens": variant.window,
        "max_model_len": experiment.serving.max_model_len,
    }
    return [json_flag("--speculative-config", settings)]
