"""The command line of upstream vLLM on CPU, for the rehearsal; the caller adds the port.

vLLM's defaults are the same here with and without speculation: on CPU vLLM 0.32 always schedules
synchronously (platforms/cpu.py), and prefix caching and the batch size are set below.
"""

from draftworth.experiment.model import LocalExperiment
from draftworth.experiment.variants import Variant
from draftworth.serving import command as vllm


def command(
    experiment: LocalExperiment, variant: Variant, paths: vllm.ModelPaths
) -> vllm.ServingCommand:
    """Return the command of one server on this machine."""
    return vllm.ServingCommand(
        model=paths.target,
        flags={
            **vllm.common_flags(experiment),
            vllm.REQUESTS_NOT_LOGGED: None,
            # Many processors have no bfloat16 and copy it to float32 first: prompts, and checking
            # several tokens at once, then take several times as long (docs/testing.md). Also, its
            # coarser rounding would make greedy outputs of the variants differ.
            "--dtype": "float32",
            "--enforce-eager": None,
            "--max-num-batched-tokens": str(experiment.serving.max_model_len),
            # A prompt that was sent before must be computed again, not read from a cache.
            "--no-enable-prefix-caching": None,
            **vllm.speculation_flags(experiment, variant, paths.draft, method=variant.method),
        },
        environment={
            "VLLM_TARGET_DEVICE": "cpu",
            # The worker stays inside the engine core: two processes a server instead of three, and
            # two servers are both ready after about 25 s instead of 47 s.
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
            # One thread, bound to no core: a second thread does not speed up tiny matrices, and
            # with vLLM's binding the client waits for a core (a TTFT of 600 ms instead of 15 ms).
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "OMP_NUM_THREADS": "1",
            # vLLM looks n-grams up in one thread of Numba; others would wait for it busily.
            "NUMBA_NUM_THREADS": "1",
            # An explicit size of the KV cache also skips vLLM's warm-up pass.
            "VLLM_CPU_KVCACHE_SPACE": str(experiment.serving.kv_cache_gib),
            "HF_HUB_OFFLINE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1",
        },
    )
