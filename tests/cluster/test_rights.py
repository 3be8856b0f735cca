"""No pod has rights in the Kubernetes API, except that the measuring pod may scale the servers.

All other rights of service accounts are in AWS, by the roles that EKS Pod Identity gives them.
"""

import copy
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from charts import names
from pods.measuring.kubernetes_servers import KubernetesApi
from tests.charts.rendering import all_objects, homes, of_kind
from tests.cluster.api import KINDS, Api, Object, path_of
from tests.cluster.conftest import empty
from tests.cluster.control_plane import ControlPlane
from tests.pods.compiled_graphs.pods import eventually
from tests.support.experiments import resolved

pytestmark = [pytest.mark.synth]

ACCOUNTS = (
    names.MEASURING_JOB_SERVICE_ACCOUNT,
    names.STAGER_SERVICE_ACCOUNT,
    names.LISTENER_SERVICE_ACCOUNT,
    *(names.service_name(variant.name) for variant in resolved().variants),
)
SERVERS = names.server_names(resolved())
VERBS = ("create", "delete", "get", "list", "patch", "update", "watch")
MORE = (("", "secrets"), ("", "pods/exec"), ("", "pods/log"), ("", "serviceaccounts/token"))
# Every authenticated user may ask Kubernetes who it is and what its rights are.
OF_EVERYBODY = {
    "create authorization.k8s.io/selfsubjectaccessreviews",
    "create authorization.k8s.io/selfsubjectrulesreviews",
    "create authentication.k8s.io/selfsubjectreviews",
}


@pytest.fixture(scope="module")
def applied(plane: ControlPlane) -> Iterator[Api]:
    plane.api.create(*all_objects())
    yield plane.api
    empty(plane.api)


def user(account: str) -> str:
    return f"system:serviceaccount:{names.NAMESPACE}:{account}"


