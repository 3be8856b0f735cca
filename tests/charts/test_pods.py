"""What the pods do and what they may not."""

from __future__ import annotations

import copy
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from draftbench.measuring.runspec import load_run_spec
from tests.charts.rendering import EXPERIMENTS, Object, an_experiment, of_kind, pod_templates

pytestmark = pytest.mark.synth

FAKE_VLLM = """\
#!/bin/sh
printf '%s\\n' "$NEURON_COMPILED_ARTIFACTS" "$$" "$@"
"""


def start(deployment: Object, root: Path) -> tuple[int, list[str]]:
    """Run the container's command with its paths below `root` and a vllm that reports.

    Returns the process id of the command and the lines it wrote.
    """
    program = root / "vllm"
    program.write_text(FAKE_VLLM, encoding="utf-8")
    program.chmod(0o755)
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    command = [part.replace('"/', f'"{root}/') for part in container["command"]]
    environment = {e["name"]: e["value"] for e in container["env"]}
    process = subprocess.Popen(
        [*command, *container["args"]],
        env={**environment, "PATH": f"{root}:/usr/bin:/bin"},
        stdout=subprocess.PIPE,
        text=True,
    )
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    return process.pid, output.splitlines()


def key_of(deployment: Object) -> str:
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return next(str(e["value"]) for e in container["env"] if e["name"] == "ARTIFACT_KEY")


def test_a_server_loads_compiled_graphs_that_are_whole(tmp_path: Path) -> None:
    deployment = of_kind("Deployment")[1]
    folder = tmp_path / "artifacts" / key_of(deployment)
    folder.mkdir(parents=True)
    (folder / "_ARTIFACTS.json").touch()
    _, (said, artifacts, *_) = start(deployment, tmp_path)
    assert said == f"loading compiled graphs from {folder}"
    assert artifacts == str(folder)


@pytest.mark.parametrize("uploaded", [[], ["model.pt"]])
def test_a_server_compiles_when_graphs_are_missing_or_incomplete(
    tmp_path: Path, uploaded: list[str]
) -> None:
    deployment = of_kind("Deployment")[1]
    folder = tmp_path / "artifacts" / key_of(deployment)
    folder.mkdir(parents=True)
    for name in uploaded:
        (folder / name).touch()
    _, (said, artifacts, *_) = start(deployment, tmp_path)
    assert "compiling to" in said
    assert artifacts == str(tmp_path / "scratch" / key_of(deployment))


def test_arguments_reach_vllm_unchanged_and_nothing_stands_between(tmp_path: Path) -> None:
    deployment = of_kind("Deployment")[1]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    started, (_, _, vllm, *arguments) = start(deployment, tmp_path)
    assert arguments == ["serve", *container["args"]]
    assert any(json.loads(a.partition("=")[2])["model"] for a in arguments if "specul" in a)
    assert int(vllm) == started, "vllm is not the process that Kubernetes signals"


def test_an_engine_with_a_cache_folder_starts_without_a_script() -> None:
    for deployment in of_kind("Deployment", "llama-3.1-8b-eagle3"):
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        environment = {e["name"]: e["value"] for e in container["env"]}
        assert container["command"] == ["vllm", "serve"]
        assert environment["VLLM_CACHE_ROOT"].startswith("/scratch/")
        assert not {"ARTIFACT_KEY", "NEURON_COMPILED_ARTIFACTS"} & set(environment)


def what_is_too_free(template: Object) -> list[str]:
    """Rights of a pod that none of ours needs."""
    pod = template["spec"]
    found = ["API token"] if pod.get("automountServiceAccountToken", True) else []
    found += [key for key in ("hostNetwork", "hostPID", "hostIPC") if pod.get(key)]
    if pod["securityContext"].get("seccompProfile") != {"type": "RuntimeDefault"}:
        found.append("seccomp")
    for container in pod["containers"]:
        context = container["securityContext"]
        found += ["privileged"] if context.get("privileged") else []
        found += ["escalation"] if context.get("allowPrivilegeEscalation", True) else []
        found += ["capabilities"] if context.get("capabilities") != {"drop": ["ALL"]} else []
    return found + [v["name"] for v in pod["volumes"] if "hostPath" in v]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_pods_have_no_rights_they_do_not_need(name: str) -> None:
    assert [what_is_too_free(template) for template in pod_templates(name)] == [[], [], []]


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        (lambda pod: pod.pop("automountServiceAccountToken"), "API token"),
        (lambda pod: pod.update(hostNetwork=True), "hostNetwork"),
        (lambda pod: pod["containers"][0]["securityContext"].pop("capabilities"), "capabilities"),
        (lambda pod: pod["volumes"].append({"name": "dev", "hostPath": {"path": "/dev"}}), "dev"),
    ],
)
def test_a_right_too_many_is_found(change: Any, finding: str) -> None:
    template = copy.deepcopy(next(pod_templates()))
    change(template["spec"])
    assert what_is_too_free(template) == [finding]


