"""The staging Jobs, one per checkpoint: on CPU nodes, with limits, and without a secret token."""

import copy
import json
import math
from typing import Any

import pytest

from charts.bindings import Bindings
from charts.checkpoint_staging import scratch_gib
from draftworth.experiment.catalog import catalog
from draftworth.experiment.variants import HubModel
from draftworth.planning.resolved import ResolvedNeuron
from draftworth.records.checkpoints import FAILURES_VARIABLE
from pods.checkpoint_stager.program import _parser
from tests.charts.rendering import (
    BINDINGS,
    EXPERIMENTS,
    Object,
    all_objects,
    charts_of,
    container_of,
    pod_of,
    render,
    rendered,
    what_would_cost,
)
from tests.support.experiments import changed, changed_aws, changed_in, resolved, with_third_variant

pytestmark = pytest.mark.synth


def jobs(experiment: ResolvedNeuron | None = None, bindings: Bindings = BINDINGS) -> list[Object]:
    staging_jobs = charts_of(experiment, bindings)["staging"]
    assert staging_jobs
    return staging_jobs


def names(experiment: ResolvedNeuron | None = None, bindings: Bindings = BINDINGS) -> list[str]:
    return [job["metadata"]["name"] for job in jobs(experiment, bindings)]


def with_aws(**values: Any) -> ResolvedNeuron:
    return changed_aws(resolved(), **values)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_each_checkpoint_is_staged_by_one_job(
    name: str,
) -> None:
    experiment = resolved(name)
    arguments = [
        _parser().parse_args(container_of(job)["args"]) for job in rendered(name)["staging"]
    ]
    assert [(a.model, a.revision) for a in arguments] == [
        (model.model, model.revision) for model in experiment.spec.models
    ]
    assert {a.bucket for a in arguments} == {BINDINGS.checkpoints_bucket}
    assert len({job["metadata"]["name"] for job in rendered(name)["staging"]}) == len(arguments)


def test_a_shared_draft_is_staged_once() -> None:
    assert names(with_third_variant(resolved())) == names()


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_stagers_run_on_cpu_nodes_only(name: str) -> None:
    models = resolved(name).spec.models
    assert [what_would_cost(job) for job in rendered(name)["staging"]] == [[] for _ in models]


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        ({"tolerations": [{"operator": "Exists"}]}, "tolerates a taint"),
        ({"nodeSelector": {}}, "any node"),
        ({"resourceClaims": [{"name": "neuron"}]}, "claims devices"),
    ],
)
def test_a_stager_on_an_accelerator_node_is_found(change: Object, finding: str) -> None:
    job = copy.deepcopy(jobs()[0])
    pod_of(job).update(change)
    assert what_would_cost(job) == [finding]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_scratch_fits_into_the_requested_storage(name: str) -> None:
    for job in rendered(name)["staging"]:
        arguments = _parser().parse_args(container_of(job)["args"])
        (volume,) = pod_of(job)["volumes"]
        (mount,) = container_of(job)["volumeMounts"]
        resources = container_of(job)["resources"]
        limit = resources["limits"]["ephemeral-storage"]
        assert arguments.scratch_gib < gib(volume["emptyDir"]["sizeLimit"]) < gib(limit)
        assert resources["requests"]["ephemeral-storage"] == limit
        assert str(arguments.scratch) == mount["mountPath"]


def gib(quantity: str) -> int:
    return int(quantity.removesuffix("Gi"))


SIZES = {name: facts.checkpoint_gib for name, facts in catalog().models.items()}


@pytest.mark.parametrize(("model", "size"), [(m, s) for m, s in SIZES.items() if s is not None])
def test_scratch_holds_at_most_the_whole_model(model: str, size: float) -> None:
    room = scratch_gib(HubModel(model=model))
    assert min(size, 20) < room <= math.ceil(size) + 1


