"""Engine settings of NxD Inference that every variant gets.

Sequence parallelism and the sampler are given explicitly, because the 0.9.1 fork sets them
differently with and without speculation: a dynamic sampler on one side would change the speedup.
Reloaded artifacts read `global_topk` at each request.
Source: vLLM 0.9.x model_loader/neuronx_distributed.py; NxD Inference 0.6 models/config.py.
"""

from collections.abc import Mapping
from typing import Any

from draftworth.experiment.model import NeuronExperiment
from draftworth.serving.command import Flags

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


def shared_flags(_: NeuronExperiment) -> Flags:
    """NxD Inference takes engine settings and no flags."""
    return {}


def shared_config(experiment: NeuronExperiment) -> dict[str, Any]:
    """Return the defaults, the logical core size, and the experiment's own settings."""
    serving = experiment.serving
    return {
        **_EQUAL_DEFAULTS,
        **_buckets(experiment),
        "logical_nc_config": serving.lnc,
        **serving.neuron_config,
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
