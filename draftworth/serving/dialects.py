"""Dialects of the command line: one module each, under the catalogue's name.

Sources are named in the modules; `docs/decisions/0004-fair-flags.md` lists the settings that could
not be confirmed without the hardware.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from draftworth.experiment.model import Experiment, LocalExperiment, NeuronExperiment
from draftworth.experiment.variants import Variant
from draftworth.serving import neuron_v0_nxdi, neuron_v1_nxdi, vllm_cpu, vllm_neuron
from draftworth.serving.command import (
    Flags,
    ModelPaths,
    ServingCommand,
    engine_settings,
)


class NeuronDialect(Protocol):
    """The attributes of a dialect's module."""

    @property
    def VERSION(self) -> int:  # noqa: N802 (a module's constant)
        """Raised whenever the flags change the compiled graph: a part of the artifact key."""

    @property
    def SPECULATION_DEPENDENT_DEFAULTS(self) -> tuple[str, ...]:  # noqa: N802
        """Settings of all variants whose defaults differ with speculation: flags, or keys."""

    def shared_config(self, experiment: NeuronExperiment) -> dict[str, Any]:
        """Return the engine settings of every variant, with the experiment's own."""

    def shared_flags(self, experiment: NeuronExperiment) -> Flags:
        """Return the flags of every variant that affect the graph or the scheduler."""

    def command(
        self,
        experiment: NeuronExperiment,
        variant: Variant,
        paths: ModelPaths,
        config: dict[str, Any],
        flags: Flags,
    ) -> ServingCommand:
        """Return the command of one variant's server.

        config: the shared settings and those of the variant's method. flags: the shared ones.
        """


NEURON_DIALECTS: Mapping[str, NeuronDialect] = {
    "neuron_v0_nxdi": neuron_v0_nxdi,
    "neuron_v1_nxdi": neuron_v1_nxdi,
    "vllm_neuron": vllm_neuron,
}


def neuron_dialect(experiment: NeuronExperiment) -> NeuronDialect:
    """Return the dialect of the experiment's release."""
    return NEURON_DIALECTS[experiment.release_facts.dialect]


def shared_config(experiment: NeuronExperiment, variant: Variant) -> dict[str, Any]:
    """Return the shared engine settings that a variant gets."""
    config = neuron_dialect(experiment).shared_config(experiment)
    own = experiment.serving.neuron_config
    left_out = _left_out(experiment, variant) - own.keys()
    return {key: value for key, value in config.items() if key not in left_out}


def shared_flags(experiment: NeuronExperiment, variant: Variant) -> Flags:
    """Return the shared flags that a variant gets."""
    flags = neuron_dialect(experiment).shared_flags(experiment)
    left_out = _left_out(experiment, variant)
    return {flag: value for flag, value in flags.items() if flag not in left_out}


def _left_out(experiment: NeuronExperiment, variant: Variant) -> set[str]:
    if not variant.keeps_engine_defaults:
        return set()
    return set(neuron_dialect(experiment).SPECULATION_DEPENDENT_DEFAULTS)


def serving_command(experiment: Experiment, variant: Variant, paths: ModelPaths) -> ServingCommand:
    """Return the command of one variant, in the dialect of the experiment's release."""
    if isinstance(experiment, LocalExperiment):
        return vllm_cpu.command(experiment, variant, paths)
    config = {**shared_config(experiment, variant), **engine_settings(experiment, variant)}
    return neuron_dialect(experiment).command(
        experiment, variant, paths, config, shared_flags(experiment, variant)
    )
