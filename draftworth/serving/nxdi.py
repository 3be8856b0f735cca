"""Images with NxD Inference: their command lines, and the engine settings of every variant.

Sequence parallelism and the sampler are given explicitly, because the 0.9.1 fork sets them
differently with and without speculation: a dynamic sampler on one side would change the speedup.
Reloaded artifacts read `global_topk` at each request.
Source: vLLM 0.9.x model_loader/neuronx_distributed.py; NxD Inference 0.6 models/config.py.
"""

from collections.abc import Mapping
from typing import Any

from draftworth.experiment.model import NeuronExperiment
from draftworth.experiment.variants import Variant
from draftworth.serving import command as vllm

# The engine's smallest bucket, tokens.
_LEAST_BUCKET = 128
_EQUAL_DEFAULTS: Mapping[str, Any] = {
    "enable_bucketing": True,
    "is_continuous_batching": True,
    "on_device_sampling_config": {
        "deterministic": False,
        "do_sample": False,
        "dynamic": False,
        "global_topk": 256,
        "temperature": 1.0,
        "top_k": 1,
        "top_p": 1.0,
    },
    "padding_side": "right",
    "sequence_parallel_enabled": False,
}


class _Nxdi(vllm.NeuronDialect):
    """NxD Inference takes engine settings and no flags."""

    def shared_config(self, experiment: NeuronExperiment) -> dict[str, Any]:
        serving = experiment.serving
        return {
            **_EQUAL_DEFAULTS,
            **_buckets(experiment),
            "logical_nc_config": serving.lnc,
            **serving.neuron_config,
        }


class NeuronV0(_Nxdi):
    """Neuron SDK 2.26.1, vLLM 0.9.1 fork on NxD Inference: a draft model, fused, or EAGLE v1."""

    # vLLM 0.9.x model_loader/neuronx_distributed.py, as the 0.9.1 fork of SDK 2.26.1 has it:
    # sequence parallelism is on without speculation and not set with it; the sampler is dynamic
    # without speculation, static and greedy with it.
    SPECULATION_DEPENDENT_DEFAULTS = ("sequence_parallel_enabled", "on_device_sampling_config")
    ENVIRONMENT: Mapping[str, str] = {
        "VLLM_NEURON_FRAMEWORK": "neuronx-distributed-inference",
        "VLLM_USE_V1": "0",
    }

    def own_flags(
        self, experiment: NeuronExperiment, variant: Variant, config: dict[str, Any]
    ) -> vllm.Flags:
        return {
            # No flag for prefix caching: "disabled by default for V0" (vLLM 0.9, CacheConfig).
            "--device": "neuron",
            # By default it logs every prompt, and knows no other name (vLLM 0.9, AsyncEngineArgs).
            "--disable-log-requests": None,
            "--override-neuron-config": vllm.json_text(config),
            # No "method" key: the fork detects a draft model by itself.
            **vllm.speculative_config(variant, max_model_len=experiment.serving.max_model_len),
        }


class NeuronV1(_Nxdi):
    """Neuron SDK 2.28 to 2.31: the V1 plugin on NxD Inference, EAGLE v1 and v3.

    The plugin's settings are the same with and without speculation, except those of speculation
    (vllm-neuron, neuronx_distributed_model_loader.py, _get_default_neuron_config).
    """

    def own_flags(
        self, experiment: NeuronExperiment, variant: Variant, config: dict[str, Any]
    ) -> vllm.Flags:
        return {
            vllm.REQUESTS_NOT_LOGGED: None,
            "--no-enable-prefix-caching": None,
            "--no-enable-chunked-prefill": None,
            # Without prefix caching and chunked prefill the plugin keeps one block a sequence.
            "--num-gpu-blocks-override": str(experiment.serving.max_num_seqs),
            "--additional-config": vllm.json_text({"override_neuron_config": config}),
            **vllm.speculative_config(variant, method=variant.method),
        }


def _buckets(experiment: NeuronExperiment) -> dict[str, list[int]]:
    """Return one length for prompts and one for prompt and output, with `buckets: one`.

    By default the engine compiles both for each power of two from 128 to the whole length
    (NxD Inference 0.6, modules/autobucketing.py). Every prompt that leaves room for its output fits
    into the one length for prompts.
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
