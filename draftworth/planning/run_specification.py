"""From an experiment to the run specification that the load generator reads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from draftworth.experiment.model import (
    Baseline,
    Experiment,
    LadderLoad,
    LocalExperiment,
    PoissonLoad,
    Variant,
    Workload,
)
from draftworth.experiment.placement import place
from draftworth.experiment.rules import prompt_files
from draftworth.measuring.run_specification import Endpoint, RequestShape, RunSpec, Sampling
from draftworth.records.prompts import load_case
from draftworth.records.results import Load, Price
from draftworth.serving.dialects import served_model_name


def run_spec(
    experiment: Experiment,
    experiment_path: Path,
    *,
    base_urls: Mapping[str, str],
    ready_deadline_seconds: float | None,
) -> RunSpec:
    """The run specification; `base_urls` gives each variant's server, without `/v1`."""
    work = experiment.workload
    return RunSpec(
        experiment=experiment.name,
        endpoints=tuple(
            Endpoint(
                variant=variant.name,
                base_url=base_urls[variant.name],
                max_tokens_per_step=max_tokens_per_step(experiment, variant),
                is_baseline=isinstance(variant, Baseline),
            )
            for variant in experiment.variants
        ),
        shape=RequestShape(
            model=served_model_name(experiment),
            output_tokens=work.output_tokens,
            fixed_output_length=work.fixed_output_length,
            temperature=float(work.temperature),
            seed=work.seed,
            enable_thinking=work.enable_thinking,
            timeout_seconds=work.request_timeout_seconds,
        ),
        cases=tuple(
            load_case(file, prompt_class=file.parent.name)
            for file in prompt_files(experiment, experiment_path)
        ),
        loads=loads(work),
        sampling=sampling(work),
        parallel=work.parallel,
        class_weights=class_weights(work),
        price=price(experiment),
        ready_deadline_seconds=ready_deadline_seconds,
    )


def max_tokens_per_step(experiment: Experiment, variant: Variant) -> int:
    """Most output tokens a step can yield: 1 for the baseline, else by the release's semantics."""
    if isinstance(variant, Baseline):
        return 1
    return experiment.release_facts.methods[variant.method].max_tokens_per_step(variant.window)


def sampling(work: Workload) -> Sampling:
    """How many requests a run sends."""
    return Sampling(
        requests_per_round=work.requests_per_round,
        min_requests=work.min_requests,
        max_requests=work.max_requests,
        target_interval_width=work.target_interval_width,
        warmup_requests=work.warmup_requests,
    )


def loads(work: Workload) -> tuple[Load, ...]:
    """The load shapes to measure, one after the other."""
    load = work.load
    if isinstance(load, PoissonLoad):
        rate = load.requests_per_second
        return (Load(kind="poisson", concurrency=0, requests_per_second=rate),)
    rungs = load.concurrencies if isinstance(load, LadderLoad) else (load.concurrency,)
    return tuple(Load(kind="concurrency", concurrency=n, requests_per_second=None) for n in rungs)


def class_weights(work: Workload) -> dict[str, float]:
    """Each class's part of the traffic; the parts add up to 1."""
    total = sum(c.weight for c in work.classes)
    return {c.name: c.weight / total for c in work.classes}


def price(experiment: Experiment) -> Price | None:
    """What the slots cost; None where nothing is rented."""
    if isinstance(experiment, LocalExperiment):
        return None
    stated, placement = experiment.aws.price, place(experiment)
    return Price(
        usd_per_node_hour=stated.usd_per_hour,
        as_of=stated.as_of.isoformat(),
        source=stated.source,
        node_shares={slot.variant: placement.node_share(slot) for slot in placement.slots},
        nodes=placement.nodes,
    )
