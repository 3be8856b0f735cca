"""Dialects of the command line by the catalogue's names; their modules name the sources.

`docs/decisions/0004-fair-flags.md` lists the settings that could not be confirmed without the
hardware.
"""

from collections.abc import Mapping

from draftworth.experiment.model import Experiment, LocalExperiment, NeuronExperiment
from draftworth.experiment.variants import Variant
from draftworth.serving import nxdi, vllm_cpu, vllm_neuron
from draftworth.serving.command import ModelPaths, NeuronDialect, ServingCommand

NEURON_DIALECTS: Mapping[str, NeuronDialect] = {
    "neuron_v0_nxdi": nxdi.NeuronV0(),
    "neuron_v1_nxdi": nxdi.NeuronV1(),
    "vllm_neuron": vllm_neuron.VllmNeuron(),
}


def neuron_dialect(experiment: NeuronExperiment) -> NeuronDialect:
    """Return the dialect of the experiment's release."""
    return NEURON_DIALECTS[experiment.release_facts.dialect]


def serving_command(
    experiment: Experiment, variant: Variant, paths: ModelPaths | None = None
) -> ServingCommand:
    """Return the command of one variant, in the dialect of the experiment's release.

    paths: those of a local engine's checkpoints; pods mount theirs at `ModelPaths()`.
    """
    if isinstance(experiment, LocalExperiment):
        return vllm_cpu.command(experiment, variant, paths or ModelPaths())
    return neuron_dialect(experiment).command(experiment, variant)
