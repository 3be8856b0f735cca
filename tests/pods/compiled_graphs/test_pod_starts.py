"""A serving pod's containers: real processes, real signals, and once real S3 calls."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from draftworth.records.servers import LAST_LINES, server_state_key
from pods.compiled_graphs.scratch_records import Starts, keep
from tests.pods.compiled_graphs import pods
from tests.pods.compiled_graphs.graphs import make_compiled_graph
from tests.pods.compiled_graphs.stand_in_vllm import FILES, FLOOD_LINES
from tests.support.emulator import emulated_account
from tests.support.waiting import HANGS_AFTER_SECONDS

ENDED_BY_SIGTERM = 128 + signal.SIGTERM


@pytest.fixture
def pod(tmp_path: Path) -> pods.Pod:
    return pods.Pod(root=tmp_path / "pod")


@pytest.fixture
def s3() -> Iterator[Any]:
    client = boto3.client("s3", endpoint_url=emulated_account())
    pods.make_buckets(client)
    yield client
    client.close()


@pytest.mark.emulator
def test_the_first_pod_compiles_and_later_starts_load(tmp_path: Path, s3: Any) -> None:
    account = {
        "AWS_ENDPOINT_URL": s3.meta.endpoint_url,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "us-east-2",
    }
    first = pods.Pod(root=tmp_path / "first", aws=account)
    with first.server() as process:
        assert first.what_vllm_did() == f"compiled {first.scratch}/graphs/{pods.KEY}"
        assert pods.stored(s3) == {}, "it serves before anything is uploaded"
        _, pid, python_path, arguments = first.start_notes.read_text().splitlines()
        assert int(pid) != process.pid
        assert os.getpgid(int(pid)) == int(pid), "it leads a group of its own"
        assert python_path == ""
        assert arguments == str([*pods.COMMAND, str(first.port)])
        with first.uploader():
            manifest = pods.eventually(lambda: pods.manifest_in(pods.stored(s3)))
    assert manifest.inputs == pods.INPUTS
    assert {file.path for file in manifest.files} == {*FILES}
    uploaded = pods.stored(s3)
    assert pods.what_is_not_whole(uploaded) == []
    assert {*pods.stored(s3, pods.RESULTS)} == {server_state_key(pods.SERVER)}

    # Another container of this pod loads the graphs from the disk, another pod from the bucket.
    again = pods.Pod(root=tmp_path / "again")
    again.scratch.rmdir()
    again.scratch = first.scratch
    with again.server():
        assert again.what_vllm_did() == f"loaded {first.scratch}/graphs/{pods.KEY}"
    second = pods.Pod(root=tmp_path / "second")
    for key, data in uploaded.items():
        (second.mounted / key).parent.mkdir(parents=True, exist_ok=True)
        (second.mounted / key).write_bytes(data)
    with second.server():
        assert second.what_vllm_did() == f"loaded {second.mounted / manifest.folder}"


def ends(pod: pods.Pod, **environment: str) -> int:
    """Run one container to its end; return its exit code."""
    with pod.server(**environment) as process:
        return process.wait(timeout=HANGS_AFTER_SECONDS)


def test_a_crashs_half_compiled_graphs_are_not_loaded(pod: pods.Pod) -> None:
    before = time.time()
    assert ends(pod, CRASH_AFTER="1") == 9
    state = pod.phase("ended")
    assert (state.variant, state.pod, state.start) == (pods.VARIANT, "pod", 1)
    assert (state.exit_code, state.reason) == (9, "")
    assert "crashed" in state.last_lines
    assert before <= state.since_unix_s <= time.time()
    assert (pod.scratch / "graphs" / pods.KEY / "neuron_config.json").exists()
    with pod.server():
        assert pod.what_vllm_did().startswith("compiled ")
        assert (again := pod.phase("healthy")).start == 2
        assert again.self_test == state.self_test, "of the pod's first start"
        assert pod.log.read_text().count("self-test: passed") == 1


def test_a_given_up_servers_container_keeps_waiting(pod: pods.Pod) -> None:
    keep(pod.scratch, Starts(number=2, without_health=2, first_at_seconds=time.monotonic()))
    with pod.server(TROUBLE="crash") as process:
        state = pod.phase("given_up")
        assert (state.start, "never healthy" in state.reason) == (3, True)
        assert "RuntimeError: no" in state.last_lines
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=HANGS_AFTER_SECONDS) == ENDED_BY_SIGTERM
    # Another container in this pod starts no server, and changes nothing.
    with pod.server(TROUBLE="crash") as process:
        pod.says("given up by an earlier container")
        assert process.poll() is None
    assert pod.state() == state


def test_a_failed_self_test_starts_no_server(pod: pods.Pod) -> None:
    (pod.node / "dev" / "neuron0").unlink()
    with pod.server(TROUBLE="serve") as process:
        state = pod.phase("given_up")
        assert state.reason.startswith("self-test: the container has no Neuron device, and its cl")
        assert state.self_test
        assert f"self-test: {state.self_test.failed}" == state.reason
        assert any("self-test: FAILED after" in line for line in state.last_lines)
        assert (process.poll(), children(process)) == (None, [])


def vllm_of(process: subprocess.Popen[str]) -> int:
    (child,) = children(process)
    return child


def children(process: subprocess.Popen[str]) -> list[int]:
    """Return the child processes, also those that have ended and are not reaped."""
    text = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return [int(pid) for pid in text.split()]


def test_a_killed_healthy_server_ends_its_container(pod: pods.Pod) -> None:
    with pod.server(TROUBLE="orphans") as process:
        pod.phase("healthy")
        # The orphans were reaped.
        pods.eventually(lambda: len(children(process)) == 1)
        os.kill(vllm_of(process), signal.SIGKILL)
        assert process.wait(timeout=HANGS_AFTER_SECONDS) == 128 + signal.SIGKILL
    assert pod.phase("ended").exit_code == 137


def test_a_flood_of_lines_passes_and_ends_kept(pod: pods.Pod) -> None:
    assert ends(pod, TROUBLE="flood") == 4
    lines = [f"line {n}" for n in range(FLOOD_LINES)]
    assert [*pod.phase("ended").last_lines] == lines[-LAST_LINES:]
    assert [x for x in pod.log.read_text().splitlines() if x.startswith("line ")] == lines


def test_a_daemon_that_holds_the_log_is_ended(pod: pods.Pod) -> None:
    assert ends(pod, TROUBLE="daemon") == 5
    assert not Path(f"/proc/{int(pod.start_notes.read_text())}").exists()


def test_sigterm_reaches_vllm_and_is_no_failure(pod: pods.Pod) -> None:
    keep(pod.scratch, Starts(number=2, without_health=2, first_at_seconds=time.monotonic()))
    with pod.server(TROUBLE="hang") as process:
        pod.phase("starting")
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=HANGS_AFTER_SECONDS) == ENDED_BY_SIGTERM
    assert pod.phase("ended").exit_code == ENDED_BY_SIGTERM


def test_without_boto3_server_and_uploader_still_run(pod: pods.Pod) -> None:
    pod.aws = {"PYTHONPATH": "/nowhere"}
    with pod.server(TROUBLE="serve"):
        pods.eventually(pod.healthy)
        pod.says("its state cannot be reported: ModuleNotFoundError")
        make_compiled_graph(pod.scratch, "one")
        with pod.uploader() as process:
            pod.says("nothing will be uploaded")
            assert process.poll() is None
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=HANGS_AFTER_SECONDS) == 0
    assert pod.log.read_text().count("cannot be reported") == 1
