"""The dialects by the names that the catalogue gives them: one module each.

How each release's command line says the same thing. A module of Neuron's has `VERSION` (raised
whenever its output changes the compiled graph: part of the artifact key), `shared_config` (engine
settings that every variant gets) and `command`. Sources stand in the modules; what could not be
confirmed without the hardware is listed in `docs/decisions/0004-fair-flags.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from draftworth.experiment.model import Experiment, LocalExperiment, NeuronExperiment
from draftworth.experiment.variants import Variant
from draftworth.serving import neuron_v0_nxdi, neuron_v1_nxdi, vllm_cpu, vllm_neuron
from draftworth.serving.command import ModelPaths, ServingCommand, engine_settings


class NeuronDialect(Protocol):
    """What a dialect's module has."""

    @property
    def VERSION(self) -> int:  # noqa: N802 (a module's constant)
        """Raised whenever the output changes the compiled graph."""

    def shared_config(self, experiment: NeuronExperiment) -> dict[str, Any]:
        """Engine settings that every variant gets, the experiment's own on top."""

    def command(
        self,
        experiment: NeuronExperiment,
        variant: Variant,
        paths: ModelPaths,
        config: dict[str, Any],
    ) -> ServingCommand:
        """One variant's server; `config`: the shared settings and those of the variant's method."""


NEURON_DIALECTS: Mapping[str, NeuronDialect] = {
    "neuron_v0_nxdi": neuron_v0_nxdi,
    "neuron_v1_nxdi": neuron_v1_nxdi,
    "vllm_neuron": vllm_neuron,
}


def neuron_dialect(experiment: NeuronExperiment) -> NeuronDialect:
    """The dialect of the experiment's release."""
    return NEURON_DIALECTS[experiment.release_facts.dialect]


def serving_command(experiment: Experiment, variant: Variant, paths: ModelPaths) -> ServingCommand:
    """What to run for one variant, in the dialect of the experiment's release."""
    if isinstance(experiment, LocalExperiment):
        return vllm_cpu.command(experiment, variant, paths)
    dialect = neuron_dialect(experiment)
    config = {**dialect.shared_config(experiment), **engine_settings(experiment, variant)}
    return dialect.command(experiment, variant, paths, config)
