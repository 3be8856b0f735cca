"""Whole runs, from deploy to destroy, with real controllers and the pods' real programs.

A run stages checkpoints, starts nodes, serves, measures, and writes results and a verdict. Paths,
variables, accounts and names are those of the charts, so a mistake in a chart makes a run fail.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest

from charts.names import server_names
from charts.run_spec_file import run_spec_file
from draftworth.cli import main
from draftworth.measuring.run_specification import Endpoint, RunSpec
from draftworth.records.checkpoints import READY_MARKER
from draftworth.records.codec import load_record
from draftworth.records.controller_state import State
from draftworth.records.results import RESULT_SUFFIX, BlockResult, RunResult
from draftworth.records.search_result import SEARCH_FILE, SearchResult
from pods.compiled_graphs.vllm_parent import MAX_STARTS
from tests.cluster.api import Api, Object
from tests.cluster.control_plane import ControlPlane
from tests.cluster.living import living
from tests.cluster.sandbox import PodNetwork
from tests.cluster.world import TURN_SECONDS, World, new_world
from tests.end_to_end.conftest import COMMITS, DRAFT, synthesis_of
from tests.pods.compiled_graphs.pods import eventually
from tests.stacks.synthesis import Template
from tests.support.neuron import FITTING_DRIVER, compiled

pytestmark = [pytest.mark.synth, pytest.mark.emulator]

REQUESTS = 16  # per variant and class, in rounds of 4 per case
VARIANTS = 2
BLOCKS_PER_ROUND = 2 * VARIANTS  # one per variant and case
ENGINE = "vllm"


@pytest.fixture(scope="module")
def network(plane: ControlPlane) -> PodNetwork:
    users = int(Path("/proc/self/uid_map").read_text().split()[2])
    if users == 1:
        pytest.skip("programs of pods run as users of their own; next: make test-cluster as root")
    return PodNetwork()


@pytest.fixture(scope="module")
def synthesis(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> tuple[Path, Path, Mapping[str, Template]]:
    folder = tmp_path_factory.mktemp("synthesis")
    changes = getattr(request, "param", {})
    path, templates = synthesis_of(folder, requests=(REQUESTS, REQUESTS), **changes)
    return path, folder / "out", templates


@pytest.fixture
def world(
    plane: ControlPlane,
    api: Api,
    network: PodNetwork,
    synthesis: tuple[Path, Path, Mapping[str, Template]],
    tmp_path: Path,
) -> Iterator[World]:
    path, assembly, templates = synthesis
    # The pods' programs run as another user, who must be able to enter these folders.
    for parent in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        parent.chmod(0o755)
    with new_world(plane, network, tmp_path, path, templates, assembly) as made:
        yield made


def run_of(world: World) -> RunResult | None:
    keys = world.keys("results", "/run.json")
    return load_record(RunResult, world.get("results", keys[0])) if keys else None


def has_mail_with(world: World, *words: str) -> bool:
    """Return whether one of the mails since the last call has all of these words."""
    return any(all(word in mail for word in words) for mail in world.cloud.notifications())


def destroy(world: World) -> None:
    """Delete all objects of the stack in order, and wait until none is left."""
    world.stack.destroy()
    eventually(lambda: not living(world.api), seconds=120)


def test_a_run_from_deploy_to_verdict_and_destroy(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.nodes_linger = True  # so that servers can upload their graphs after the run's end
    world.deploy()
    assert world.names_of("accelerator") == []
    run = world.until(lambda: run_of(world))
    assert (run.status, run.reason) == ("complete", "")
    blocks = world.keys("results", RESULT_SUFFIX)
    assert blocks
    assert len(blocks) % BLOCKS_PER_ROUND == 0
    world.until(lambda: len(world.keys("artifacts", "_ARTIFACTS.json")) == VARIANTS)
    # From here on nodes end as soon as the capacity controller no longer wants them.
    world.nodes_linger = False
    world.until(lambda: not world.names_of("accelerator"))
    for container in ("checkpoint-stager", "llmperf"):
        eventually(partial(world.has_ended, container, "Complete"))
    capsys.readouterr()
    where = f"s3://{world.cloud.bucket.results}/runs/{run.run_id}"
    assert main(["report", where, "--verbose"]) == 0
    # Either verdict is right, because the figures depend on the machine's other work.
    output = capsys.readouterr().out
    assert re.search(r"requests? at a time, [a-z0-9.-]+: (cheaper per token|inconclusive)", output)
    destroy(world)


def blocks_of(world: World) -> list[BlockResult]:
    keys = world.keys("results", RESULT_SUFFIX)
    return [load_record(BlockResult, world.get("results", key)) for key in keys]


@pytest.mark.parametrize("synthesis", [{"repetitions": 2, "control": True}], indirect=True)
def test_a_run_starts_stops_and_swaps_its_servers(world: World) -> None:
    world.deploy()
    run = world.until(lambda: run_of(world))
    assert (run.status, run.reason, run.shortened) == ("complete", "", "")
    measured_slots = {(b.repetition, b.variant, b.slot) for b in blocks_of(world)}
    assert measured_slots == {
        *((1, "baseline", 0), (1, "qwen3-1.7b-k7", 1), (1, "control", 1)),
        *((2, "baseline", 1), (2, "qwen3-1.7b-k7", 0), (2, "control", 0)),
    }
    # Each server has written its state under its own name, and the second ones loaded the graphs.
    states = {key.rpartition("/")[2] for key in world.keys("results") if "/serving/" in key}
    assert states == {f"{name}.json" for name in server_names(world.experiment)}
    assert "are in the bucket" in world.kubelet.log("slot1-vllm-baseline", ENGINE)
    world.until(lambda: not world.names_of("accelerator"))
    assert has_mail_with(world, "complete")
    # At the run's end the servers run that the deploy started: the next measuring Job needs them.
    eventually(lambda: running(world) == {e.server for e in endpoints_of(world, 1)})
    destroy(world)


def running(world: World) -> set[str]:
    deployments = world.api.all("Deployment")
    return {d["metadata"]["name"] for d in deployments if d["spec"]["replicas"]}


def endpoints_of(world: World, repetition: int) -> tuple[Endpoint, ...]:
    spec = load_record(RunSpec, run_spec_file(world.experiment).data)
    return spec.in_repetition(repetition)


def servers(world: World) -> list[Object]:
    return [pod for pod in world.pods("serving") if is_ready(pod)]


def is_ready(pod: Object) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def test_a_run_survives_the_loss_of_every_node(world: World) -> None:
    """The accelerator node ends during a run, and so does the measuring pod's node."""
    world.deploy()
    world.until(lambda: len(servers(world)) == VARIANTS)
    eventually(lambda: world.keys("results", RESULT_SUFFIX))
    world.hold("llmperf-")
    world.until(lambda: len(world.keys("artifacts", "_ARTIFACTS.json")) == VARIANTS)
    before = world.keys("results", RESULT_SUFFIX)
    (measuring,) = world.pods("load-generator")
    lost = {*world.names_of("accelerator"), measuring["spec"]["nodeName"]}
    for name in lost:
        world.nodes.terminate(name)
    world.join("cpu")
    run = world.until(lambda: run_of(world))
    assert (run.status, run.reason) == ("complete", "")
    assert set(before) <= set(world.keys("results", RESULT_SUFFIX))
    pods = {
        pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in world.pods("load-generator")
    }
    assert set(pods.values()).isdisjoint(lost)
    assert len([key for key in world.keys("results") if "/journal/" in key]) >= 2
    # The second servers loaded the graphs that the first ones compiled.
    assert "are in the bucket" in world.kubelet.log("vllm-", ENGINE)
    assert len(world.keys("artifacts", "_ARTIFACTS.json")) == VARIANTS
    destroy(world)


