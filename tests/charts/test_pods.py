"""The pods' rights, and when the measuring Job's pod starts, is retried and ends."""

import copy
import hashlib
import re
from typing import Any

import pytest

from charts.names import MEASURING_JOB_SERVICE_ACCOUNT, server_names
from charts.paths_canary import LISTENER
from charts.run_spec_file import run_spec_file
from draftworth.measuring import run_specification
from draftworth.records.codec import load_record
from draftworth.records.servers import COMPILE_LIMIT_MINUTES, SELF_TEST_LIMIT_MINUTES
from tests.charts import rendering
from tests.support.experiments import resolved

pytestmark = pytest.mark.synth


def what_is_too_free(template: rendering.Object) -> list[str]:
    """Return the rights of a pod that none of our pods needs.

    Only the measuring Job's pod, which starts and stops servers, and the canary that tries this may
    have a token of the API.
    """
    pod = template["spec"]
    scales = pod["serviceAccountName"] == MEASURING_JOB_SERVICE_ACCOUNT
    token = pod.get("automountServiceAccountToken", True)
    needless_rights = ["API token"] if token and not scales else []
    needless_rights += [key for key in ("hostNetwork", "hostPID", "hostIPC") if pod.get(key)]
    # Nobody would be told that an init container fails (decision record 8). Only the exported pod
    # of a winner has one (`charts/winner/winner_pod.py`), which its user watches.
    needless_rights += ["init container"] if "initContainers" in pod else []
    if pod["securityContext"].get("seccompProfile") != {"type": "RuntimeDefault"}:
        needless_rights.append("seccomp")
    for container in pod["containers"]:
        context = container["securityContext"]
        needless_rights += ["privileged"] if context.get("privileged") else []
        needless_rights += ["escalation"] if context.get("allowPrivilegeEscalation", True) else []
        # Only vLLM's container keeps default capabilities, but for raw sockets; it gets no others.
        wanted = {"drop": ["NET_RAW" if container["name"] == "vllm" else "ALL"]}
        needless_rights += ["capabilities"] if context.get("capabilities") != wanted else []
    return needless_rights + [v["name"] for v in pod["volumes"] if "hostPath" in v]


@pytest.mark.parametrize("name", rendering.EXPERIMENTS)
def test_pods_have_no_rights_they_do_not_need(name: str) -> None:
    experiment = resolved(name)
    pods = len(server_names(experiment)) + len(experiment.canaries) + len(experiment.spec.models)
    needless_rights = [what_is_too_free(template) for template in rendering.pod_templates(name)]
    assert needless_rights == [[]] * (pods + 3), "the measuring Job's, canary and listener"


@pytest.mark.parametrize("name", rendering.EXPERIMENTS)
def test_no_pod_asks_metadata_for_its_region(name: str) -> None:
    """On a CPU node no pod reaches the metadata service, nor does the S3 driver for a volume."""
    pods = [template["spec"] for template in rendering.pod_templates(name)]
    # vLLM runs on accelerator nodes alone, and calls nothing of AWS.
    containers = [c for pod in pods for c in pod["containers"] if c["name"] != "vllm"]
    assert containers
    for container in containers:
        values = {item["name"]: item.get("value") for item in container["env"]}
        assert values["AWS_REGION"] == values["AWS_DEFAULT_REGION"] == rendering.BINDINGS.region
    region = resolved(name).spec.aws.region
    for volume in rendering.of_kind("PersistentVolume", name):
        assert f"region {region}" in volume["spec"]["mountOptions"]


@pytest.mark.parametrize(("repetitions", "control"), [(1, False), (1, True), (2, False)])
def test_a_token_exists_only_where_servers_change(repetitions: int, *, control: bool) -> None:
    charts = rendering.rendered_with(repetitions=repetitions, control=control)
    objects = [item for items in charts.values() for item in items]
    changing = repetitions > 1 or control
    pods = [o["spec"]["template"]["spec"] for o in objects if "template" in o.get("spec", {})]
    holders = [p["serviceAccountName"] for p in pods if p["automountServiceAccountToken"]]
    assert holders == [MEASURING_JOB_SERVICE_ACCOUNT] * 2 * changing
    assert len([o for o in objects if o["kind"] in ("Role", "RoleBinding")]) == 2 * changing


