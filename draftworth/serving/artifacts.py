"""Artifact keys: content addresses of compiled graphs.

Same key, same graph. The engines ignore flags that differ from what an artifact was compiled with
(NxD Inference loads what is there), so a folder of compiled graphs is named by everything that
changes the graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from draftworth.experiment.model import NeuronExperiment
from draftworth.experiment.naming import content_hash
from draftworth.experiment.variants import HubSpeculative, Variant
from draftworth.serving.dialects import neuron_dialect, shared_config, shared_flags

KEY_LENGTH = 24


def artifact_inputs(experiment: NeuronExperiment, variant: Variant) -> dict[str, Any]:
    """Everything that changes the compiled graph, and nothing else."""
    serving, dialect = experiment.serving, neuron_dialect(experiment)
    inputs: dict[str, Any] = {
        "image": experiment.image,
        # Other chips, another graph; whether another node with the same chips needs one is written
        # nowhere, and a compile costs less than a graph that does not load.
        "instance_type": experiment.instance_type,
        "dialect": experiment.release_facts.dialect,
        "dialect_version": dialect.VERSION,
        "target": {"model": experiment.target.model, "revision": experiment.target.revision},
        "tensor_parallel_size": serving.tensor_parallel_size,
        "lnc": serving.lnc,
        "max_num_seqs": serving.max_num_seqs,
        "max_model_len": serving.max_model_len,
        "neuron_config": shared_config(experiment, variant),
        "method": variant.method,
    }
    if flags := shared_flags(experiment, variant):
        inputs["flags"] = flags
    if isinstance(variant, HubSpeculative):
        inputs["draft"] = {"model": variant.draft.model, "revision": variant.draft.revision}
        inputs["window"] = variant.window
    return inputs


def artifact_key(inputs: Mapping[str, Any]) -> str:
    """The content address of a compiled graph with these `artifact_inputs`: 24 hex digits."""
    return content_hash(inputs, length=KEY_LENGTH)
