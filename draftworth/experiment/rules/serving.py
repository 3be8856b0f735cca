"""Rules of serving: slots that exist, cores that are used, lengths that fit."""

from collections.abc import Iterator, Sequence

from draftworth.errors import Problem, counted
from draftworth.experiment.catalog import Accelerator
from draftworth.experiment.model import Experiment, NeuronExperiment
from draftworth.experiment.placement import place

# The settings of NxD Inference that `serving.buckets` sets.
BUCKET_SETTINGS = {"context_encoding_buckets", "token_generation_buckets"}
# The most nodes for which node group, placement group and Capacity Block are planned.
MAX_NODES = 8


def _lengths_fit(experiment: Experiment) -> Iterator[Problem]:
    work, limit = experiment.workload, experiment.serving.max_model_len
    total = work.most_input_tokens + work.output_tokens
    if total > limit:
        yield Problem(
            key=("serving", "max_model_len"),
            given=f"{limit} with workload.input_tokens {work.most_input_tokens} + "
            f"workload.output_tokens {work.output_tokens} = {total}",
            allowed=f"{total} or more",
            reason="the engine refuses or cuts requests longer than max_model_len",
        )


def _buckets_are_known_to_the_engine(experiment: NeuronExperiment) -> Iterator[Problem]:
    serving, dialect = experiment.serving, experiment.release_facts.dialect
    if serving.buckets == "engine":
        return
    if not dialect.endswith("_nxdi"):
        yield Problem(
            key=("serving", "buckets"),
            given=f'"{serving.buckets}" on release {experiment.release}',
            allowed="engine",
            reason="only images with NxD Inference have these settings",
        )
    for name in serving.neuron_config.keys() & BUCKET_SETTINGS:
        yield Problem(
            key=("serving", "neuron_config", name),
            given=f"a value, with serving.buckets {serving.buckets}",
            allowed="serving.buckets, or this setting with serving.buckets engine",
            reason="both set the lengths that graphs are compiled for",
        )


def _slot_is_connected(experiment: NeuronExperiment) -> Iterator[Problem]:
    serving, instance, lncs = experiment.serving, experiment.accelerator, _allowed_lnc(experiment)
    if serving.slot_devices not in instance.legal_slot_devices:
        sizes = _fitting_sizes(instance, [serving.lnc] if serving.lnc in lncs else lncs)
        yield Problem(
            key=("serving", "slot_devices"),
            given=str(serving.slot_devices),
            allowed=f"{', '.join(map(str, instance.legal_slot_devices))} on "
            f"{experiment.instance_type}, with {sizes}",
            reason="no other number of a node's devices is connected to each other",
        )


def _lnc_is_one_that_runs(experiment: NeuronExperiment) -> Iterator[Problem]:
    given, allowed = experiment.serving.lnc, _allowed_lnc(experiment)
    if given in allowed:
        return
    release = experiment.release_facts
    reason = "a logical NeuronCore is one or two physical ones"
    if release.lnc is not None:
        reason = (
            f"the decode kernels of this image (vLLM {release.vllm_version}) are written for it: "
            "with another size a server likely never starts"
        )
    yield Problem(
        key=("serving", "lnc"),
        given=f"{given} on release {experiment.release}",
        allowed=f"{' or '.join(map(str, allowed))}, with "
        f"{_fitting_sizes(experiment.accelerator, allowed)}",
        reason=reason,
    )


def _allowed_lnc(experiment: NeuronExperiment) -> Sequence[int]:
    return experiment.release_facts.lnc or experiment.accelerator.legal_lnc


def _fitting_sizes(instance: Accelerator, lncs: Sequence[int]) -> str:
    sizes = (
        f"{instance.logical_cores(devices=devices, lnc=lnc)} on {counted(devices, 'device')}"
        f"{f' at lnc {lnc}' if len(lncs) > 1 else ''}"
        for lnc in lncs
        for devices in instance.legal_slot_devices
    )
    return f"tensor_parallel_size {', '.join(sizes)}"


def _tensor_parallel_fills_the_slot(experiment: NeuronExperiment) -> Iterator[Problem]:
    serving, instance = experiment.serving, experiment.accelerator
    # If lnc or slot_devices is wrong, its own problem names the tensor_parallel_size to use.
    if serving.lnc not in _allowed_lnc(experiment):
        return
    if serving.slot_devices not in instance.legal_slot_devices:
        return
    cores = instance.logical_cores(devices=serving.slot_devices, lnc=serving.lnc)
    if serving.tensor_parallel_size != cores:
        per_device = instance.logical_cores(devices=1, lnc=serving.lnc)
        yield Problem(
            key=("serving", "tensor_parallel_size"),
            given=str(serving.tensor_parallel_size),
            allowed=f"{cores} = slot_devices {serving.slot_devices} x {per_device} logical cores a "
            f"device at lnc {serving.lnc}",
            reason="cores of a slot that the model does not span are paid for and idle, and a "
            "model cannot span more than its slot",
        )


def _dflash_is_in_bf16(experiment: NeuronExperiment) -> Iterator[Problem]:
    given = experiment.serving.neuron_config.get("quantization", "bf16")
    if experiment.uses("dflash") and given != "bf16":
        yield Problem(
            key=("serving", "neuron_config", "quantization"),
            given=str(given),
            allowed="bf16, or leave the key out",
            reason="DFlash is validated with target, draft and KV cache in BF16 only",
        )


def _nodes_fit_the_plan(experiment: NeuronExperiment) -> Iterator[Problem]:
    if experiment.serving.slot_devices not in experiment.accelerator.legal_slot_devices:
        return
    placement = place(experiment)
    nodes = placement.nodes
    if nodes > MAX_NODES:
        per_node = experiment.accelerator.devices // experiment.serving.slot_devices
        yield Problem(
            key=("variants",),
            given=f"{placement.held} variants = {nodes} nodes",
            allowed=f"at most {MAX_NODES * per_node} variants ({MAX_NODES} nodes)",
            reason="every variant holds a slot for the whole run; split the experiment",
        )


COMMON = (_lengths_fit,)
NEURON = (
    _buckets_are_known_to_the_engine,
    _slot_is_connected,
    _lnc_is_one_that_runs,
    _tensor_parallel_fills_the_slot,
    _dflash_is_in_bf16,
    _nodes_fit_the_plan,
)
