"""Experiments with each speculative method on each release that serves it."""

from tests.support.experiments import DFLASH_HEAD, Edit, both, put


def speculating(method: str, release: str, draft: str, window: int = 7) -> Edit:
    target = "meta-llama/Llama-3.1-8B-Instruct" if "3.1-8B" in draft else "Qwen/Qwen3-32B"
    return both(
        put("variants", 1, "window", value=window),
        put("release", value=release),
        put("target", "model", value=target),
        put("variants", 1, "method", value=method),
        put("variants", 1, "draft", "model", value=draft),
    )


EAGLE3_HEAD = "RedHatAI/Llama-3.1-8B-Instruct-speculator.eagle3"
SERVED = {
    "fused draft on 2.26.1": speculating("fused_draft", "neuron-2.26.1", "Qwen/Qwen3-1.7B"),
    "eagle on 2.26.1": speculating("eagle", "neuron-2.26.1", "Qwen/Qwen3-1.7B"),
    "eagle3 on 2.28.0": speculating("eagle3", "neuron-2.28.0", EAGLE3_HEAD),
    "eagle3 on 2.31.1": speculating("eagle3", "neuron-2.31.1", EAGLE3_HEAD),
    "eagle3 on 2.31.1, vLLM Neuron": speculating(
        "eagle3", "neuron-2.31.1-vllm-0.21.0", EAGLE3_HEAD
    ),
    "eagle3 on 2.32.0": speculating("eagle3", "neuron-2.32.0", EAGLE3_HEAD),
    "eagle3 on 2.33.0": speculating("eagle3", "neuron-2.33.0", EAGLE3_HEAD),
    "dflash on 2.33.0": speculating("dflash", "neuron-2.33.0", DFLASH_HEAD, window=9),
}
