"""The graph compilers' Jobs: what the server would do, on another node and without a device."""

from __future__ import annotations

from functools import cache

import pytest

from charts.graph_compiler import CONTAINER_NAME, RETRIES
from charts.names import ACCELERATOR_TAINT_KEY, COMPILE_NODE_LABELS, COMPILE_TAINT_KEY
from charts.vllm_pod import CONTAINER_NAME as SERVER
from draftworth.experiment.cluster import COMPILE_INSTANCE_MEMORY_GIB, COMPILE_INSTANCE_VCPUS
from draftworth.planning.cpu_compiling import compiled_where, graphs_to_compile
from draftworth.planning.resolved import ResolvedNeuron
from pods.llmperf.compile_ahead import compile_jobs
from tests.charts.rendering import Object, render
from tests.support.experiments import changed, resolved

pytestmark = pytest.mark.synth


@cache
def rendered(name: str = "qwen3-32b", *, rerun: int = 1) -> dict[str, list[Object]]:
    return render(experiment(name, rerun=rerun))


def experiment(name: str = "qwen3-32b", *, rerun: int = 1) -> ResolvedNeuron:
    return changed(compiled_where(resolved(name), "cpu_nodes"), rerun=rerun)


def jobs(name: str = "qwen3-32b", *, rerun: int = 1) -> dict[str, Object]:
    """By artifact key."""
    return {
        job["spec"]["template"]["metadata"]["annotations"]["draftworth/artifact-key"]: job
        for chart, found in rendered(name, rerun=rerun).items()
        if chart.startswith("graph-compiler")
        for job in found
    }


def compiler(job: Object) -> Object:
    (found,) = job["spec"]["template"]["spec"]["containers"]
    assert found["name"] == CONTAINER_NAME
    return dict(found)


def servers() -> dict[str, Object]:
    """Server containers of the experiment by artifact key."""
    deployments = (o for o in rendered()["serving"] if o["kind"] == "Deployment")
    containers = (c for d in deployments for c in d["spec"]["template"]["spec"]["containers"])
    return {environment(c)["ARTIFACT_KEY"]: c for c in containers if c["name"] == SERVER}


def environment(container: Object) -> dict[str, str]:
    return {e["name"]: e["value"] for e in container["env"] if "value" in e}


def test_there_is_one_for_each_graph_and_none_where_servers_compile() -> None:
    assert jobs().keys() == servers().keys() == {g.key for g in graphs_to_compile(experiment())}
    assert "graph-compiler" not in render(compiled_where(resolved(), "accelerator"))


def test_an_image_with_a_cpu_mode_compiles_the_baseline_in_it() -> None:
    heads = "llama-3.1-8b-eagle3"
    (graph,) = graphs_to_compile(experiment(heads))
    (job,) = jobs(heads).values()
    command, told = compiler(job)["command"], environment(compiler(job))
    assert graph.variant.spec.method == "none"
    assert told["ARTIFACT_KEY"] == graph.key
    assert (told["VLLM_NEURON_CPU_COMPILE"], told["NEURON_PLATFORM_TARGET_OVERRIDE"]) == (
        "1",
        "trn2",
    )
    cache = command.index("--compiler-cache")
    assert command[cache + 1 : cache + 3] == ["VLLM_CACHE_ROOT", "neuron/compile_cache"]


def test_it_compiles_what_the_server_would() -> None:
    """Image, command and environment: the paths in them are written into what is compiled."""
    for key, server in servers().items():
        own = compiler(jobs()[key])
        command = own["command"]
        assert own["image"] == server["image"]
        assert command[command.index("--") + 1 :] == ["vllm", "serve", *server["args"]]
        told = environment(own)
        expected = environment(server)
        assert expected.items() <= told.items()
        assert told["NEURON_PLATFORM_TARGET_OVERRIDE"] == "trn2"
        assert told["NEURON_LOGICAL_NC_CONFIG"] == str(experiment().spec.serving.lnc)


