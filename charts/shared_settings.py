"""What all vLLM servers of an experiment have in common, whatever their variant and slot."""

from collections.abc import Mapping
from dataclasses import dataclass

from charts.bindings import Bindings
from charts.bucket_volumes import BucketVolume, artifacts_volume, target_volume
from charts.slot_resources import SlotResources, slot_resources
from draftworth.experiment.catalog import ArtifactFolder, CompilerCache
from draftworth.planning.resolved import ResolvedNeuron


@dataclass(frozen=True, kw_only=True)
class SharedSettings:
    """Settings that no variant can change.

    experiment: the experiment's name. devices: how many Neuron devices each server has.
    target, artifacts: the volumes with the target model and with the compiled graphs.
    engine_environment: variables of vLLM and its engine, {variable: value}.
    graph_flags: flags of `start` (the program that starts vLLM in the pod) that say where the
        engine looks for compiled graphs.
    starts_with_compiler_failure: after how many starts `start` gives a server up on its node if the
        compiler fails.
    rerun: a number that a user raises to measure an unchanged experiment once more.
    """

    experiment: str
    image: str
    instance_type: str
    devices: int
    resources: SlotResources
    target: BucketVolume
    artifacts: BucketVolume
    region: str
    results_bucket: str
    artifacts_bucket: str
    engine_environment: Mapping[str, str]
    graph_flags: tuple[str, ...]
    starts_with_compiler_failure: int
    rerun: int


def shared_settings(experiment: ResolvedNeuron, bindings: Bindings) -> SharedSettings:
    """Return the settings of all servers of an experiment."""
    spec = experiment.spec
    return SharedSettings(
        experiment=experiment.name,
        image=spec.image,
        instance_type=spec.instance_type,
        devices=spec.serving.slot_devices,
        resources=slot_resources(experiment),
        target=target_volume(experiment, bindings),
        artifacts=artifacts_volume(experiment, bindings),
        region=bindings.region,
        results_bucket=bindings.results_bucket,
        artifacts_bucket=bindings.artifacts_bucket,
        engine_environment=engine_environment(experiment),
        graph_flags=_graph_flags(experiment),
        # After two failures another node is more likely to help than a third start on this node; a
        # Capacity Block has no other node.
        starts_with_compiler_failure=3 if spec.aws.capacity.kind == "capacity_block" else 2,
        rerun=spec.rerun,
    )


def engine_environment(experiment: ResolvedNeuron) -> dict[str, str]:
    """Return the variables of vLLM and its engine, which are equal for all variants."""
    return {
        # All files are local: the engine needs no model hub. It sends no usage statistics.
        "DO_NOT_TRACK": "1",
        "HF_HUB_OFFLINE": "1",
        "PYTHONUNBUFFERED": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "BASE_COMPILE_WORK_DIR": "/scratch/compile-work/",
        "NEURON_COMPILE_CACHE_URL": "/scratch/compile-cache",
        **experiment.baseline.command.environment,
    }


def _graph_flags(experiment: ResolvedNeuron) -> tuple[str, ...]:
    match experiment.spec.release_facts.compiled_graphs:
        case ArtifactFolder(variable=variable):
            return (f"--artifact-folder={variable}",)
        case CompilerCache(variable=variable, folder=folder, proof_variable=proof):
            flags = ("--compiler-cache", variable, folder)
            return (*flags, f"--proof={proof}") if proof else flags
        case None:
            raise ValueError(
                f"{experiment.spec.release}: the catalogue says that it compiles nothing"
            )
