"""Makes the run specification of an experiment: what the measuring Job must do, as data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from draftworth.experiment.model import NeuronExperiment
from draftworth.experiment.workload import Workload
from draftworth.measuring import run_specification
from draftworth.planning import resolved
from draftworth.records.results import Limits
from draftworth.records.servers import Decoding, ServingFacts
from draftworth.serving.server_command import served_model_name


@dataclass(frozen=True, kw_only=True)
class Server:
    """A server of a variant, as an `Endpoint` of the run specification describes it.

    slot: which group of devices it runs on, numbered over all nodes from 0; None: not known.
    name: the name by which the run starts and stops the server; empty: the run does neither.
    """

    base_url: str
    slot: int | None = None
    name: str = ""


def run_spec(
    experiment: resolved.ResolvedExperiment,
    *,
    servers: Mapping[str, Sequence[Server]],
    ready_deadline_seconds: float | None,
    start_allowance_seconds: float | None = None,
) -> run_specification.RunSpec:
    """Return the run specification of an experiment; `RunSpec` explains the two `*_seconds` limits.

    servers: by variant, the variant's servers; the server in its first slot comes first.
    """
    work = experiment.spec.workload
    all_weights = sum(c.weight for c in work.classes)
    return run_specification.RunSpec(
        experiment=experiment.name,
        endpoints=tuple(
            run_specification.Endpoint(
                variant=variant.name,
                base_url=server.base_url,
                max_tokens_per_step=variant.max_tokens_per_step,
                is_baseline=variant.is_baseline,
                slot=server.slot,
                server=server.name,
            )
            for variant in experiment.variants
            for server in servers[variant.name]
        ),
        shape=run_specification.RequestShape(
            model=served_model_name(experiment.spec),
            output_tokens=work.output_tokens,
            fixed_output_length=work.fixed_output_length,
            temperature=float(work.temperature),
            seed=work.seed,
            enable_thinking=work.enable_thinking,
            timeout_seconds=work.request_timeout_seconds,
            token_ids=work.token_ids,
        ),
        cases=experiment.cases,
        loads=experiment.loads,
        load_generator=work.load_generator,
        sampling=sampling(work),
        parallel=work.parallel,
        limits=limits(work),
        class_weights={c.name: c.weight / all_weights for c in work.classes},
        price=experiment.price,
        ready_deadline_seconds=ready_deadline_seconds,
        start_allowance_seconds=start_allowance_seconds,
        serving=serving_facts(experiment),
        repetitions=experiment.spec.repetitions,
        control=experiment.spec.control,
        search=experiment.search,
    )


def serving_facts(experiment: resolved.ResolvedExperiment) -> ServingFacts:
    """Return the engine, models, devices and decoding methods of an experiment's servers.

    They become a part of the results, which may be read without the experiment file.
    """
    spec, release = experiment.spec, experiment.spec.release_facts
    neuron = spec if isinstance(spec, NeuronExperiment) else None
    return ServingFacts(
        release=spec.release,
        platform=release.platform,
        image=neuron.image if neuron else None,
        vllm_version=release.vllm_version,
        target_model=spec.target.id_or_path,
        target_revision=neuron.target.revision if neuron else None,
        instance_type=neuron.instance_type if neuron else None,
        tensor_parallel_size=neuron.tensor_parallel_size if neuron else None,
        lnc=neuron.serving.lnc if neuron else None,
        slot_devices=neuron.serving.slot_devices if neuron else None,
        max_num_seqs=spec.serving.max_num_seqs,
        max_model_len=spec.serving.max_model_len,
        decoding={variant.name: _decoding(variant) for variant in experiment.variants},
    )


def _decoding(variant: resolved.ResolvedVariant) -> Decoding:
    return Decoding(
        method=variant.spec.method,
        window=variant.spec.window,
        draft=variant.draft,
        draft_revision=hub.revision if (hub := variant.spec.hub_draft) else None,
        artifact_key=variant.artifact_key if isinstance(variant, resolved.NeuronVariant) else None,
    )


def limits(work: Workload) -> Limits:
    """Return the latency and failure limits of the workload; latencies are in seconds."""
    in_milliseconds = work.limits
    milliseconds = (
        in_milliseconds.ttft_p95_ms,
        in_milliseconds.itl_p95_ms,
        in_milliseconds.e2e_p95_ms,
    )
    ttft, itl, e2e = (None if limit is None else limit / 1e3 for limit in milliseconds)
    failed = in_milliseconds.failures_percent / 100
    return Limits(ttft_p95_s=ttft, itl_p95_s=itl, e2e_p95_s=e2e, failed_share=failed)


def sampling(work: Workload) -> run_specification.Sampling:
    """Return the settings that decide how many requests a run sends, copied from the workload."""
    return run_specification.Sampling(
        **{field.name: getattr(work, field.name) for field in fields(run_specification.Sampling)}
    )
