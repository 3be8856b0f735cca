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
    return {**_EQUAL_DEFAULTS, "logical_nc_config": serving.lnc, **serving.neuron_config}
