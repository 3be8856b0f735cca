"""The ConfigMap that carries the run specification, and with it the prompts, to the pod."""

from __future__ import annotations

from typing import Any

from charts.names import base_url, content_name
from charts.pods import metadata
from draftworth.planning.resolved import ResolvedNeuron
from draftworth.planning.run_specification import run_spec
from draftworth.records.codec import dump_text

RUN_SPEC_FILE = "run-spec.json"


def run_spec_config_map(experiment: ResolvedNeuron) -> dict[str, Any]:
    """Properties of the ConfigMap, named by its content."""
    spec = run_spec(
        experiment,
        base_urls={variant.name: base_url(variant.name) for variant in experiment.variants},
        # The pod reads its deadline from a file: in here it would be part of the Job's content.
        ready_deadline_seconds=None,
    )
    text = dump_text(spec)
    name = content_name("llmperf-run", text)
    return {"metadata": metadata(name), "immutable": True, "data": {RUN_SPEC_FILE: text}}
