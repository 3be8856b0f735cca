"""First start, second start, two at once, a kill, a mismatch: with real processes and S3 calls."""

import json
import os
import signal
import time
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import boto3
import pytest
from moto import mock_aws

from draftworth.records.artifacts import manifest_key
from pods.compiled_graphs.scratch import StartRecord, write_record
from pods.compiled_graphs.upload import GraphBucket, Uploader
from tests.pods.compiled_graphs import pods
from tests.pods.compiled_graphs.conftest import PodFactory
from tests.pods.compiled_graphs.stand_in_vllm import FILES
from tests.support.waiting import HANGS_AFTER_SECONDS

pytestmark = pytest.mark.emulator


def compile_and_upload(pod: pods.Pod, s3: Any) -> None:
    with pod.server(), pod.uploader():
        assert pod.what_vllm_did().startswith("compiled ")
        pods.eventually(lambda: pods.stored_manifest(s3))


@cache
def an_uploaded_graph(flags: tuple[str, ...]) -> dict[str, bytes]:
    """What a bucket has after `compile_and_upload`, by key; made once, without processes."""
    with TemporaryDirectory() as root, mock_aws():
        client = boto3.client("s3")
        pods.make_buckets(client)
        folder = Path(root) / "graphs" / ("0123abcd" if flags == pods.CACHE_FLAGS else "")
        for name, content in FILES.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        record = StartRecord(
            start_id="first",
            key=pods.KEY,
            inputs=pods.INPUTS,
            checkpoints={},
            origin="compiled",
            graphs=str(Path(root) / "graphs"),
            started_at_unix_s=time.time(),
        )
        write_record(Path(root), record)
        bucket = GraphBucket(client=client, name=pods.BUCKET)
        Uploader(bucket=bucket, scratch=Path(root)).upload(record)
        return {
            k: client.get_object(Bucket=pods.BUCKET, Key=k)["Body"].read()
            for k in pods.keys(client)
        }


def pod_with_a_graph(make: PodFactory, flags: tuple[str, ...] = pods.FOLDER_FLAGS) -> pods.Pod:
    """A pod whose mounted bucket has a graph of the key."""
    pod = make("second", flags)
    for key, data in an_uploaded_graph(flags).items():
        (pod.mounted / key).parent.mkdir(parents=True, exist_ok=True)
        (pod.mounted / key).write_bytes(data)
    return pod


@pytest.mark.parametrize("flags", [pods.FOLDER_FLAGS, pods.CACHE_FLAGS], ids=["folder", "cache"])
def test_the_first_start_compiles_and_uploads_and_the_second_one_loads(
    pod: PodFactory, s3: Any, flags: tuple[str, ...]
) -> None:
    first, second = pod("first", flags), pod("second", flags)
    compile_and_upload(first, s3)
    manifest = pods.stored_manifest(s3)
    assert manifest is not None
    assert manifest.inputs == pods.INPUTS
    assert {file.path.removeprefix("0123abcd/") for file in manifest.files} == {*FILES}
    assert pods.what_is_not_whole(s3) == []

    second.mount(s3)
    before = pods.keys(s3)
    with second.server(), second.uploader():
        loaded_from = second.what_vllm_did().removeprefix("loaded ")
        place = second.mounted if flags is pods.FOLDER_FLAGS else second.scratch
        assert loaded_from.startswith(str(place))
        pods.eventually(lambda: "nothing to upload" in second.uploader_log.read_text())
    assert pods.keys(s3) == before


def test_the_server_compiles_on_its_disk_and_serves_before_anything_is_uploaded(
    pod: PodFactory, s3: Any
) -> None:
    first = pod("first")
    with first.server():
        assert first.what_vllm_did() == f"compiled {first.scratch}/graphs/{pods.KEY}"
    assert pods.keys(s3) == set()


def test_vllm_inherits_no_path_of_the_scripts_and_leads_a_group_of_its_own(
    pod: PodFactory, s3: Any
) -> None:
    first = pod("first")
    with first.server() as process:
        first.what_vllm_did()
        _, pid, python_path, arguments = first.said.read_text().splitlines()
        assert int(pid) != process.pid
        assert os.getpgid(int(pid)) == int(pid)
        assert python_path == ""
        assert arguments == str(["serve", "--port", str(first.port), "--speculative-config={}"])


def test_compile_seconds_are_from_the_start_to_the_last_file(pod: PodFactory, s3: Any) -> None:
    first = pod("first")
    with first.server(SECONDS_A_FILE="0.3"), first.uploader():
        manifest = pods.eventually(lambda: pods.stored_manifest(s3))
    assert 0.9 <= manifest.compile_seconds < 5
    assert manifest.uploaded_at_unix_s == pytest.approx(time.time(), abs=30)


