"""The winner's objects in each form: as in the snapshots, and valid by Kubernetes' own schema."""

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from charts.winner.kserve import inference_service
from charts.winner.measured_winner import measured_winner
from charts.winner.production_stack import production_stack_values
from charts.winner.winner_objects import CommonChart, DeploymentChart, export_of, objects_of
from draftworth.planning.resolved import load
from tests.charts.winner.runs import (
    BUCKETS,
    HEADS,
    IMAGE,
    LOCAL,
    NEURON,
    SEARCH,
    as_read,
    built_run,
    experiment_path,
    exported,
)
from tests.support.snapshot import assert_snapshot

pytestmark = pytest.mark.synth

SNAPSHOTS = Path(__file__).parent / "snapshots"


@pytest.mark.parametrize("name", [NEURON, HEADS, LOCAL])
def test_objects_are_as_in_the_snapshot(name: str) -> None:
    export = exported(name)
    objects = as_read([*objects_of(CommonChart, export), *objects_of(DeploymentChart, export)])
    assert_snapshot(_readable(objects), SNAPSHOTS / f"{name}.deployment.yaml")


def test_other_forms_are_as_in_the_snapshot() -> None:
    export = exported()
    item, values = as_read([inference_service(export), production_stack_values(export)])
    predictor = item["spec"]["predictor"]
    for key in export.pod_data:
        predictor[key] = "<the Deployment's>"
    (model,) = values["servingEngineSpec"]["modelSpec"]
    for annotated in (item["metadata"], model):
        annotated["annotations"] = {
            k: "<the Deployment's>" if k.startswith("draftworth/") else v
            for k, v in annotated["annotations"].items()
        }
    assert_snapshot(_readable([item, values]), SNAPSHOTS / f"{NEURON}.elsewhere.yaml")


def _readable(value: Any) -> Any:
    """Return a value with `<source>` in place of a program's text, which would fill a snapshot."""
    if isinstance(value, dict):
        return {key: _readable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_readable(item) for item in value]
    return "<source>" if isinstance(value, str) and "import json" in value else value


@pytest.mark.parametrize("name", [NEURON, HEADS, LOCAL, SEARCH])
@pytest.mark.parametrize("pays", [True, False])
def test_every_object_of_kubernetes_is_valid(name: str, pays: bool) -> None:
    export = exported(name, pays=pays)
    for item in as_read([*objects_of(CommonChart, export), *objects_of(DeploymentChart, export)]):
        assert kubernetes_validate.validate(item, "1.35", strict=True) == "1.35"
        cluster_wide = item["kind"] == "PersistentVolume"
        assert item["metadata"].get("namespace") == (None if cluster_wide else "serving")


def test_a_winner_cheaper_everywhere_has_no_remark() -> None:
    experiment = load(experiment_path(LOCAL))
    measured = measured_winner(built_run(experiment, 1), {}, experiment)
    export = export_of(experiment, measured, namespace="serving", image=IMAGE, bucket_names=BUCKETS)
    assert export.remarks == ()
