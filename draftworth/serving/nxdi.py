"""Engine settings of NxD Inference that both variants get, given explicitly.

What the 0.9.1 fork sets differently with and without speculation (sequence parallelism, sampler).
Greedy, static sampling: a dynamic sampler on one side only would put its cost into the speedup.
`global_topk` must be there: reloaded artifacts read it each request.
Source: vLLM 0.9.x model_loader/neuronx_distributed.py; NxD Inference 0.6 models/config.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from draftworth.experiment.model import NeuronExperiment

# Tokens; what the engine begins with.
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


def shared_flags(_: NeuronExperiment) -> list[str]:
    """None beside the engine settings."""
    return []


def shared_config(experiment: NeuronExperiment) -> dict[str, Any]:
    """The defaults, the logical core size, and the experiment's own settings on top."""
    serving = experiment.serving
    return {
        **_EQUAL_DEFAULTS,
        **_buckets(experiment),
        "logical_nc_config": serving.lnc,
        **serving.neuron_config,
    }


def _buckets(experiment: NeuronExperiment) -> dict[str, list[int]]:
    """Lengths to compile for, where the engine is told: one for prompts, one for prompt and output.

    By itself the engine has one for each power of two from 128 to the whole length, of both kinds
    (NxD Inference 0.6, modules/autobucketing.py). Every prompt that leaves room for its output fits
    into the one that is told.
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