@pytest.mark.parametrize("model", ["acme/unknown", "z-lab/gpt-oss-20b-DFlash"])
def test_an_unknown_model_has_the_largest_scratch(
    model: str,
) -> None:
    assert SIZES.get(model) is None
    assert scratch_gib(HubModel(model=model)) == 24


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_only_a_wrong_input_ends_the_job(name: str) -> None:
    for job in rendered(name)["staging"]:
        wrong_input, lost_node = job["spec"]["podFailurePolicy"]["rules"]
        assert (wrong_input["action"], wrong_input["onExitCodes"]["values"]) == ("FailJob", [2])
        assert wrong_input["onExitCodes"]["containerName"] == container_of(job)["name"]
        assert lost_node["action"] == "Ignore"
        assert job["spec"]["backoffLimit"] >= 6
        assert pod_of(job)["restartPolicy"] == "Never"


def tells_each_pod_how_many_failed(job: Object) -> bool:
    """Return whether each pod of a Job can read how many pods failed before it.

    Kubernetes counts the failures only in an Indexed Job with a limit for each index.
    """
    spec = job["spec"]
    (field,) = [e for e in container_of(job)["env"] if e["name"] == FAILURES_VARIABLE]
    counted = spec.get("completionMode") == "Indexed" and "backoffLimitPerIndex" in spec
    annotation = "metadata.annotations['batch.kubernetes.io/job-index-failure-count']"
    return counted and field["valueFrom"]["fieldRef"]["fieldPath"] == annotation


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_each_pod_has_the_number_of_failures(name: str) -> None:
    for job in rendered(name)["staging"]:
        assert tells_each_pod_how_many_failed(job)
        retries = _parser().parse_args(container_of(job)["args"]).retries
        assert retries == job["spec"]["backoffLimitPerIndex"] == job["spec"]["backoffLimit"]


def test_a_job_without_counted_failures_is_found() -> None:
    job = copy.deepcopy(jobs()[0])
    del job["spec"]["backoffLimitPerIndex"]
    assert not tells_each_pod_how_many_failed(job)


def test_only_stagers_name_the_hub_tokens_secret() -> None:
    objects = render(with_aws(hub_token_secret="draftworth/hub-token"))
    charts_with_secret = {
        chart for chart, items in objects.items() if "hub-token" in json.dumps(items)
    }
    assert charts_with_secret == {"staging"}
    for job in objects["staging"]:
        arguments = _parser().parse_args(container_of(job)["args"])
        assert arguments.token_secret == "draftworth/hub-token"
        assert "HF_TOKEN" not in json.dumps(job)
    assert not [item for item in all_objects() if item["kind"] == "Secret"]


@pytest.mark.parametrize(
    "experiment",
    [with_aws(hub_token_secret="another"), changed(resolved(), rerun=2)],
    ids=["another secret", "the same once more"],
)
def test_another_try_is_a_job_of_another_name(experiment: ResolvedNeuron) -> None:
    assert not set(names(experiment)) & set(names())


def test_another_revision_replaces_one_job_alone() -> None:
    other = changed_in(resolved(), "target", revision="v2")
    assert len(set(names(other)) & set(names())) == 1


def test_pickled_weights_are_allowed_per_model() -> None:
    trusted = resolved().spec.target.model_copy(update={"allow_pickle_weights": True})
    target, draft = (container_of(job)["args"] for job in jobs(changed(resolved(), target=trusted)))
    assert "--pickle-weights allowed" in " ".join(target)
    assert "--pickle-weights" not in draft
    assert not [job for job in jobs() if "--pickle-weights" in container_of(job)["args"]]


def test_what_the_workload_asks_does_not_stage_anew() -> None:
    assert names(changed_in(resolved(), "workload", output_tokens=500)) == names()


def test_names_of_jobs_leave_room_for_their_pods() -> None:
    long = changed(resolved(), target=HubModel(model=f"acme/{'A.very_Long-name' * 6}"))
    assert all(len(name) <= 57 for name in names(long))
    assert names(long)[0].startswith("stage-a-very-long-name")
