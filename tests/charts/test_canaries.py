"""The canaries: Jobs that do on a CPU node what a server does first on an accelerator node."""

import copy
import dataclasses
from collections.abc import Mapping

import pytest

from charts.canaries import RETRIES
from pods.canary.program import ROLES, _parser
from tests.charts import rendering
from tests.charts.rendering import container_of, pod_of, what_would_cost
from tests.support.experiments import changed, resolved

pytestmark = pytest.mark.synth


def canaries(charts: Mapping[str, list[rendering.Object]]) -> list[rendering.Object]:
    """Return the Jobs that test what a variant's server needs."""
    kept = (item for item in charts["canary"] if item["kind"] == "Job")
    return [job for job in kept if container_of(job)["name"] == "canary"]


def jobs(name: str = "qwen3-32b") -> list[rendering.Object]:
    canary_jobs = canaries(rendering.rendered(name))
    assert len(canary_jobs) == len(resolved(name).canaries)
    return canary_jobs


def server_of(job: rendering.Object, name: str) -> rendering.Object:
    """Return the pod's spec of the first server of the canary's variant.

    It is found by its service account, which all servers of a variant have.
    """
    account = pod_of(job)["serviceAccountName"]
    pods: list[rendering.Object] = [
        d["spec"]["template"]["spec"] for d in rendering.of_kind("Deployment", name)
    ]
    return next(pod for pod in pods if pod["serviceAccountName"] == account)


def what_differs(job: rendering.Object, name: str) -> list[str]:
    """Return in what a canary's pod differs from its server's pod, though it should be equal."""
    server, pod = server_of(job, name), pod_of(job)
    server_container, canary_container = server["containers"][0], container_of(job)
    differences = [] if pod["serviceAccountName"] == server["serviceAccountName"] else ["account"]
    buckets = [v for v in server["volumes"] if "persistentVolumeClaim" in v]
    differences += [] if pod["volumes"] == buckets else ["volumes"]
    wanted = {v["name"] for v in buckets}
    mounts = [m for m in server_container["volumeMounts"] if m["name"] in wanted]
    differences += [] if canary_container["volumeMounts"] == mounts else ["mounts"]
    groups = [p["securityContext"].get("fsGroup") for p in (pod, server)]
    differences += [] if groups[0] == groups[1] else ["group"]
    graphs = [e for e in server_container["env"] if e["name"].startswith("ARTIFACT_")]
    differences += (
        [] if [e for e in canary_container["env"] if e in graphs] == graphs else ["graphs"]
    )
    return differences


@pytest.mark.parametrize("name", rendering.EXPERIMENTS)
def test_a_canary_mounts_what_its_server_mounts(name: str) -> None:
    assert [what_differs(job, name) for job in jobs(name)] == [[]] * len(jobs(name))
    assert len({pod_of(job)["serviceAccountName"] for job in jobs(name)}) == len(jobs(name))


@pytest.mark.parametrize(
    ("planted", "finding"),
    [
        (lambda pod: pod["volumes"].pop(), "volumes"),
        (lambda pod: pod["securityContext"].update(fsGroup=10001), "group"),
        (lambda pod: pod["containers"][0]["volumeMounts"][0].update(mountPath="/m"), "mounts"),
        (lambda pod: pod["containers"][0]["env"][1].update(value="another"), "graphs"),
    ],
)
def test_a_canary_that_does_otherwise_is_found(planted: object, finding: str) -> None:
    job = copy.deepcopy(jobs()[0])
    assert callable(planted)
    planted(pod_of(job))
    assert what_differs(job, "qwen3-32b") == [finding]


@pytest.mark.parametrize("name", rendering.EXPERIMENTS)
def test_canaries_run_on_cpu_nodes_only(name: str) -> None:
    assert [what_would_cost(job) for job in jobs(name)] == [[]] * len(jobs(name))
    for job in jobs(name):
        assert float(container_of(job)["resources"]["requests"]["cpu"]) <= 0.1
        assert job["spec"]["backoffLimit"] == RETRIES


@pytest.mark.parametrize("name", rendering.EXPERIMENTS)
def test_the_program_takes_its_arguments(name: str) -> None:
    for job, variant in zip(jobs(name), resolved(name).canaries, strict=True):
        arguments = _parser().parse_args(container_of(job)["args"])
        assert (arguments.variant, arguments.job) == (
            variant.name,
            rendering.load_generator(name)["metadata"]["name"],
        )
        assert (arguments.checkpoints, arguments.results) == (
            rendering.BINDINGS.checkpoints_bucket,
            rendering.BINDINGS.results_bucket,
        )
        checkpoints = {role: getattr(arguments, role) for role in ROLES if getattr(arguments, role)}
        assert checkpoints == {
            role: f"/models/{role}={model.model}@{model.revision}"
            for role, model in variant.checkpoints.items()
        }


def what_must_be_equal(job: rendering.Object) -> rendering.Object:
    """Return a copy of a canary's Job without what depends on its variant."""
    shared = copy.deepcopy(job)
    del shared["metadata"]["name"]
    del shared["spec"]["template"]["metadata"]["annotations"]["draftworth/variant"]
    pod, container = pod_of(shared), container_of(shared)
    del pod["serviceAccountName"]
    pod["volumes"] = [v for v in pod["volumes"] if v["name"] != "draft"]
    container["volumeMounts"] = [m for m in container["volumeMounts"] if m["name"] != "draft"]
    container["env"] = [e for e in container["env"] if not e["name"].startswith("ARTIFACT_")]
    container["args"] = container["args"][: container["args"].index("--target") + 2]
    del container["args"][container["args"].index("--variant") + 1]
    return shared


@pytest.mark.parametrize("name", rendering.EXPERIMENTS)
def test_canaries_differ_in_what_their_variants_do_only(name: str) -> None:
    first, *other_jobs = jobs(name)
    assert other_jobs
    for other in other_jobs:
        assert what_must_be_equal(other) == what_must_be_equal(first)


def test_each_measuring_job_has_canaries_of_its_own() -> None:
    again = rendering.rendered_with(rerun=2)
    old, new = ({j["metadata"]["name"] for j in canaries(c)} for c in (rendering.rendered(), again))
    assert not old & new


def test_names_of_canaries_leave_room_for_their_pods() -> None:
    baseline, drafted = resolved().spec.variants
    longest = drafted.model_copy(update={"name": "a" * 32})
    objects = canaries(rendering.render(changed(resolved(), variants=(baseline, longest))))
    assert all(len(job["metadata"]["name"]) <= 57 for job in objects)


def test_no_service_selects_a_canary() -> None:
    for service in rendering.of_kind("Service"):
        for job in jobs():
            labels = job["spec"]["template"]["metadata"]["labels"]
            assert not service["spec"]["selector"].items() <= labels.items()


def test_another_results_bucket_is_another_canary() -> None:
    bindings = dataclasses.replace(rendering.BINDINGS, results_bucket="another")
    other = canaries(rendering.render(resolved(), bindings))
    assert {j["metadata"]["name"] for j in other}.isdisjoint(j["metadata"]["name"] for j in jobs())
