"""Neuron SDK 2.28 to 2.31: the V1 plugin on NxD Inference, EAGLE v1 and v3."""

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
    """The plugin's flags."""
    config = {**shared_config(experiment), **engine_settings(experiment, variant)}
    return neuron_command(
        experiment,
        paths,
        "--no-enable-prefix-caching",
        "--no-enable-chunked-prefill",
        # Without prefix caching and chunked prefill the plugin keeps one block a sequence.
        f"--num-gpu-blocks-override={experiment.serving.max_num_seqs}",
        json_flag("--additional-config", {"override_neuron_config": config}),
        *speculative_config(variant, paths, method=variant.method),
    )
