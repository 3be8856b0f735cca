"""Serving: slots that exist, cores that are used, lengths that fit."""

from __future__ import annotations

from collections.abc import Iterator

from draftworth.errors import Problem
from draftworth.experiment.model import Experiment, NeuronExperiment
from draftworth.experiment.placement import place

# A node group, a placement group and a Capacity Block are planned for this many nodes at most.
MAX_NODES = 8


def _lengths_fit(experiment: Experiment) -> Iterator[Problem]:
    work, limit = experiment.workload, experiment.serving.max_model_len
    total = work.input_tokens + work.output_tokens
    if total > limit:
        yield Problem(
            key=("serving", "max_model_len"),
            given=f"{limit} with workload.input_tokens {work.input_tokens} + "
            f"workload.output_tokens {work.output_tokens} = {total}",
            allowed=f"{total} or more",
            reason="the engine refuses or cuts requests longer than max_model_len",
        )


def _slot_is_connected(experiment: NeuronExperiment) -> Iterator[Problem]:
    serving, instance = experiment.serving, experiment.accelerator
    if serving.slot_devices not in instance.legal_slot_devices:
        yield Problem(
            key=("serving", "slot_devices"),
            given=str(serving.slot_devices),
            allowed=f"{', '.join(map(str, instance.legal_slot_devices))} on "
            f"{experiment.instance_type}",
            reason="only subsets of these sizes are connected in the node's torus",
        )
    if serving.lnc not in instance.legal_lnc:
        yield Problem(
            key=("serving", "lnc"),
            given=str(serving.lnc),
            allowed=" or ".join(map(str, instance.legal_lnc)),
            reason="a logical NeuronCore is one or two physical ones",
        )


def _release_runs_with_the_lnc(experiment: NeuronExperiment) -> Iterator[Problem]:
    given, runs_with = experiment.serving.lnc, experiment.release_facts.lnc
    if runs_with is not None and given not in runs_with:
        instance = experiment.accelerator
        sizes = (
            f"{instance.logical_cores(devices=devices, lnc=lnc)} on {devices}"
            for lnc in runs_with
            for devices in instance.legal_slot_devices
        )
        yield Problem(
            key=("serving", "lnc"),
            given=f"{given} on release {experiment.release}",
            allowed=f"{' or '.join(map(str, runs_with))}, with tensor_parallel_size "
            f"{', '.join(sizes)} devices",
            reason=f"the decode kernels of this image (vLLM {experiment.release_facts.vllm_version}"
            ") are written for it: with another size a server likely never starts",
        )


def _tensor_parallel_fills_the_slot(experiment: NeuronExperiment) -> Iterator[Problem]:
    serving, instance = experiment.serving, experiment.accelerator
    if serving.lnc not in instance.legal_lnc:
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
    nodes = place(experiment).nodes
    if nodes > MAX_NODES:
        per_node = experiment.accelerator.devices // experiment.serving.slot_devices
        yield Problem(
            key=("variants",),
            given=f"{len(experiment.served_variants)} variants = {nodes} nodes",
            allowed=f"at most {MAX_NODES * per_node} variants ({MAX_NODES} nodes)",
            reason="every variant holds a slot for the whole run; split the experiment",
        )


COMMON = (_lengths_fit,)
NEURON = (
    _slot_is_connected,
    _release_runs_with_the_lnc,
    _tensor_parallel_fills_the_slot,
    _dflash_is_in_bf16,
    _nodes_fit_the_plan,
)