@pytest.mark.parametrize("name", rendering.EXPERIMENTS)
def test_the_token_may_scale_servers_alone(name: str) -> None:
    (role,) = rendering.of_kind("Role", name)
    (rule,) = role["rules"]
    servers = [d["metadata"]["name"] for d in rendering.of_kind("Deployment", name)]
    assert rule == {
        "apiGroups": ["apps"],
        "resources": ["deployments/scale"],
        "resourceNames": servers,
        "verbs": ["patch"],
    }
    (binding,) = rendering.of_kind("RoleBinding", name)
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    account = {"kind": "ServiceAccount", "name": "llmperf", "namespace": "draftworth"}
    assert binding["subjects"] == [account]
    assert {
        e.server
        for e in load_record(
            run_specification.RunSpec, run_spec_file(resolved(name)).data
        ).endpoints
    } == {*servers}


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        (lambda pod: pod.pop("automountServiceAccountToken"), "API token"),
        (lambda pod: pod.update(hostNetwork=True), "hostNetwork"),
        (
            lambda pod: pod["containers"][0]["securityContext"].update(
                capabilities={"add": ["SYS_ADMIN"]}
            ),
            "capabilities",
        ),
        (lambda pod: pod["containers"][0]["securityContext"].pop("capabilities"), "capabilities"),
        (lambda pod: pod["volumes"].append({"name": "dev", "hostPath": {"path": "/dev"}}), "dev"),
        (lambda pod: pod.update(initContainers=[]), "init container"),
    ],
)
def test_a_right_too_many_is_found(change: Any, finding: str) -> None:
    template = copy.deepcopy(next(rendering.pod_templates()))
    change(template["spec"])
    assert what_is_too_free(template) == [finding]


def argument(name: str, option: str) -> str:
    """Return the value of an option in the arguments of the measuring Job's container."""
    (container,) = rendering.load_generator(name)["spec"]["template"]["spec"]["containers"]
    return str(container["args"][container["args"].index(option) + 1])


@pytest.mark.parametrize("name", rendering.EXPERIMENTS)
def test_the_run_specification_has_all_services(name: str) -> None:
    file = run_spec_file(resolved(name))
    assert argument(name, "--run-spec").endswith(f"/{file.sha256}.json")
    assert argument(name, "--run-spec-sha256") == hashlib.sha256(file.data).hexdigest()
    spec = load_record(run_specification.RunSpec, file.data)
    all_services = (s["metadata"]["name"] for s in rendering.of_kind("Service", name))
    services = [service for service in all_services if service != LISTENER]
    assert [e.base_url for e in spec.endpoints] == [
        f"http://{service}.draftworth.svc:8000" for service in services
    ]
    assert spec.cases == resolved(name).cases


