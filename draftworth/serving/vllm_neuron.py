"""vLLM Neuron (0.21 and later, no NxD Inference): EAGLE3, and from 0.29 on DFlash.

With `--speculative-config` the engine schedules synchronously, without it asynchronously, so every
variant is told to schedule synchronously. DFlash supports less than the engine does by itself, and
an experiment with a DFlash variant takes it away from every variant.
Sources: vLLM Neuron features guide, async scheduling, speculative decoding and DFlash; its DFlash
examples (examples/vllm_neuron/models/llama3/dflash).
"""

from __future__ import annotations

from typing import Any

from draftworth.experiment.model import NeuronExperiment
from draftworth.experiment.variants import Variant
from draftworth.serving import command as vllm

VERSION = 2
DFLASH = "dflash"
# Tokens in a block of the KV cache: what the engine takes by itself.
BLOCK_SIZE = 32
# A compilation may take longer than the 600 s that one process waits for another's by default.
# Older images know the first variable by the second name.
_PATIENCE = {
    "VLLM_NEURON_COMPILATION_TIMEOUT": "3600",
    "NEURON_LIBTORCH_COMPILATION_TIMEOUT": "3600",
    "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS": "3600",
}

_GUIDE = "vLLM Neuron features guide"
_DFLASH_SETTINGS = f"{_GUIDE}, DFlash, required settings"
_KV_CACHE_SIZE = f"{_GUIDE}, DFlash, size the KV cache to the workload"
SPECULATION_DEPENDENT_DEFAULTS = (
    vllm.DependentDefault(
        setting="--no-async-scheduling",
        why="asynchronous by default, switched off by --speculative-config",
        source=f"{_GUIDE}, speculative decoding: mutually exclusive with async scheduling",
    ),
    vllm.DependentDefault(
        setting="--no-enable-chunked-prefill",
        why="DFlash does not support it",
        source=_DFLASH_SETTINGS,
        method=DFLASH,
    ),
    vllm.DependentDefault(
        setting="--max-num-batched-tokens",
        why="a prompt that is not cut into chunks has to fit into one batch",
        source="vLLM Neuron's DFlash example for Llama 3.1; vLLM, SchedulerConfig",
        method=DFLASH,
    ),
    vllm.DependentDefault(
        setting="--disable-hybrid-kv-cache-manager",
        why="DFlash's layers must lie in one group of the KV cache",
        source=_DFLASH_SETTINGS,
        method=DFLASH,
    ),
    vllm.DependentDefault(
        setting="--block-size",
        why="the number of blocks is counted in it",
        source=_KV_CACHE_SIZE,
        method=DFLASH,
    ),
    vllm.DependentDefault(
        setting="--num-gpu-blocks-override",
        why="the KV cache takes all spare memory, and a DFlash step costs by what is allocated",
        source=_KV_CACHE_SIZE,
        method=DFLASH,
    ),
)


def shared_config(experiment: NeuronExperiment) -> dict[str, Any]:
    """Greedy sampling on the device for every variant, the experiment's own settings on top."""
    precision = {"quantization": "bf16"} if experiment.uses(DFLASH) else {}
    greedy = {"on_device_sampling_config": {"all_greedy": True}}
    return {**greedy, **precision, **experiment.serving.neuron_config}


def shared_flags(experiment: NeuronExperiment) -> list[str]:
    """Scheduling and, with a DFlash variant, precision and KV cache as DFlash needs them."""
    flags = ["--no-async-scheduling"]
    if experiment.uses(DFLASH):
        flags += [
            "--dtype=bfloat16",
            "--no-enable-chunked-prefill",
            f"--max-num-batched-tokens={experiment.serving.max_model_len}",
            "--disable-hybrid-kv-cache-manager",
            f"--block-size={BLOCK_SIZE}",
            f"--num-gpu-blocks-override={_kv_blocks(experiment)}",
        ]
    return flags


def _kv_blocks(experiment: NeuronExperiment) -> int:
    """Blocks for as many whole sequences as run at once.

    One more for each, where drafted tokens pass its end, and the block that is never used. A block
    that a whole sequence lacks would be another's, and preempt it.
    """
    serving = experiment.serving
    of_a_sequence = -(-serving.max_model_len // BLOCK_SIZE) + 1
    return serving.max_num_seqs * of_a_sequence + 1


def command(
    experiment: NeuronExperiment,
    variant: Variant,
    paths: vllm.ModelPaths,
    config: dict[str, Any],
    flags: list[str],
) -> vllm.ServingCommand:
    """vLLM Neuron's flags."""
    return vllm.neuron_command(
        experiment,
        paths,
        vllm.REQUESTS_NOT_LOGGED,
        "--no-enable-prefix-caching",
        *flags,
        vllm.json_flag("--additional-config", {"neuron_config": config}),
        *vllm.speculative_config(variant, paths, method=variant.method),
        *vllm.per_request_acceptance(experiment, variant),
        **_PATIENCE,
    )
