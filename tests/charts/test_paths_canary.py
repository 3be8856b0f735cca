"""The canary of the measuring Job's paths, and the listener that stands in for a server."""

import copy

import pytest

from charts.canaries import RETRIES
from charts.names import SERVER_LABEL
from charts.paths_canary import LISTENER
from draftworth.records.deployment import PATHS
from draftworth.serving.server_command import SERVING_PORT
from pods.canary import listener, paths
from tests.charts import rendering
from tests.charts.rendering import container_of, pod_of, what_would_cost
from tests.support.experiments import resolved

pytestmark = pytest.mark.synth

COMPONENT = "app.kubernetes.io/component"
# Kubernetes waits 10 s before the second pod of a Job, then twice as long, and at most 6 minutes.
WAITS_SECONDS = sum(min(10 * 2**number, 360) for number in range(RETRIES))
# The client of Kubernetes tries about as long (`pods/measuring/kubernetes_servers.py`).
KUBERNETES_SECONDS = 200


def job(container: str, name: str = "qwen3-32b", rerun: int = 1) -> rendering.Object:
    charts = rendering.rendered(name) if rerun == 1 else rendering.rendered_with(rerun=rerun)
    jobs = (item for item in charts["canary"] if item["kind"] == "Job")
    (with_container,) = (item for item in jobs if container_of(item)["name"] == container)
    return with_container


def labels_of(owner: rendering.Object) -> dict[str, str]:
    labels: dict[str, str] = owner["spec"]["template"]["metadata"]["labels"]
    return labels


def starts_beside(measuring: rendering.Object, labels: dict[str, str]) -> bool:
    """Return whether the measuring Job's pod may start once a pod with these labels runs."""
    affinity = pod_of(measuring)["affinity"]["podAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]
    selector = term["labelSelector"]
    expressions = selector.get("matchExpressions", [])
    assert all(expression["operator"] == "Exists" for expression in expressions)
    return bool(selector["matchLabels"].items() <= labels.items()) and all(
        expression["key"] in labels for expression in expressions
    )


@pytest.mark.parametrize("name", rendering.EXPERIMENTS)
def test_the_run_starts_beside_servers_alone(name: str) -> None:
    measuring = rendering.load_generator(name)
    for server in rendering.of_kind("Deployment", name):
        assert starts_beside(measuring, labels_of(server))
    for other in rendering.of_kind("Job", name):
        assert not starts_beside(measuring, labels_of(other))


def test_an_affinity_to_the_component_is_noticed() -> None:
    measuring = copy.deepcopy(rendering.load_generator())
    affinity = pod_of(measuring)["affinity"]["podAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]
    del term["labelSelector"]["matchExpressions"]
    assert starts_beside(measuring, labels_of(job("listener")))


@pytest.mark.parametrize("name", rendering.EXPERIMENTS)
def test_the_canary_goes_where_the_job_goes(name: str) -> None:
    measuring, canary = rendering.load_generator(name), job("paths", name)
    assert labels_of(canary)[COMPONENT] == labels_of(measuring)[COMPONENT]
    for key in ("serviceAccountName", "automountServiceAccountToken", "nodeSelector"):
        assert pod_of(canary)[key] == pod_of(measuring)[key]
    assert container_of(canary)["image"] == container_of(measuring)["image"]


@pytest.mark.parametrize("name", rendering.EXPERIMENTS)
def test_the_listener_is_known_as_a_server(name: str) -> None:
    server, stand_in = rendering.of_kind("Deployment", name)[0], job("listener", name)
    assert labels_of(stand_in)[COMPONENT] == labels_of(server)[COMPONENT]
    assert SERVER_LABEL not in labels_of(stand_in)
    assert pod_of(stand_in)["automountServiceAccountToken"] is False
    assert listener._parser().parse_args(container_of(stand_in)["args"]).port == SERVING_PORT


@pytest.mark.parametrize("container", ["paths", "listener"])
def test_both_run_on_cpu_nodes_only(container: str) -> None:
    assert what_would_cost(job(container)) == []
    assert float(container_of(job(container))["resources"]["requests"]["cpu"]) <= 0.1


@pytest.mark.parametrize("name", rendering.EXPERIMENTS)
def test_the_canary_takes_its_arguments(name: str) -> None:
    arguments = paths._parser().parse_args(container_of(job("paths", name))["args"])
    assert arguments.job == rendering.load_generator(name)["metadata"]["name"]
    assert arguments.results == rendering.BINDINGS.results_bucket
    assert arguments.listener == f"http://{LISTENER}.draftworth.svc:{SERVING_PORT}"
    (role,) = rendering.of_kind("Role", name)
    assert arguments.deployment in role["rules"][0]["resourceNames"]


def test_where_servers_stay_no_scale_is_tried() -> None:
    charts = rendering.rendered_with(repetitions=1, control=False)
    jobs = (item for item in charts["canary"] if item["kind"] == "Job")
    (canary,) = (item for item in jobs if container_of(item)["name"] == "paths")
    assert paths._parser().parse_args(container_of(canary)["args"]).deployment is None


@pytest.mark.parametrize("container", ["paths", "listener"])
def test_each_measuring_job_has_its_own(container: str) -> None:
    first, again = job(container), job(container, rerun=2)
    assert first["metadata"]["name"] != again["metadata"]["name"]


def test_the_listener_outlives_all_tries() -> None:
    tries_seconds = paths.SETTLE_SECONDS + paths.PATIENCE_SECONDS + KUBERNETES_SECONDS
    needed_seconds = (RETRIES + 1) * tries_seconds + WAITS_SECONDS
    assert needed_seconds < listener.LISTEN_HOURS * 3600


def test_no_variant_can_have_the_reports_name() -> None:
    assert "_" in PATHS
    assert all("_" not in variant.name for variant in resolved().variants)