# A search: candidates take turns on the second slot.


def by_hand(window: int) -> dict[str, object]:
    """Return a variant of the experiment file, which a search measures in any case.

    window: how many tokens the draft model proposes per step.
    """
    name, draft = f"qwen3-1.7b-k{window}", {"model": DRAFT}
    return {"name": name, "method": "fused_draft", "draft": draft, "window": window}


FIRST, SECOND = "qwen3-1.7b-k7", "qwen3-1.7b-k3"
SEARCHED = {
    "variants": [{"name": "baseline", "method": "none"}, by_hand(7), by_hand(3)],
    "search": {"method": "fused_draft", "drafts": [{"model": DRAFT}], "windows": [3, 5, 7]},
}


def pod_of(world: World, server: str) -> Object:
    (pod_of_server,) = (
        pod
        for pod in world.pods("serving")
        if pod["metadata"]["labels"]["app.kubernetes.io/instance"] == server
        and "deletionTimestamp" not in pod["metadata"]
    )
    return pod_of_server


def has_block(world: World, variant: str) -> bool:
    return any(block.variant == variant for block in blocks_of(world))


@pytest.mark.parametrize("synthesis", [SEARCHED], indirect=True)
def test_a_search_resumes_its_candidate_after_lost_nodes(
    world: World,
) -> None:
    world.deploy()
    world.until(partial(has_block, world, FIRST))
    baseline = pod_of(world, "vllm-baseline")["metadata"]["uid"]
    world.until(partial(has_block, world, SECOND))
    world.hold("llmperf-")
    # The baseline stayed up while the candidates took turns.
    assert pod_of(world, "vllm-baseline")["metadata"]["uid"] == baseline
    assert running(world) == {"vllm-baseline", f"slot1-vllm-{SECOND.replace('.', '-')}"}
    before = {block.stem for block in blocks_of(world)}
    (measuring,) = world.pods("load-generator")
    for name in {*world.names_of("accelerator"), measuring["spec"]["nodeName"]}:
        world.nodes.terminate(name)
    world.join("cpu")
    run = world.until(lambda: run_of(world))
    assert (run.status, run.reason) == ("complete", "")
    search = load_record(SearchResult, world.get("results", f"runs/{run.run_id}/{SEARCH_FILE}"))
    assert search.order[:2] == (FIRST, SECOND)
    assert not search.failed
    blocks = blocks_of(world)
    assert before <= {block.stem for block in blocks}
    assert set(Counter((b.case, b.variant, b.round) for b in blocks).values()) == {1}
    # The blocks of the first candidate, which the lost pod measured, are not measured again.
    assert {b.variant for b in blocks} == {"baseline", *search.order}
    world.until(lambda: not world.names_of("accelerator"))
    eventually(lambda: running(world) == {e.server for e in endpoints_of(world, 1)[:2]})
    destroy(world)


