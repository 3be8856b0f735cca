"""vLLM Neuron (0.21 and 0.24, no NxD Inference): EAGLE3."""

from __future__ import annotations

from typing import Any

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

VERSION = 1


def shared_config(experiment: NeuronExperiment) -> dict[str, Any]:
    """Engine settings that every variant gets: the experiment's own."""
    return dict(experiment.serving.neuron_config)


def command(experiment: NeuronExperiment, variant: Variant, paths: ModelPaths) -> ServingCommand:
    """vLLM Neuron's flags."""
    config = {
        "on_device_sampling_config": {"all_greedy": True},
        **shared_config(experiment),
        **engine_settings(experiment, variant),
    }
    return neuron_command(
        experiment,
        paths,
        "--no-enable-prefix-caching",
        json_flag("--additional-config", {"neuron_config": config}),
        *speculative_config(variant, paths, method=variant.method),
    )
