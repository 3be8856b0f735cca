"""The command line of upstream vLLM on CPU, for a local rehearsal; the caller adds the port.

vLLM's defaults are the same here with and without speculation: on CPU vLLM 0.32 always schedules
synchronously (platforms/cpu.py), and prefix caching and the batch size are set below.
"""

from draftworth.experiment.model import LocalExperiment
from draftworth.experiment.variants import Variant
from draftworth.serving import server_command as vllm


def command(
    experiment: LocalExperiment, variant: Variant, paths: vllm.ModelPaths
) -> vllm.ServingCommand:
    """Return the command of one variant's server on this machine, without a port."""
    return vllm.ServingCommand(
        model=paths.target,
        flags={
            **vllm.common_flags(experiment),
            vllm.REQUESTS_NOT_LOGGED: None,
            # Many processors have no bfloat16 and copy it to float32 first: prompts, and checking
            # several tokens at once, then take several times as long. Also, the coarser rounding of
            # bfloat16 would make greedy outputs of variants differ (docs/appendix/cpu-engine.md).
            "--dtype": "float32",
            "--enforce-eager": None,
            "--max-num-batched-tokens": str(experiment.serving.max_model_len),
            # A prompt that was sent before must be computed again, not read from a cache.
            "--no-enable-prefix-caching": None,
            **vllm.speculation_flags(experiment, variant, paths.draft, method=variant.method),
        },
        environment={
            **experiment.release_facts.environment,
            # With an explicit size of the KV cache, vLLM also skips its warm-up pass.
            "VLLM_CPU_KVCACHE_SPACE": str(experiment.serving.kv_cache_gib),
        },
    )