def test_servers_that_are_never_healthy_hold_no_node(world: World) -> None:
    world.break_engine("echo RuntimeError: no >&2; exit 3")
    world.deploy()
    run = world.until(lambda: run_of(world))
    assert run.status == "failed"
    assert "was given up" in run.reason
    world.until(lambda: not world.names_of("accelerator"))
    assert world.cloud.desired_nodes == 0
    eventually(partial(world.has_ended, "llmperf", "Failed"))
    assert f"ended {MAX_STARTS} times" in world.kubelet.log("vllm-", ENGINE)
    assert world.keys("results", RESULT_SUFFIX) == []
    assert has_mail_with(world, "server gave up")
    destroy(world)


@pytest.mark.parametrize(
    ("driver", "hidden_devices", "mount", "reason"),
    [
        ("", 8, "", "no Neuron device, and its claim is for 8; the node has no Neuron driver"),
        ("2.29.0.0", 0, "", "Neuron driver 2.29.0.0 needs Neuron runtime 2.33 or later"),
        (FITTING_DRIVER, 3, "", "5 Neuron device(s), /dev/neuron{"),
        (FITTING_DRIVER, 0, "slow", "even 4 reads at once need"),
        (FITTING_DRIVER, 0, "gone", "/models/target: cannot be read: [Errno 107]"),
    ],
    ids=["no driver", "old runtime", "wrong devices", "slow mount", "no mount"],
)
def test_a_broken_slot_costs_ten_minutes_at_most(
    driver: str, hidden_devices: int, mount: str, reason: str, world: World
) -> None:
    """A server that cannot start ends its node within ten minutes of paid node time.

    The capacity controller counts the node time. Its clock is set to the speed of the pods' clock.
    """
    compiled("neuron.c")
    world.spoil_driver(driver)
    world.kubelet.hidden_devices = hidden_devices
    if mount:
        world.spoil_mount(mount)
    world.deploy()
    world.until(lambda: world.names_of("accelerator"))
    world.minutes_per_turn = TURN_SECONDS / 60
    world.until(partial(has_mail_with, world, "server gave up", "self-test: ", reason))
    assert world.cloud.desired_nodes == 0
    deployment = load_record(State, world.get("results", "control/capacity.json")).deployment
    assert deployment
    assert 0 < deployment.node_time.node_seconds / 60 <= 10
    assert not world.kubelet.says("vllm-", ENGINE, "is not in the bucket: compiling")


