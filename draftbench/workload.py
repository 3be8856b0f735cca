"""From an experiment to the run specification that the load generator reads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from draftbench.dialects import served_model_name
from draftbench.experiment import Baseline, Experiment, Variant
from draftbench.measuring.runspec import Endpoint, RequestShape, RunSpec
from draftbench.prompts import load_case
from draftbench.rules import prompt_files


def run_spec(
    experiment: Experiment,
    experiment_path: Path,
    *,
    base_urls: Mapping[str, str],
    ready_deadline_seconds: float,
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
        concurrency=work.concurrency,
        requests_per_case=work.requests_per_case,
        warmup_requests=work.warmup_requests,
        ready_deadline_seconds=ready_deadline_seconds,
    )


def max_tokens_per_step(experiment: Experiment, variant: Variant) -> int:
    """Most output tokens a step can yield: 1 for the baseline, else by the release's semantics."""
    if isinstance(variant, Baseline):
        return 1
    return experiment.release_facts.methods[variant.method].max_tokens_per_step(variant.window)
