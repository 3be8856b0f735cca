"""Makes the server's command line in the dialect of a release, and computes artifact keys.

A dialect is how the engine of a release takes its settings; the catalogue of releases names it. The
module of each dialect names its sources; `docs/decisions/0004-fair-flags.md` lists settings
that could not be confirmed without the hardware. An artifact key names a variant's folder of
compiled graphs. It is a hash of everything that changes the graphs, because an engine does not
check which flags a graph was compiled with (NxD Inference loads any graph that is in the folder).
"""

from collections.abc import Mapping
from typing import Any

from draftworth.experiment.model import Experiment, LocalExperiment, NeuronExperiment
from draftworth.experiment.naming import content_hash
from draftworth.experiment.variants import Variant
from draftworth.serving import nxdi, vllm_cpu, vllm_neuron
from draftworth.serving.server_command import ModelPaths, NeuronDialect, ServingCommand, flag_texts

NEURON_DIALECTS: Mapping[str, NeuronDialect] = {
    "neuron_v0_nxdi": nxdi.NeuronV0(),
    "neuron_v1_nxdi": nxdi.NeuronV1(),
    "vllm_neuron": vllm_neuron.VllmNeuron(),
}


def serving_command(
    experiment: Experiment, variant: Variant, paths: ModelPaths | None = None
) -> ServingCommand:
    """Return the command of one variant's server, in the dialect of the experiment's release.

    paths: where an engine on this machine finds the checkpoints. Pods always mount them at the
        default paths of `ModelPaths`.
    """
    if isinstance(experiment, LocalExperiment):
        return vllm_cpu.command(experiment, variant, paths or ModelPaths())
    return NEURON_DIALECTS[experiment.release_facts.dialect].command(experiment, variant)


KEY_LENGTH = 24


def artifact_inputs(experiment: NeuronExperiment, variant: Variant) -> dict[str, Any]:
    """Return everything that changes a variant's compiled graph, by name, and nothing else."""
    serving, release = experiment.serving, experiment.release_facts
    dialect = NEURON_DIALECTS[release.dialect]
    inputs: dict[str, Any] = {
        "image": experiment.image,
        # Other chips need another graph. No source says whether another instance type with the same
        # chips does too, but one compilation more costs less than a graph that does not load.
        "instance_type": experiment.instance_type,
        "dialect": release.dialect,
        "dialect_version": dialect.VERSION,
        "target": {"model": experiment.target.model, "revision": experiment.target.revision},
        "tensor_parallel_size": experiment.tensor_parallel_size,
        "lnc": serving.lnc,
        "max_num_seqs": serving.max_num_seqs,
        "max_model_len": serving.max_model_len,
        "neuron_config": dialect.config_of(experiment, variant),
        "method": variant.method,
    }
    if flags := dialect.flags_of(experiment, variant):
        inputs["flags"] = flag_texts(flags)
    if variant.window is not None:
        inputs["window"] = variant.window
    if draft := variant.hub_draft:
        inputs["draft"] = {"model": draft.model, "revision": draft.revision}
    return inputs


def artifact_key(inputs: Mapping[str, Any]) -> str:
    """Return the hash of `artifact_inputs` that names a graph's folder: 24 hex digits."""
    return content_hash(inputs, length=KEY_LENGTH)