def test_the_load_generator_runs_as_nobody_on_a_read_only_disk() -> None:
    (job,) = of_kind("Job")
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] >= 10000
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    home = next(e["value"] for e in container["env"] if e["name"] == "HOME")
    writable = {m["mountPath"] for m in container["volumeMounts"] if not m.get("readOnly")}
    assert writable == {home, "/tmp"}  # noqa: S108 (a path in a pod)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_load_generator_reads_a_run_specification_of_all_services(name: str) -> None:
    (config_map,), (job,) = of_kind("ConfigMap", name), of_kind("Job", name)
    pod = job["spec"]["template"]["spec"]
    (volume,) = [v for v in pod["volumes"] if "configMap" in v]
    assert volume["configMap"]["name"] == config_map["metadata"]["name"]
    spec = load_run_spec(config_map["data"]["run-spec.json"])
    services = [s["metadata"]["name"] for s in of_kind("Service", name)]
    assert [e.base_url for e in spec.endpoints] == [
        f"http://{service}.draftbench.svc:8000" for service in services
    ]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_waiting_for_the_services_ends_before_the_deadline(name: str) -> None:
    (config_map,), (job,) = of_kind("ConfigMap", name), of_kind("Job", name)
    spec = load_run_spec(config_map["data"]["run-spec.json"])
    deadline_seconds = job["spec"]["template"]["spec"]["activeDeadlineSeconds"]
    assert deadline_seconds == an_experiment(name).aws.deadline_minutes * 60
    assert deadline_seconds / 2 < spec.ready_deadline_seconds < deadline_seconds


def what_starts_too_early_or_twice(job: Object, servers: list[Object]) -> list[str]:
    """How a Job would spend its deadline before the servers are there, or spend it twice."""
    spec = job["spec"]
    pod = spec["template"]["spec"]
    found = ["deadline of the Job"] if "activeDeadlineSeconds" in spec else []
    found += [] if "activeDeadlineSeconds" in pod else ["no deadline"]
    found += ["suspended, which an apply would do again"] if spec.get("suspend") else []
    found += ["retries"] if spec["backoffLimit"] else []
    terms = pod["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    waited_for = [term["labelSelector"]["matchLabels"].items() for term in terms]
    found += [] if waited_for else ["waits for nothing"]
    for server in servers:
        labels = server["spec"]["template"]["metadata"]["labels"].items()
        # kube-scheduler counts a pod only when it matches EVERY required term.
        if not all(wanted <= labels for wanted in waited_for):
            found.append(server["metadata"]["name"])
    return found


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_deadline_starts_when_a_server_has_its_devices(name: str) -> None:
    (job,) = of_kind("Job", name)
    assert what_starts_too_early_or_twice(job, of_kind("Deployment", name)) == []


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        (lambda job: job.update(activeDeadlineSeconds=60), "deadline of the Job"),
        (lambda job: job["template"]["spec"].pop("activeDeadlineSeconds"), "no deadline"),
        (lambda job: job.update(suspend=True), "suspended, which an apply would do again"),
        (lambda job: job.update(backoffLimit=1), "retries"),
        (lambda job: _terms(job).clear(), "waits for nothing"),
        (
            lambda job: _terms(job).append(
                {"labelSelector": {"matchLabels": {"draftbench.dev/variant": "baseline"}}}
            ),
            "vllm-qwen3-1-7b-k7",
        ),
    ],
)
def test_a_job_that_would_start_early_or_twice_is_found(change: Any, finding: str) -> None:
    job = copy.deepcopy(of_kind("Job")[0])
    change(job["spec"])
    assert what_starts_too_early_or_twice(job, of_kind("Deployment")) == [finding]


def _terms(job_spec: Object) -> list[Object]:
    affinity = job_spec["template"]["spec"]["affinity"]["podAffinity"]
    terms: list[Object] = affinity["requiredDuringSchedulingIgnoredDuringExecution"]
    return terms


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_first_start_has_two_hours_before_anything_gives_up(name: str) -> None:
    for deployment in of_kind("Deployment", name):
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        probe = container["startupProbe"]
        allowed_seconds = probe["periodSeconds"] * probe["failureThreshold"]
        assert allowed_seconds == 2 * 3600
        assert deployment["spec"]["progressDeadlineSeconds"] > allowed_seconds
        assert "120 minutes" in deployment["metadata"]["annotations"]["draftbench.dev/startup"]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_only_servers_that_are_ready_are_kept_from_eviction(name: str) -> None:
    budgets = of_kind("PodDisruptionBudget", name)
    assert len(budgets) == len(of_kind("Deployment", name))
    for budget in budgets:
        assert budget["spec"]["maxUnavailable"] == 0
        assert budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
