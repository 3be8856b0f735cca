"""Command lines of servers whose image has NxD Inference as the engine.

Most settings of the engine are in the catalogue of releases, `catalog.yaml`.
"""

from typing import Any

from draftworth.experiment.model import NeuronExperiment
from draftworth.experiment.variants import Variant
from draftworth.serving import server_command as vllm

# The shortest length for which NxD Inference compiles a graph (its smallest bucket), in tokens.
_LEAST_BUCKET = 128


class _Nxdi(vllm.NeuronDialect):
    """Base class of the command lines for NxD Inference, which share the engine's settings."""

    def settings(self, experiment: NeuronExperiment) -> dict[str, Any]:
        return {**_buckets(experiment), "logical_nc_config": experiment.serving.lnc}


class NeuronV0(_Nxdi):
    """The command line for Neuron SDK 2.26.1, whose engine is a fork of vLLM 0.9.1.

    It speculates with a draft model that is fused with the target, or with an EAGLE v1 head.
    """

    def variant_flags(
        self, experiment: NeuronExperiment, variant: Variant, config: dict[str, Any]
    ) -> vllm.Flags:
        # No flag is needed against prefix caching, which is "disabled by default for V0" (vLLM 0.9,
        # CacheConfig).
        return {
            "--device": "neuron",
            # By default every prompt is logged. vLLM 0.9 has only this flag against it, not the
            # later `REQUESTS_NOT_LOGGED` (AsyncEngineArgs).
            "--disable-log-requests": None,
            "--override-neuron-config": vllm.json_text(config),
            # `--speculative-config` gets no "method": the fork detects it from the draft.
            **vllm.speculation_flags(
                experiment, variant, max_model_len=experiment.serving.max_model_len
            ),
        }


class NeuronV1(_Nxdi):
    """The command line for Neuron SDK 2.28 to 2.31: vLLM V1 with a plugin, and EAGLE v1 or v3.

    The plugin's defaults are the same with and without speculation, except speculation's own
    settings (vllm-neuron, neuronx_distributed_model_loader.py, _get_default_neuron_config).
    """

    def variant_flags(
        self, experiment: NeuronExperiment, variant: Variant, config: dict[str, Any]
    ) -> vllm.Flags:
        return {
            vllm.REQUESTS_NOT_LOGGED: None,
            "--no-enable-prefix-caching": None,
            "--no-enable-chunked-prefill": None,
            # Without prefix caching and chunked prefill, the plugin's KV cache has one block per
            # sequence.
            "--num-gpu-blocks-override": str(experiment.serving.max_num_seqs),
            "--additional-config": vllm.json_text({"override_neuron_config": config}),
            **vllm.speculation_flags(experiment, variant, method=variant.method),
        }


def _buckets(experiment: NeuronExperiment) -> dict[str, list[int]]:
    """Return the settings for `serving.buckets: one`; empty if the engine chooses the buckets.

    A bucket is a length for which a graph is compiled: of prompts, or of prompt + output. By
    default there is a bucket for each power of two from 128 to `max_model_len` (NxD Inference 0.6,
    modules/autobucketing.py). The one bucket of prompts is long enough for every prompt that leaves
    room for the experiment's `output_tokens`.
    """
    if experiment.serving.buckets == "engine":
        return {}
    whole = experiment.serving.max_model_len
    prompt = whole - experiment.workload.output_tokens
    power = 1 << (prompt - 1).bit_length()
    return {
        "context_encoding_buckets": [min(whole, max(_LEAST_BUCKET, power))],
        "token_generation_buckets": [whole],
    }