def test_two_pods_that_compile_the_same_key_leave_one_whole_graph(pod: PodFactory, s3: Any) -> None:
    one, other = pod("one"), pod("other")
    with one.server(), other.server(), one.uploader(), other.uploader():
        assert one.what_vllm_did().startswith("compiled ")
        assert other.what_vllm_did().startswith("compiled ")
        pods.eventually(
            lambda: all("in the bucket" in u.uploader_log.read_text() for u in (one, other))
        )
    manifest = pods.stored_manifest(s3)
    assert manifest is not None
    assert pods.what_is_not_whole(s3) == []
    others = {key for key in pods.keys(s3) if not key.startswith(f"{manifest.folder}/")}
    assert others == {manifest_key(pods.KEY)}


def test_what_a_crash_left_half_compiled_is_not_loaded_by_the_next_start(
    pod: PodFactory, s3: Any
) -> None:
    first = pod("first")
    with first.server(CRASH_AFTER="1") as process:
        assert process.wait(timeout=HANGS_AFTER_SECONDS) == 9
    assert (first.scratch / "graphs" / pods.KEY / "neuron_config.json").exists()
    compile_and_upload(first, s3)
    assert pods.what_is_not_whole(s3) == []


def test_a_healthy_server_finds_its_graphs_after_a_restart_of_its_container(
    pod: PodFactory, s3: Any
) -> None:
    first = pod("first")
    compile_and_upload(first, s3)
    with first.server():
        assert first.what_vllm_did() == f"loaded {first.scratch}/graphs/{pods.KEY}"


def test_an_uploader_that_was_killed_is_followed_by_one_that_ends_its_work(
    pod: PodFactory, s3: Any
) -> None:
    first = pod("first")
    with first.server():
        first.what_vllm_did()
        with first.uploader() as process:
            pods.eventually(lambda: pods.keys(s3))
            process.kill()
            process.wait()
        assert pods.what_is_not_whole(s3) == []
        with first.uploader():
            manifest = pods.eventually(lambda: pods.stored_manifest(s3))
    assert {key.rpartition("/")[0] for key in pods.keys(s3)} <= {
        pods.KEY,
        manifest.folder,
        f"{manifest.folder}/weights",
    }


def refused(pod: pods.Pod) -> str:
    """What a start says that is refused: vLLM never runs."""
    with pod.server():
        said = pods.eventually(lambda: "given up" in pod.log.read_text() and pod.log.read_text())
    assert not pod.said.exists()
    return str(said)


def test_graphs_compiled_for_something_else_are_refused_with_the_difference(
    pod: PodFactory,
) -> None:
    second = pod_with_a_graph(pod)
    manifest = second.mounted / manifest_key(pods.KEY)
    other = {**json.loads(manifest.read_bytes()), "inputs": {**pods.INPUTS, "window": 5}}
    manifest.write_text(json.dumps(other))
    said = refused(second)
    assert "REFUSED" in said
    assert "window: compiled for 5, asked for 7" in said
    assert "draftworth artifacts EXPERIMENT --run" in said


@pytest.mark.parametrize("flags", [pods.FOLDER_FLAGS, pods.CACHE_FLAGS], ids=["folder", "cache"])
@pytest.mark.parametrize("damage", ["shorter", "missing"])
def test_a_graph_with_a_damaged_file_is_refused(
    pod: PodFactory, damage: str, flags: tuple[str, ...]
) -> None:
    second = pod_with_a_graph(pod, flags)
    (file,) = second.mounted.rglob("model.pt")
    if damage == "shorter":
        file.write_bytes(b"graph")
    else:
        file.unlink()
    there = "5 bytes are there" if damage == "shorter" else "it is not there"
    assert f"model.pt: 10000 bytes were uploaded, {there}" in refused(second)


def test_a_copy_that_is_not_what_was_uploaded_is_refused(pod: PodFactory) -> None:
    """Of the same length: a copy is read anyway, and so compared by its hash."""
    second = pod_with_a_graph(pod, pods.CACHE_FLAGS)
    (file,) = second.mounted.rglob("model.pt")
    file.write_bytes(b"x" * file.stat().st_size)
    assert "its content is not what was uploaded" in refused(second)


def test_a_manifest_that_cannot_be_read_is_refused_and_not_compiled_over(
    pod: PodFactory,
) -> None:
    second = pod_with_a_graph(pod)
    (second.mounted / manifest_key(pods.KEY)).write_bytes(b'{"schema": "draftworth.artifacts/9"')
    assert "cannot be read: not JSON" in refused(second)


def test_the_uploader_stays_whatever_happens_and_ends_when_the_pod_does(
    pod: PodFactory, s3: Any
) -> None:
    first = pod("first")
    with first.server(), first.uploader(AWS_ENDPOINT_URL="http://127.0.0.1:9") as process:
        first.what_vllm_did()
        pods.eventually(lambda: "upload failed" in first.uploader_log.read_text())
        assert process.poll() is None
        assert first.healthy()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=HANGS_AFTER_SECONDS) == 0