@pytest.mark.parametrize("name", rendering.EXPERIMENTS)
def test_the_deadline_may_be_moved_during_a_run(name: str) -> None:
    maps = {m["metadata"]["name"]: m for m in rendering.of_kind("ConfigMap", name)}
    pod = rendering.load_generator(name)["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    (volume,) = [v for v in pod["volumes"] if v["name"] == "deadline"]
    (mount,) = [m for m in container["volumeMounts"] if m["name"] == "deadline"]
    path = argument(name, "--deadline-minutes-file")
    config_map = maps[volume["configMap"]["name"]]

    assert "subPath" not in mount, "a file that is mounted alone is never updated"
    assert not config_map.get("immutable", False)
    file = path.removeprefix(f"{mount['mountPath']}/")
    assert float(config_map["data"][file]) == resolved(name).spec.aws.deadline_minutes
    spec = load_record(run_specification.RunSpec, run_spec_file(resolved(name)).data)
    assert spec.ready_deadline_seconds is None


@pytest.mark.parametrize("name", rendering.EXPERIMENTS)
def test_every_pod_of_a_job_continues_one_run(name: str) -> None:
    (container,) = rendering.load_generator(name)["spec"]["template"]["spec"]["containers"]
    fields = {
        e["name"]: e["valueFrom"]["fieldRef"]["fieldPath"]
        for e in container["env"]
        if "valueFrom" in e
    }
    label = re.compile(r"^metadata\.labels\['(.+)'\]$")
    pod_labels = {
        "batch.kubernetes.io/job-name": "llmperf-x-1",
        "batch.kubernetes.io/controller-uid": "0123456789-abc",
    }
    environment = {n: pod_labels[match[1]] for n, p in fields.items() if (match := label.match(p))}

    assert run_specification.job_run_id(environment) == "llmperf-x-1-01234567"


def failure_action(job: rendering.Object, *, exit_code: int = 0, disrupted: bool = False) -> str:
    """Return the action for a failed pod: that of the first rule that matches, or `Count`.

    `Count`: Kubernetes counts the failure and starts another pod.
    """
    for rule in job["spec"]["podFailurePolicy"]["rules"]:
        if exit_code in rule.get("onExitCodes", {}).get("values", []):
            return str(rule["action"])
        if disrupted and rule.get("onPodConditions"):
            return str(rule["action"])
    return "Count"


@pytest.mark.parametrize(
    ("pod", "action"),
    [
        ({"exit_code": run_specification.EXIT_FAILED}, "FailJob"),
        ({"exit_code": run_specification.EXIT_FAILED, "disrupted": True}, "FailJob"),
        ({"exit_code": run_specification.EXIT_WRONG_INPUT}, "FailJob"),
        ({"exit_code": run_specification.EXIT_INTERRUPTED}, "Ignore"),
        ({"exit_code": run_specification.EXIT_INTERRUPTED, "disrupted": True}, "Ignore"),
        ({"exit_code": 137, "disrupted": True}, "Ignore"),
        ({"exit_code": 137}, "Count"),
        ({"exit_code": run_specification.EXIT_NOT_RECORDED}, "Count"),
    ],
)
def test_another_pod_continues_an_unfinished_run(pod: dict[str, Any], action: str) -> None:
    job = rendering.load_generator("qwen3-32b")
    assert failure_action(job, **pod) == action
    # After so many pods that recorded no end, a further pod must record that the run has failed.
    assert job["spec"]["backoffLimit"] > run_specification.MAX_UNRECORDED_ENDS
    assert job["spec"]["podReplacementPolicy"] == "Failed"


def what_starts_too_early_or_twice(
    job: rendering.Object, servers: list[rendering.Object]
) -> list[str]:
    """Return why a Job's pod could start before its servers, be restarted anew, or never end."""
    spec = job["spec"]
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    reasons = ["deadline of the Job"] if "activeDeadlineSeconds" in spec else []
    reasons += [] if "activeDeadlineSeconds" in pod else ["a pod that hangs is never replaced"]
    reasons += [] if "--deadline-minutes-file" in container["args"] else ["no deadline"]
    reasons += ["suspended, which an apply would do again"] if spec.get("suspend") else []
    terms = pod["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    waited_for = [term["labelSelector"]["matchLabels"].items() for term in terms]
    reasons += [] if waited_for else ["waits for nothing"]
    for server in servers:
        labels = server["spec"]["template"]["metadata"]["labels"].items()
        # kube-scheduler counts a pod only when it matches EVERY required term.
        if not all(wanted <= labels for wanted in waited_for):
            reasons.append(server["metadata"]["name"])
    return reasons


@pytest.mark.parametrize("name", rendering.EXPERIMENTS)
def test_the_deadline_starts_with_the_first_server(name: str) -> None:
    job = rendering.load_generator(name)
    assert what_starts_too_early_or_twice(job, rendering.of_kind("Deployment", name)) == []


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        (lambda job: job.update(activeDeadlineSeconds=60), "deadline of the Job"),
        (
            lambda job: job["template"]["spec"].pop("activeDeadlineSeconds"),
            "a pod that hangs is never replaced",
        ),
        (lambda job: job["template"]["spec"]["containers"][0]["args"].clear(), "no deadline"),
        (lambda job: job.update(suspend=True), "suspended, which an apply would do again"),
        (lambda job: _terms(job).clear(), "waits for nothing"),
        (
            lambda job: _terms(job).append(
                {"labelSelector": {"matchLabels": {"draftworth/variant": "baseline"}}}
            ),
            "vllm-qwen3-1-7b-k7",
        ),
    ],
)
def test_a_job_starting_early_or_twice_is_found(change: Any, finding: str) -> None:
    job = copy.deepcopy(rendering.load_generator("qwen3-32b"))
    change(job["spec"])
    assert what_starts_too_early_or_twice(job, rendering.homes(rendering.all_objects())) == [
        finding
    ]


def _terms(job_spec: rendering.Object) -> list[rendering.Object]:
    affinity = job_spec["template"]["spec"]["affinity"]["podAffinity"]
    terms: list[rendering.Object] = affinity["requiredDuringSchedulingIgnoredDuringExecution"]
    return terms


@pytest.mark.parametrize("name", rendering.EXPERIMENTS)
def test_the_probe_waits_longer_than_the_program(name: str) -> None:
    for deployment in rendering.of_kind("Deployment", name):
        container, _ = deployment["spec"]["template"]["spec"]["containers"]
        probe = container["startupProbe"]
        allowed_seconds = probe["periodSeconds"] * probe["failureThreshold"]
        assert COMPILE_LIMIT_MINUTES == 120
        assert allowed_seconds > 60 * (SELF_TEST_LIMIT_MINUTES + COMPILE_LIMIT_MINUTES)
        assert deployment["spec"]["progressDeadlineSeconds"] > allowed_seconds
        assert "120 minutes" in deployment["metadata"]["annotations"]["draftworth/startup"]
