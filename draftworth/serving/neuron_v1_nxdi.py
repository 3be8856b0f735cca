"""Neuron SDK 2.28 to 2.31: the V1 plugin on NxD Inference, EAGLE v1 and v3."""

from typing import Any

from draftworth.experiment.model import NeuronExperiment
from draftworth.experiment.variants import Variant
from draftworth.serving import command as vllm
from draftworth.serving.nxdi import shared_config as shared_config
from draftworth.serving.nxdi import shared_flags as shared_flags

VERSION = 1
# The plugin's settings are the same with and without speculation, except those of speculation
# (vllm-neuron, neuronx_distributed_model_loader.py, _get_default_neuron_config).
SPECULATION_DEPENDENT_DEFAULTS: tuple[str, ...] = ()


def command(
    experiment: NeuronExperiment,
    variant: Variant,
    paths: vllm.ModelPaths,
    config: dict[str, Any],
    flags: vllm.Flags,
) -> vllm.ServingCommand:
    """Return the plugin's command."""
    return vllm.neuron_command(
        experiment,
        paths,
        {
            vllm.REQUESTS_NOT_LOGGED: None,
            **flags,
            "--no-enable-prefix-caching": None,
            "--no-enable-chunked-prefill": None,
            # Without prefix caching and chunked prefill the plugin keeps one block a sequence.
            "--num-gpu-blocks-override": str(experiment.serving.max_num_seqs),
            "--additional-config": vllm.json_text({"override_neuron_config": config}),
            **vllm.speculative_config(variant, paths, method=variant.method),
        },
    )