# Wrong charts: several mistakes at the same time, each of which must show in another program's log.


def wrong(item: Object) -> None:
    """Spoil a variable of the baseline's server, and a mount path of each server and of the Job."""
    name, kind = item["metadata"]["name"], item["kind"]
    if (kind, name) == ("Deployment", "vllm-baseline"):
        server, uploader = containers(item)
        rename(server["env"], "name", "ARTIFACT_KEY", "ARTIFACT_KEYS")
        rename(uploader["volumeMounts"], "mountPath", "/opt/draftworth", "/opt/other")
    elif kind == "Deployment":
        rename(containers(item)[0]["volumeMounts"], "mountPath", "/models/draft", "/models/other")
    elif kind == "Job" and name.startswith("llmperf-"):
        (measuring,) = containers(item)
        rename(measuring["volumeMounts"], "mountPath", "/etc/draftworth-deadline", "/etc/deadline")


def containers(item: Object) -> list[Object]:
    container_list: list[Object] = item["spec"]["template"]["spec"]["containers"]
    return container_list


def rename(entries: list[Object], key: str, old: str, new: str) -> None:
    """Set `key` to `new` in the only entry in which it is `old`."""
    (entry,) = (e for e in entries if e[key] == old)
    entry[key] = new


def test_wrong_names_and_paths_of_a_chart_show(world: World) -> None:
    world.stack.edit = wrong
    # The measuring Job fails and ends the run before the servers fail, but they shall fail too.
    world.nodes_linger = True
    world.deploy()
    for pod, container, log_text in (
        ("vllm-baseline", ENGINE, "ARTIFACT_KEY"),
        ("vllm-baseline", "graph-uploader", "can't open file"),
        ("vllm-qwen3", ENGINE, "/models/draft/config.json"),
        ("llmperf-", "llmperf", "/etc/draftworth-deadline/deadline-minutes: no number of minutes"),
    ):
        world.until(partial(world.kubelet.says, pod, container, log_text))
    assert servers(world) == []


def test_servers_without_a_role_start_no_node(world: World) -> None:
    """Without a role the canaries cannot mount their volumes, so no accelerator node is started."""
    world.stack.edit = without_role
    world.deploy()
    world.until(partial(has_mail_with, world, "canary is silent"))
    assert any("default has no role" in line for line in world.kubelet.trouble)
    assert world.kubelet.log("canary-", "canary") == ""
    assert len(world.keys("checkpoints", READY_MARKER)) == len(COMMITS)
    assert (world.cloud.desired_nodes, world.names_of("accelerator")) == (0, [])


def test_a_closed_path_starts_no_node(world: World) -> None:
    """The pod that stands in for a server listens at another port, so it cannot be reached."""
    world.stack.edit = elsewhere
    world.kubelet.more_arguments = {"paths": ("--settle-seconds=0", "--patience-seconds=0")}
    world.deploy()
    world.until(partial(has_mail_with, world, "canary failed"))
    assert world.kubelet.says("canary-paths", "paths", "the measuring Job would not reach a server")
    assert (world.cloud.desired_nodes, world.names_of("accelerator")) == (0, [])


def elsewhere(item: Object) -> None:
    """Have the listener listen at another port."""
    for container in item.get("spec", {}).get("template", {}).get("spec", {}).get("containers", ()):
        if container["name"] == "listener":
            container["args"] = ["--port", "8001"]


def without_role(item: Object) -> None:
    """Give the pods of servers and canaries the namespace's default service account."""
    pod = item.get("spec", {}).get("template", {}).get("spec", {})
    if pod.get("serviceAccountName", "").startswith("vllm-"):
        pod["serviceAccountName"] = "default"
