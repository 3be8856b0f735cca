"""The dialects by the names that the catalogue gives them: one module each.

How each release's command line says the same thing. A module of Neuron's has `VERSION` (raised
whenever its output changes the compiled graph: part of the artifact key), `shared_config` and
`shared_flags` (what every variant gets), `SPECULATION_DEPENDENT_DEFAULTS` and `command`. Sources
stand in the modules; what could not be confirmed without the hardware is listed in
`docs/decisions/0004-fair-flags.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from draftworth.experiment.model import Experiment, LocalExperiment, NeuronExperiment
from draftworth.experiment.variants import AsShipped, Variant
from draftworth.serving import neuron_v0_nxdi, neuron_v1_nxdi, vllm_cpu, vllm_neuron
from draftworth.serving.command import (
    DependentDefault,
    ModelPaths,
    ServingCommand,
    engine_settings,
)


class NeuronDialect(Protocol):
    """What a dialect's module has."""

    @property
    def VERSION(self) -> int:  # noqa: N802 (a module's constant)
        """Raised whenever the output changes the compiled graph."""

    @property
    def SPECULATION_DEPENDENT_DEFAULTS(self) -> tuple[DependentDefault, ...]:  # noqa: N802
        """What the engine would do in another way with speculation, and every variant is told."""

    def shared_config(self, experiment: NeuronExperiment) -> dict[str, Any]:
        """Engine settings that every variant gets, the experiment's own on top."""

    def shared_flags(self, experiment: NeuronExperiment) -> list[str]:
        """Flags of the dialect that reach the graph or the scheduler, for every variant."""

    def command(
        self,
        experiment: NeuronExperiment,
        variant: Variant,
        paths: ModelPaths,
        config: dict[str, Any],
        flags: list[str],
    ) -> ServingCommand:
        """One variant's server.

        config: the shared settings and those of the variant's method; flags: the shared ones.
        """


NEURON_DIALECTS: Mapping[str, NeuronDialect] = {
    "neuron_v0_nxdi": neuron_v0_nxdi,
    "neuron_v1_nxdi": neuron_v1_nxdi,
    "vllm_neuron": vllm_neuron,
}


def neuron_dialect(experiment: NeuronExperiment) -> NeuronDialect:
    """The dialect of the experiment's release."""
    return NEURON_DIALECTS[experiment.release_facts.dialect]


def shared_config(experiment: NeuronExperiment, variant: Variant) -> dict[str, Any]:
    """The shared engine settings as a variant gets them."""
    config = neuron_dialect(experiment).shared_config(experiment)
    own = experiment.serving.neuron_config
    left_out = _left_out(experiment, variant) - own.keys()
    return {key: value for key, value in config.items() if key not in left_out}


def shared_flags(experiment: NeuronExperiment, variant: Variant) -> list[str]:
    """The shared flags as a variant gets them."""
    flags = neuron_dialect(experiment).shared_flags(experiment)
    left_out = _left_out(experiment, variant)
    return [flag for flag in flags if flag.partition("=")[0] not in left_out]


def _left_out(experiment: NeuronExperiment, variant: Variant) -> set[str]:
    """Settings that are there for the sake of speculation, of the variant that goes without."""
    if not isinstance(variant, AsShipped):
        return set()
    return {d.setting for d in neuron_dialect(experiment).SPECULATION_DEPENDENT_DEFAULTS}


def serving_command(experiment: Experiment, variant: Variant, paths: ModelPaths) -> ServingCommand:
    """What to run for one variant, in the dialect of the experiment's release."""
    if isinstance(experiment, LocalExperiment):
        return vllm_cpu.command(experiment, variant, paths)
    config = {**shared_config(experiment, variant), **engine_settings(experiment, variant)}
    return neuron_dialect(experiment).command(
        experiment, variant, paths, config, shared_flags(experiment, variant)
    )
