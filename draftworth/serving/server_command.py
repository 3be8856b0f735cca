"""Arguments and environment of `vllm serve` for ONE variant, as far as all engines share them.

A variant adds only what speculation needs: `--speculative-config` and, for some engines, further
settings and a flag with which the server counts accepted tokens. Variants differ in nothing else.
Settings whose defaults depend on speculation are set explicitly for all variants except the
baseline as shipped, which keeps the engine's defaults.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from draftworth.experiment.model import Experiment, NeuronExperiment
from draftworth.experiment.variants import Variant
from draftworth.records.servers import COMPILE_LIMIT_MINUTES

SERVING_PORT = 8000
# Values by flag, in the order of the command line; None: the flag takes no value.
Flags = Mapping[str, str | None]
# The default of vLLM 0.10.1 and later, but set explicitly: prompts must not be in a pod's log.
REQUESTS_NOT_LOGGED = "--no-enable-log-requests"
# By default vLLM reads sampling parameters that a request leaves out from the model's
# generation_config.json: top_k 20 and top_p 0.95 for Qwen3, a repetition penalty for Qwen2.5, a
# limit on new tokens. Outputs would then not be samples of the model's own distribution, against
# which they are checked. This flag prevents that; vLLM still reads the end token ids from the file
# (vLLM, ModelConfig.generation_config).
NO_GENERATION_DEFAULTS: Flags = {"--generation-config": "vllm"}
SPECULATIVE_CONFIG = "--speculative-config"
PER_REQUEST_ACCEPTANCE = "--per-request-spec-decode-metrics"
# vLLM 0.13 and later wait 600 s for the engine by default. So far this limit does not apply while
# the engine starts. With an open pull request (vllm-project/vllm, 50039) it would, and a longer
# compilation would be ended. vLLM 0.9.1 ignores the variable.
ENGINE_READY_TIMEOUT: Mapping[str, str] = {
    "VLLM_ENGINE_READY_TIMEOUT_S": str(60 * COMPILE_LIMIT_MINUTES)
}


@dataclass(frozen=True, kw_only=True)
class ModelPaths:
    """Paths of the checkpoints, as the serving process sees them."""

    target: str = "/models/target"
    # The path must not name the method: the 0.9.1 fork uses EAGLE if a path contains "eagle-".
    draft: str = "/models/draft"


@dataclass(frozen=True, kw_only=True)
class ServingCommand:
    """`vllm serve MODEL` with its flags, and the environment variables that it needs."""

    model: str
    flags: Flags
    environment: Mapping[str, str]

    @property
    def arguments(self) -> tuple[str, ...]:
        return (self.model, *flag_texts(self.flags))


def flag_texts(flags: Flags) -> list[str]:
    """Return the flags as arguments of a command line: `--flag=value`, or `--flag` alone."""
    return [flag if value is None else f"{flag}={value}" for flag, value in flags.items()]


def served_model_name(experiment: Experiment) -> str:
    """Return the model name that all servers share, so clients send the same body to each."""
    if isinstance(experiment, NeuronExperiment):
        return experiment.target.model
    return experiment.name


def common_flags(experiment: Experiment) -> dict[str, str | None]:
    """Return the server's flags that every dialect writes alike.

    A dialect is how one of the engines (such as vLLM Neuron) takes its settings.
    """
    serving = experiment.serving
    flags: dict[str, str | None] = {
        "--served-model-name": served_model_name(experiment),
        "--max-num-seqs": str(serving.max_num_seqs),
        "--max-model-len": str(serving.max_model_len),
        **NO_GENERATION_DEFAULTS,
    }
    if serving.tool_call_parser:
        flags["--enable-auto-tool-choice"] = None
        flags["--tool-call-parser"] = serving.tool_call_parser
    return flags


class NeuronDialect:
    """Base class of the dialects of Neuron servers: how each engine takes its settings.

    The catalogue of releases names the dialect of each release.
    VERSION: a part of the artifact key. It must be increased when this code sets a flag differently
        and the compiled graph changes thereby.
    """

    VERSION = 1

    def settings(self, experiment: NeuronExperiment) -> dict[str, Any]:
        """Return engine settings that follow from the experiment and that all variants share."""
        raise NotImplementedError

    def shared_flags(self, experiment: NeuronExperiment) -> Flags:  # noqa: ARG002 (of a dialect)
        """Return flags, equal for all variants, that affect the compiled graph or the scheduler."""
        return {}

    def variant_flags(
        self, experiment: NeuronExperiment, variant: Variant, config: dict[str, Any]
    ) -> Flags:
        raise NotImplementedError

    def config_of(self, experiment: NeuronExperiment, variant: Variant) -> dict[str, Any]:
        config = {**experiment.release_facts.engine_settings, **self.settings(experiment)}
        return _kept(config, experiment, variant) | experiment.serving.neuron_config

    def flags_of(self, experiment: NeuronExperiment, variant: Variant) -> Flags:
        return _kept(self.shared_flags(experiment), experiment, variant)

    def command(self, experiment: NeuronExperiment, variant: Variant) -> ServingCommand:
        config = self.config_of(experiment, variant)
        if variant.window is not None:
            config |= experiment.release_facts.methods[variant.method].engine_settings
        lnc = str(experiment.serving.lnc)
        return ServingCommand(
            model=ModelPaths().target,
            flags={
                **common_flags(experiment),
                "--port": str(SERVING_PORT),
                "--tensor-parallel-size": str(experiment.tensor_parallel_size),
                **self.variant_flags(experiment, variant, config),
            },
            # NEURON_RT_VISIBLE_CORES is not set: with DRA the resource claim decides which devices
            # are visible.
            environment={
                # NxD Inference reads the first variable, older Neuron runtimes the second.
                "NEURON_LOGICAL_NC_CONFIG": lnc,
                "NEURON_RT_VIRTUAL_CORE_SIZE": lnc,
                **ENGINE_READY_TIMEOUT,
                **experiment.release_facts.environment,
            },
        )


def _kept(
    settings: Mapping[str, Any], experiment: NeuronExperiment, variant: Variant
) -> dict[str, Any]:
    """Return those of `settings` that the variant's command sets.

    The baseline as shipped leaves out the settings whose defaults depend on whether the engine
    speculates. Every other variant sets all of them.
    """
    left_out = experiment.release_facts.depends_on_speculation
    kept = {name: value for name, value in settings.items() if name not in left_out}
    return kept if variant.keeps_engine_defaults else dict(settings)


def speculation_flags(
    experiment: Experiment,
    variant: Variant,
    draft: str = ModelPaths().draft,
    **dialect_settings: Any,
) -> Flags:
    """Return `--speculative-config`, with the flag that counts accepted drafts if there is one.

    The result is empty for a variant without speculation. draft: the path of the draft's folder.
    dialect_settings: keys of the configuration besides those of the draft and the window.
    """
    if variant.window is None:
        return {}
    settings = {
        **variant.engine_settings(draft),
        "num_speculative_tokens": variant.window,
        **dialect_settings,
    }
    counts = experiment.release_facts.per_request_acceptance
    counted = {PER_REQUEST_ACCEPTANCE: "summary"} if counts else {}
    return {SPECULATIVE_CONFIG: json_text(settings), **counted}


def json_text(value: Mapping[str, Any]) -> str:
    """Return canonical JSON: equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