def is_allowed(api: Api, account: str, verb: str, group: str, resource: str) -> bool:
    """Return whether a service account has a right, by the API server's SubjectAccessReview.

    group: the API group. resource: RESOURCE or RESOURCE/SUBRESOURCE.
    """
    name, _, part = resource.partition("/")
    attributes = {"verb": verb, "group": group, "resource": name, "subresource": part}
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{names.NAMESPACE}"]
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": user(account),
            "groups": [*groups, "system:authenticated"],
            "resourceAttributes": {**attributes, "namespace": names.NAMESPACE},
        },
    }
    answer = api.ask("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])


def allowed(api: Api, account: str) -> list[str]:
    kinds = [(api_.removeprefix("apis/").rpartition("/")[0], r) for api_, r, _ in KINDS.values()]
    groups = [(group.removeprefix("api"), resource) for group, resource in (*kinds, *MORE)]
    return [
        f"{verb} {resource}"
        for (group, resource), verb in itertools.product(groups, VERBS)
        if is_allowed(api, account, verb, group, resource)
    ]


def listed(plane: ControlPlane, account: str) -> set[str]:
    """Return `VERB RESOURCE NAME ...` for each right that Kubernetes lists for an account.

    The names of objects follow only if the right covers not all objects.
    """
    output = plane.kubectl("auth", "can-i", "--list", "-n", names.NAMESPACE, "--as", user(account))
    assert output.returncode == 0, output.stderr
    rows = (line.split() for line in output.stdout.splitlines()[1:])
    return {
        " ".join([verb, _group_first(row[0]), *_names(row)])
        for row in rows
        # Rows that begin with a slash are rights for URLs, such as /healthz.
        if not row[0].startswith("[")
        for verb in row[-1].strip("[]").split()
    }


def _group_first(resource: str) -> str:
    whole, _, part = resource.partition("/")
    name, _, group = whole.partition(".")
    return "/".join(word for word in (group, name, part) if word)


def _names(row: list[str]) -> list[str]:
    """Return the names of the objects that a right covers; empty if it covers all objects.

    row: the words of a line of `kubectl auth can-i --list`.
    """
    return [word.strip("[]") for word in row[2:-1] if word.strip("[]")]


@pytest.mark.parametrize("account", ACCOUNTS)
def test_no_account_of_a_pod_may_do_anything(
    plane: ControlPlane, applied: Api, account: str
) -> None:
    """Each account has only the rights that every authenticated user has."""
    assert allowed(applied, account) == []
    scale_rights = {f"patch apps/deployments/scale {server}" for server in SERVERS}
    measures = account == names.MEASURING_JOB_SERVICE_ACCOUNT
    assert listed(plane, account) - OF_EVERYBODY == (scale_rights if measures else set())


@pytest.fixture
def measuring(applied: Api) -> Api:
    """Return a client of the API with a token of the measuring pod's service account."""
    token = applied.token_of(names.MEASURING_JOB_SERVICE_ACCOUNT)
    return Api(url=applied.url, token=token, certificate=applied.certificate)


def scale_of(name: str) -> str:
    return f"{path_of('Deployment', name)}/scale"


def test_the_measuring_pods_token_scales_every_server(applied: Api, measuring: Api) -> None:
    assert len(SERVERS) == 4
    for name in SERVERS:
        replicas_before = applied.one("Deployment", name)["spec"]["replicas"]
        for replicas in (1, 0, replicas_before):
            scale = measuring.change(scale_of(name), {"spec": {"replicas": replicas}})
            assert scale["spec"].get("replicas", 0) == replicas
            assert "replicas" in scale["status"]


def test_an_empty_patch_of_a_scale_changes_nothing(
    applied: Api, measuring: Api, tmp_path: Path
) -> None:
    """The canary of the measuring Job's paths sends this patch."""
    (tmp_path / "token").write_text(applied.token_of(names.MEASURING_JOB_SERVICE_ACCOUNT))
    (tmp_path / "namespace").write_text(names.NAMESPACE)
    (tmp_path / "ca.crt").write_bytes(applied.certificate.read_bytes())
    canary = KubernetesApi(url=applied.url, folder=tmp_path)
    for replicas in (1, 0):
        measuring.change(scale_of(SERVERS[0]), {"spec": {"replicas": replicas}})
        spec_before = applied.one("Deployment", SERVERS[0])["spec"]
        canary.try_scale(SERVERS[0])
        assert applied.one("Deployment", SERVERS[0])["spec"] == spec_before
    measuring.change(scale_of(SERVERS[0]), {"spec": {"replicas": 1}})


def test_the_measuring_pods_token_has_no_further_rights(applied: Api, measuring: Api) -> None:
    other = copy.deepcopy(of_kind("Deployment")[0])
    other["metadata"]["name"] = "of-somebody"
    other["spec"]["replicas"] = 0
    applied.create(other)
    server = path_of("Deployment", SERVERS[0])
    for method, path in (
        ("PATCH", scale_of("of-somebody")),
        ("PATCH", server),
        ("PATCH", f"{server}/status"),
        *((method, scale_of(SERVERS[0])) for method in ("GET", "PUT", "DELETE")),
        *(("GET", path_of(kind)) for kind in ("Deployment", "Pod", "ConfigMap", "Role")),
        ("GET", "/api/v1/namespaces/draftworth/secrets"),
        ("DELETE", server),
        ("POST", path_of("Job")),
    ):
        body = {"spec": {"replicas": 0}} if method in ("PATCH", "PUT", "POST") else None
        with_patch = {"content_type": "application/merge-patch+json"} if method == "PATCH" else {}
        answer = measuring.call(method, path, body, **with_patch)
        assert answer.status_code == requests.codes.forbidden, f"{method} {path}: {answer.text}"
    applied.delete(path_of("Deployment", "of-somebody"))


def test_only_the_measuring_account_holds_a_token(
    applied: Api,
) -> None:
    kinds = [item["kind"] for item in all_objects()]
    count = len(homes(all_objects())) + kinds.count("Job")
    pods = eventually(lambda: len(pods_now := applied.all("Pod")) == count and pods_now)
    assert {pod["spec"]["serviceAccountName"] for pod in pods} == set(ACCOUNTS)
    assert kinds.count("ServiceAccount") == len(ACCOUNTS)
    for pod in pods:
        tokens = [v for v in pod["spec"].get("volumes", ()) if "projected" in v or "secret" in v]
        measures = pod["spec"]["serviceAccountName"] == names.MEASURING_JOB_SERVICE_ACCOUNT
        assert len(tokens) == measures


def test_a_right_that_somebody_gave_is_seen(plane: ControlPlane, applied: Api) -> None:
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{names.NAMESPACE}/rolebindings"
    subject = {"kind": "ServiceAccount", "name": "llmperf", "namespace": names.NAMESPACE}
    view = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    binding: Object = {"metadata": {"name": "x"}, "roleRef": view, "subjects": [subject]}
    applied.ask("POST", path, binding)
    try:
        assert "get pods" in eventually(lambda: allowed(applied, "llmperf"))
        assert listed(plane, "llmperf") > OF_EVERYBODY
        assert allowed(applied, "stager") == []
    finally:
        applied.delete(f"{path}/x")
    eventually(lambda: not allowed(applied, "llmperf"))
