"""The command line of vLLM Neuron without NxD Inference: EAGLE3 since 0.21, DFlash since 0.29.

With `--speculative-config` the engine schedules synchronously, so all variants are set to do so.
DFlash does not support some engine defaults: if one variant uses it, they change for all variants.
Sources: vLLM Neuron features guide, async scheduling, speculative decoding and DFlash; its DFlash
examples (examples/vllm_neuron/models/llama3/dflash).
"""

from typing import Any

from draftworth.experiment.model import NeuronExperiment
from draftworth.experiment.variants import Variant
from draftworth.serving import server_command as vllm

DFLASH = "dflash"
# Tokens in a block of the KV cache: the engine's default.
BLOCK_SIZE = 32


class VllmNeuron(vllm.NeuronDialect):
    """The command line of vLLM Neuron."""

    VERSION = 2

    def settings(self, experiment: NeuronExperiment) -> dict[str, Any]:
        return {"quantization": "bf16"} if experiment.uses(DFLASH) else {}

    def shared_flags(self, experiment: NeuronExperiment) -> vllm.Flags:
        flags: dict[str, str | None] = {"--no-async-scheduling": None}
        if experiment.uses(DFLASH):
            flags |= {
                "--dtype": "bfloat16",
                "--no-enable-chunked-prefill": None,
                "--max-num-batched-tokens": str(experiment.serving.max_model_len),
                "--disable-hybrid-kv-cache-manager": None,
                "--block-size": str(BLOCK_SIZE),
                "--num-gpu-blocks-override": str(_kv_blocks(experiment)),
            }
        return flags

    def variant_flags(
        self, experiment: NeuronExperiment, variant: Variant, config: dict[str, Any]
    ) -> vllm.Flags:
        return {
            vllm.REQUESTS_NOT_LOGGED: None,
            "--no-enable-prefix-caching": None,
            **self.flags_of(experiment, variant),
            "--additional-config": vllm.json_text({"neuron_config": config}),
            **vllm.speculation_flags(experiment, variant, method=variant.method),
        }


def _kv_blocks(experiment: NeuronExperiment) -> int:
    # Each sequence gets one block more than its length needs, for drafted tokens past its end, and
    # the engine never uses one block of the cache. With fewer blocks, one sequence could preempt
    # another.
    serving = experiment.serving
    blocks_per_sequence = -(-serving.max_model_len // BLOCK_SIZE) + 1
    return serving.max_num_seqs * blocks_per_sequence + 1
