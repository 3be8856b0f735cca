"""The ConfigMap that carries the run specification, and with it the prompts, to the pod."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cdk8s_plus_35 import k8s

from charts.names import NAMESPACE, base_url, content_name
from draftworth.errors import UserInputError
from draftworth.experiment.model import NeuronExperiment
from draftworth.measuring.run_specification import dump_run_spec
from draftworth.planning.run_specification import run_spec

RUN_SPEC_FILE = "run-spec.json"
# kubectl keeps a copy of what it applied in an annotation, and all annotations of an object may
# have 262,144 bytes together: far less than the 1 MiB of a ConfigMap. The rest is for labels and
# the annotation's own name.
MAX_CONFIG_MAP_JSON_BYTES = 250_000
DEADLINE_CONFIG_MAP = "llmperf-deadline"
DEADLINE_FILE = "deadline-minutes"


def run_spec_config_map(experiment: NeuronExperiment, experiment_path: Path) -> dict[str, Any]:
    """Properties of the ConfigMap, named by its content.

    Raises:
        UserInputError: the prompts do not fit into one.
    """
    spec = run_spec(
        experiment,
        experiment_path,
        base_urls={variant.name: base_url(variant.name) for variant in experiment.variants},
        # The pod reads its deadline from a file: in here it would be part of the Job's content.
        ready_deadline_seconds=None,
    )
    text = dump_run_spec(spec)
    name = content_name("llmperf-run", text)
    properties: dict[str, Any] = {
        "metadata": k8s.ObjectMeta(name=name, namespace=NAMESPACE),
        "immutable": True,
        "data": {RUN_SPEC_FILE: text},
    }
    _check_size(kubectl_json_bytes(k8s.KubeConfigMap.manifest(**properties)), experiment_path)
    return properties


def deadline_config_map(experiment: NeuronExperiment) -> dict[str, Any]:
    """Properties of the ConfigMap that says how long a run may take.

    It keeps its name and is changed in place: a deadline that is moved reaches the pod that
    measures, and the Job stays the one that it is.
    """
    return {
        "metadata": k8s.ObjectMeta(name=DEADLINE_CONFIG_MAP, namespace=NAMESPACE),
        "data": {DEADLINE_FILE: str(experiment.aws.deadline_minutes)},
    }


def kubectl_json_bytes(value: Any) -> int:
    """The size of an object as kubectl writes it: compact, `<`, `>` and `&` as six bytes each."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return len(text.encode()) + sum(text.count(character) for character in "<>&") * 5


def _check_size(size: int, experiment_path: Path) -> None:
    if size > MAX_CONFIG_MAP_JSON_BYTES:
        raise UserInputError(
            f"{experiment_path}: workload.classes\n"
            f"    given:   {size:,} bytes of prompts, written as a ConfigMap in JSON\n"
            f"    allowed: at most {MAX_CONFIG_MAP_JSON_BYTES:,} bytes\n"
            "    because: the prompts travel to the load generator in a ConfigMap; kubectl keeps a "
            "copy of it in an annotation, and annotations hold no more\n"
            "    next:    take a sample of your prompts, or fewer cases (workload.classes[].cases)"
        )