def test_what_it_reads_and_writes_has_the_servers_paths() -> None:
    for key, server in servers().items():
        spec = jobs()[key]["spec"]["template"]["spec"]
        mounted = {m["mountPath"] for m in compiler(jobs()[key])["volumeMounts"]}
        of_server = {m["mountPath"] for m in server["volumeMounts"]}
        models = {path for path in of_server if path.startswith("/models")}
        assert models
        assert models <= mounted
        assert "/scratch" in mounted & of_server
        assert "/tmp" in mounted, "a server may write there"  # noqa: S108 (a path in a pod)
        (download,) = (c for c in spec["initContainers"] if c["name"] == "configurations")
        assert {path for path in download["args"] if path.startswith("/")} == models
        assert {m["mountPath"] for m in download["volumeMounts"]} == {*models, "/scratch"}


def test_it_waits_for_no_checkpoint_and_mounts_no_bucket() -> None:
    for job in jobs().values():
        volumes = job["spec"]["template"]["spec"]["volumes"]
        assert all("emptyDir" in volume for volume in volumes)


def test_it_is_on_a_node_of_its_own_kind_and_never_on_an_accelerators() -> None:
    for job in jobs().values():
        spec = job["spec"]["template"]["spec"]
        assert spec["nodeSelector"] == COMPILE_NODE_LABELS
        (toleration,) = spec["tolerations"]
        assert toleration["key"] == COMPILE_TAINT_KEY != ACCELERATOR_TAINT_KEY
        requests = compiler(job)["resources"]["requests"]
        assert COMPILE_INSTANCE_VCPUS / 2 < int(requests["cpu"]) < COMPILE_INSTANCE_VCPUS
        memory_gib = int(requests["memory"].removesuffix("Gi"))
        assert COMPILE_INSTANCE_MEMORY_GIB / 2 < memory_gib < COMPILE_INSTANCE_MEMORY_GIB


def test_it_is_tried_again_once_in_a_pod_that_knows_so() -> None:
    for job in jobs().values():
        assert job["spec"]["backoffLimitPerIndex"] == RETRIES == 1
        names = {e["name"] for e in compiler(job)["env"] if "valueFrom" in e}
        assert names == {"DRAFTWORTH_EARLIER_FAILURES", "JOB_NAME", "NODE_NAME"}


def test_what_is_certain_starts_at_once_and_the_rest_is_suspended() -> None:
    search = jobs("qwen3-32b-search")
    certain = {g.key for g in graphs_to_compile(experiment("qwen3-32b-search")) if g.certain}

    assert len(certain) == 2 < len(search)
    assert {key for key, job in search.items() if not job["spec"]["suspend"]} == certain


def test_a_raised_rerun_is_another_job() -> None:
    before, after = jobs(), jobs(rerun=2)
    assert before.keys() == after.keys()
    for key, job in before.items():
        assert job["metadata"]["name"] != after[key]["metadata"]["name"]


def test_the_load_generator_may_resume_what_is_suspended_and_nothing_else() -> None:
    search = rendered("qwen3-32b-search")
    search_jobs = jobs("qwen3-32b-search").values()
    suspended = {j["metadata"]["name"] for j in search_jobs if j["spec"]["suspend"]}
    roles = {o["metadata"]["name"]: o for o in search["load-generator"] if o["kind"] == "Role"}
    (rule,) = roles["resume-graph-compilers"]["rules"]
    assert (rule["apiGroups"], rule["resources"], rule["verbs"]) == (["batch"], ["jobs"], ["patch"])
    assert set(rule["resourceNames"]) == suspended
    (job,) = (o for o in search["load-generator"] if o["kind"] == "Job")
    (container,) = job["spec"]["template"]["spec"]["containers"]
    told = compile_jobs(container["args"][container["args"].index("--compile-jobs") + 1])
    assert {job.job_name for job in told.values()} == suspended
    assert told.keys() < {variant.name for variant in experiment("qwen3-32b-search").variants}

    certain_only = rendered()["load-generator"]
    assert not [o for o in certain_only if "resume" in o["metadata"]["name"]]
