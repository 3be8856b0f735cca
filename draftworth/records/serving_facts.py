"""What serves a run: facts of the servers that every variant shares, and how each one decodes.

Standard library only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """How one variant decodes; method `none`, without window and draft: no speculation.

    draft: hub id or folder.
    artifact_key: of its compiled graphs, which stands for the flags and revisions that they follow;
        None: no Neuron devices. Two variants decode alike whatever their keys are.
    """

    method: str
    window: int | None = None
    draft: str | None = None
    # A step-cost card is of use beside graphs of another key too.
    artifact_key: str | None = field(default=None, compare=False)


@dataclass(frozen=True, kw_only=True)
class ServingFacts:
    """What a step's time depends on beside the load.

    image: None: the engine is not in one. target_model: hub id or folder.
    instance_type, tensor_parallel_size, lnc, slot_devices: None: no Neuron devices.
    decoding: by variant.
    """

    release: str
    platform: str
    image: str | None
    vllm_version: str
    target_model: str
    instance_type: str | None
    tensor_parallel_size: int | None
    lnc: int | None
    slot_devices: int | None
    max_num_seqs: int
    max_model_len: int
    decoding: Mapping[str, Decoding]
