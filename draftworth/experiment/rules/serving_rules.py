"""Rules of the section `serving`: devices and cores per server, lengths, engine settings."""

from collections.abc import Iterator

from draftworth.errors import Problem
from draftworth.experiment.model import Experiment, NeuronExperiment
from draftworth.experiment.rules.registry import neuron_rule, rule

# The settings of NxD Inference that the experiment's key `serving.buckets` determines.
BUCKET_SETTINGS = {"context_encoding_buckets", "token_generation_buckets"}


@rule("lengths-fit")
def _lengths_fit(experiment: Experiment) -> Iterator[Problem]:
    work, limit = experiment.workload, experiment.serving.max_model_len
    total = work.most_input_tokens + work.output_tokens
    if total > limit:
        yield Problem(
            key=("serving", "max_model_len"),
            actual=f"{limit} with workload.input_tokens {work.most_input_tokens} + "
            f"workload.output_tokens {work.output_tokens} = {total}",
            allowed=f"{total} or more; or workload.input_tokens, if a tokenizer counts fewer",
            reason="the engine refuses or cuts requests longer than max_model_len",
        )


@neuron_rule("buckets-are-known-to-the-engine")
def _buckets_are_known_to_the_engine(experiment: NeuronExperiment) -> Iterator[Problem]:
    serving, dialect = experiment.serving, experiment.release_facts.dialect
    if serving.buckets == "engine":
        return
    if not dialect.endswith("_nxdi"):
        yield Problem(
            key=("serving", "buckets"),
            actual=f'"{serving.buckets}" on release {experiment.release}',
            allowed="engine",
            reason="only images with NxD Inference have these settings",
        )
    for name in serving.neuron_config.keys() & BUCKET_SETTINGS:
        yield Problem(
            key=("serving", "neuron_config", name),
            actual=f"a value, with serving.buckets {serving.buckets}",
            allowed="serving.buckets, or this setting with serving.buckets engine",
            reason="both set the lengths that graphs are compiled for",
        )


@neuron_rule("slot-is-connected")
def _slot_is_connected(experiment: NeuronExperiment) -> Iterator[Problem]:
    devices, legal = experiment.serving.slot_devices, experiment.accelerator.legal_slot_devices
    if devices not in legal:
        yield Problem(
            key=("serving", "slot_devices"),
            actual=str(devices),
            allowed=f"{', '.join(map(str, legal))} on {experiment.instance_type}",
            reason="no other number of a node's devices is connected to each other",
        )


@neuron_rule("lnc-is-one-that-runs")
def _lnc_is_one_that_runs(experiment: NeuronExperiment) -> Iterator[Problem]:
    lnc, release = experiment.serving.lnc, experiment.release_facts
    allowed = release.lnc or experiment.accelerator.legal_lnc
    if lnc in allowed:
        return
    reason = "a logical NeuronCore is one or two physical ones"
    if release.lnc is not None:
        reason = (
            f"the decode kernels of this image (vLLM {release.vllm_version}) are written for it: "
            "with another size a server likely never starts"
        )
    yield Problem(
        key=("serving", "lnc"),
        actual=f"{lnc} on release {experiment.release}",
        allowed=" or ".join(map(str, allowed)),
        reason=reason,
    )


@neuron_rule("dflash-is-in-bf16")
def _dflash_is_in_bf16(experiment: NeuronExperiment) -> Iterator[Problem]:
    quantization = experiment.serving.neuron_config.get("quantization", "bf16")
    if experiment.uses("dflash") and quantization != "bf16":
        yield Problem(
            key=("serving", "neuron_config", "quantization"),
            actual=str(quantization),
            allowed="bf16, or leave the key out",
            reason="DFlash is validated with target, draft and KV cache in BF16 only",
        )
