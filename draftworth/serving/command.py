"""What every dialect shares: the arguments and environment of `vllm serve` for ONE variant.

Everything a variant adds stands in its `--speculative-config` (and, where a dialect has no other
way, in engine settings that only speculation reads): the rest is written before the variant is
looked at, so two variants cannot differ in it. What speculation would change by itself is said on
both sides (`DependentDefault`); `dialects` takes it out again for the baseline as shipped alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from draftworth.experiment.model import Experiment, NeuronExperiment
from draftworth.experiment.variants import Speculative, Variant

SERVING_PORT = 8000
# vLLM 0.10.1 and later: the default, said all the same. Prompts do not belong in a pod's log.
REQUESTS_NOT_LOGGED = "--no-enable-log-requests"
# By default vLLM takes what a request does not say from the model's generation_config.json: top_k
# 20 and top_p 0.95 of a Qwen3, the repetition penalty of a Qwen2.5, a limit on new tokens. What is
# drawn then is not the model's distribution, by which outputs are checked. Ids that end an output
# are taken from there all the same (vLLM, ModelConfig.generation_config).
NO_GENERATION_DEFAULTS = "--generation-config=vllm"
SPECULATIVE_CONFIG = "--speculative-config"
PER_REQUEST_ACCEPTANCE = "--per-request-spec-decode-metrics"


@dataclass(frozen=True, kw_only=True)
class ModelPaths:
    """Where the checkpoints are, as the serving process sees them."""

    target: str = "/models/target"
    # Not named after the method: the 0.9.1 fork takes any path with "eagle-" in it for EAGLE.
    draft: str = "/models/draft"


@dataclass(frozen=True, kw_only=True)
class DependentDefault:
    """What an engine does in another way once it speculates, so that every variant is told.

    setting: the flag that tells it, or the key in the dialect's engine settings. method: the one
    that brings it about; None: any speculation.
    """

    setting: str
    why: str
    source: str
    method: str | None = None


@dataclass(frozen=True, kw_only=True)
class ServingCommand:
    """Arguments of `vllm serve` and the environment it needs."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str]


def served_model_name(experiment: Experiment) -> str:
    """The name every variant's server answers to: the target's, so clients send the same body."""
    if isinstance(experiment, NeuronExperiment):
        return experiment.target.model
    return experiment.name


def common_arguments(experiment: Experiment, paths: ModelPaths) -> list[str]:
    """What every dialect says in the same words."""
    serving = experiment.serving
    parser = serving.tool_call_parser
    return [
        paths.target,
        f"--served-model-name={served_model_name(experiment)}",
        f"--max-num-seqs={serving.max_num_seqs}",
        f"--max-model-len={serving.max_model_len}",
        NO_GENERATION_DEFAULTS,
        *(["--enable-auto-tool-choice", f"--tool-call-parser={parser}"] if parser else []),
    ]


def neuron_command(
    experiment: NeuronExperiment, paths: ModelPaths, *own: str, **environment: str
) -> ServingCommand:
    """What every dialect on Neuron devices says in the same words, then the dialect's own."""
    serving = experiment.serving
    # Two names for one setting: NxD Inference reads the first, older runtimes the second.
    # NEURON_RT_VISIBLE_CORES is left alone: with DRA the claim decides which devices are visible.
    lnc = str(serving.lnc)
    return ServingCommand(
        arguments=(
            *common_arguments(experiment, paths),
            f"--port={SERVING_PORT}",
            f"--tensor-parallel-size={serving.tensor_parallel_size}",
            *own,
        ),
        environment={
            "NEURON_LOGICAL_NC_CONFIG": lnc,
            "NEURON_RT_VIRTUAL_CORE_SIZE": lnc,
            **experiment.release_facts.environment,
            **_without_efa(experiment),
            **environment,
        },
    )


def _without_efa(experiment: NeuronExperiment) -> dict[str, str]:
    """Unless told not to, vLLM Neuron's workers bind to the EFA device beside theirs, and end with
    FileNotFoundError where there is none (vllm_neuron, neuron_worker.py)."""
    return {} if experiment.accelerator.efa_interfaces else {"NEURON_SKIP_EFA_AFFINITY": "1"}


def engine_settings(experiment: NeuronExperiment, variant: Variant) -> dict[str, Any]:
    """What only the variant's method wants, by the catalogue; nothing for the baseline."""
    if not isinstance(variant, Speculative):
        return {}
    return dict(experiment.release_facts.methods[variant.method].engine_settings)


def speculative_config(variant: Variant, paths: ModelPaths, **own: Any) -> list[str]:
    """The flag with the draft, the window and the dialect's own settings; none for the baseline."""
    if not isinstance(variant, Speculative):
        return []
    settings = {"model": paths.draft, "num_speculative_tokens": variant.window, **own}
    return [json_flag(SPECULATIVE_CONFIG, settings)]


def per_request_acceptance(experiment: Experiment, variant: Variant) -> list[str]:
    """The flag with which a server tells what became of each request's drafts, where it can.

    On the speculative side alone: without `--speculative-config` vLLM refuses to start with it.
    """
    tells = experiment.release_facts.per_request_acceptance and isinstance(variant, Speculative)
    return [f"{PER_REQUEST_ACCEPTANCE}=summary"] * tells


def json_flag(flag: str, value: Mapping[str, Any]) -> str:
    """`--flag={...}`, the same text for the same value."""
    return f"{flag}={json.dumps(value, sort_keys=True, separators=(',', ':'))}"
