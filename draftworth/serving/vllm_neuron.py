"""vLLM Neuron (0.21 and 0.24, no NxD Inference): EAGLE3."""

from __future__ import annotations

from typing import Any

from draftworth.experiment.model import NeuronExperiment
from draftworth.experiment.variants import Variant
from draftworth.serving import command as vllm

VERSION = 1


def shared_config(experiment: NeuronExperiment) -> dict[str, Any]:
    """Engine settings that every variant gets: the experiment's own."""
    return dict(experiment.serving.neuron_config)


def command(
    experiment: NeuronExperiment, variant: Variant, paths: vllm.ModelPaths, config: dict[str, Any]
) -> vllm.ServingCommand:
    """vLLM Neuron's flags."""
    config = {"on_device_sampling_config": {"all_greedy": True}, **config}
    return vllm.neuron_command(
        experiment,
        paths,
        vllm.REQUESTS_NOT_LOGGED,
        "--no-enable-prefix-caching",
        vllm.json_flag("--additional-config", {"neuron_config": config}),
        *vllm.speculative_config(variant, paths, method=variant.method),
    )
