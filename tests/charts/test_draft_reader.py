"""The draft reader's Job: where it runs, what it mounts, when there is none."""

from __future__ import annotations

import pytest

from charts.draft_reader import CONTAINER_NAME
from charts.names import LOAD_GENERATOR_COMPONENT, SERVING_COMPONENT
from charts.shipped import MEASURING_IMAGE
from draftworth.experiment.aws import CPU_INSTANCE_MEMORY_GIB, CPU_INSTANCE_VCPUS
from draftworth.planning.draft_reading import ROOM_GIB
from tests.charts.rendering import Object, all_objects, load_generator, render, rendered
from tests.conftest import ROOT
from tests.support.experiments import changed_in, resolved

pytestmark = pytest.mark.synth

NAME = "qwen3-32b-search"


def job() -> Object:
    (found,) = (item for item in rendered(NAME)["draft-reader"] if item["kind"] == "Job")
    return found


def pod() -> Object:
    spec: Object = job()["spec"]["template"]["spec"]
    return spec


def container() -> Object:
    (found,) = pod()["containers"]
    assert found["name"] == CONTAINER_NAME
    return dict(found)


def option(name: str) -> str:
    arguments = container()["args"]
    return str(arguments[arguments.index(name) + 1])


def test_it_runs_the_serving_image_on_a_cpu_node_as_the_canaries_do() -> None:
    assert container()["image"] == resolved(NAME).spec.image
    assert pod()["nodeSelector"] == load_generator(NAME)["spec"]["template"]["spec"]["nodeSelector"]
    assert "tolerations" not in pod()
    assert "resourceClaims" not in pod()
    requests = container()["resources"]["requests"]
    assert requests == {"cpu": "2", "memory": "10Gi"}
    assert int(requests["cpu"]) < CPU_INSTANCE_VCPUS
    assert ROOM_GIB < CPU_INSTANCE_MEMORY_GIB


def test_it_waits_for_a_server_and_stays_away_from_who_measures() -> None:
    affinity = pod()["affinity"]
    key = "requiredDuringSchedulingIgnoredDuringExecution"
    (beside,), (apart,) = affinity["podAffinity"][key], affinity["podAntiAffinity"][key]
    assert beside["labelSelector"]["matchLabels"] == SERVING_COMPONENT
    assert apart["labelSelector"]["matchLabels"] == LOAD_GENERATOR_COMPONENT
    assert apart["topologyKey"] == "kubernetes.io/hostname"
    labels = load_generator(NAME)["spec"]["template"]["metadata"]["labels"]
    assert LOAD_GENERATOR_COMPONENT.items() <= labels.items()


def test_it_ends() -> None:
    assert 0 < pod()["activeDeadlineSeconds"] <= 24 * 3600
    assert pod()["restartPolicy"] == "Never"
    assert job()["spec"]["backoffLimit"] == 3


def test_it_reads_each_draft_where_the_draft_is_mounted() -> None:
    mounts = {m["name"]: m for m in container()["volumeMounts"]}
    claims = {
        mounts[v["name"]]["mountPath"]: v["persistentVolumeClaim"]["claimName"]
        for v in pod()["volumes"]
        if "persistentVolumeClaim" in v
    }
    writable = [name for name, mount in mounts.items() if not mount.get("readOnly")]
    assert writable == ["scratch"]
    volumes = {v["metadata"]["name"]: v for v in all_objects(NAME) if v["kind"].endswith("Volume")}
    drafts = dict(
        argument.removeprefix("--draft=").split("=")
        for argument in container()["command"]
        if argument.startswith("--draft=")
    )
    assert set(drafts.values()) == {"Qwen/Qwen3-1.7B", "Qwen/Qwen3-0.6B"}
    for folder, model in (*drafts.items(), (option("--target"), "Qwen/Qwen3-32B")):
        assert f"prefix {model}/main/" in volumes[claims[folder]]["spec"]["mountOptions"]
    assert len(claims) == 3


def test_its_runs_are_the_measuring_jobs() -> None:
    assert option("--runs") == f"runs/{load_generator(NAME)['metadata']['name']}-"
    assert option("--results") == "example-results"


def test_its_programs_are_copied_from_our_image_to_where_it_looks() -> None:
    (copying,) = pod()["initContainers"]
    (measuring,) = load_generator(NAME)["spec"]["template"]["spec"]["containers"]
    assert copying["image"] == measuring["image"]
    *files, target = copying["command"][2:]
    assert {f"/app/{name.partition('/')[0]}" for name in MEASURING_IMAGE} == set(files)
    assert "WORKDIR /app\n" in (ROOT / "pods" / "measuring" / "Dockerfile").read_text()
    assert target == container()["workingDir"]
    assert [m["mountPath"] for m in copying["volumeMounts"]] == [target]
    assert target in [m["mountPath"] for m in container()["volumeMounts"]]
    assert copying["securityContext"] == container()["securityContext"]


def test_where_nothing_can_be_read_there_is_no_job_and_no_account() -> None:
    sampled = render(changed_in(resolved(NAME), "workload", temperature=0.8))
    for charts in (sampled, rendered()):
        assert "draft-reader" not in charts
        assert "draft-reader" not in [o["metadata"]["name"] for o in charts["foundation"]]
    names = [o["metadata"]["name"] for o in rendered(NAME)["foundation"]]
    assert names.count("draft-reader") == 2  # account and network policy
