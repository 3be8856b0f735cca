"""Makes the facts that a run records of its servers; a test states only the values it needs."""

from typing import Any

from draftworth.records.servers import Decoding, ServingFacts


def make_serving_facts(**overrides: Any) -> ServingFacts:
    fields: dict[str, Any] = {
        "release": "neuron-2.26.1",
        "platform": "neuron",
        "image": None,
        "vllm_version": "0.9.1",
        "target_model": "Qwen/Qwen3-32B",
        "target_revision": "main",
        "instance_type": "trn2.48xlarge",
        "tensor_parallel_size": 32,
        "lnc": 2,
        "slot_devices": 8,
        "max_num_seqs": 4,
        "max_model_len": 1024,
        "decoding": {
            "baseline": Decoding(method="none"),
            "k7": Decoding(
                method="fused_draft", window=7, draft="Qwen/Qwen3-1.7B", draft_revision="abc1234"
            ),
        },
    }
    return ServingFacts(**{**fields, **overrides})
