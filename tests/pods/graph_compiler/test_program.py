"""The compile Job's program: real processes and files, an emulated S3, the image by a stand-in."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from boto3.exceptions import S3UploadFailedError

from draftworth.records.artifact_manifest import ArtifactManifest, manifest_key
from draftworth.records.codec import dump_record
from draftworth.records.files import StoredFile
from draftworth.records.unproven_graphs import Rejection, rejected_key
from pods.graph_compiler.program import Job, _outcome
from tests.pods.compiled_graphs.pods import (
    BUCKET,
    INPUTS,
    KEY,
    RESULTS,
    eventually,
    keys,
)
from tests.pods.graph_compiler.jobs import (
    COMMIT,
    DEVICE,
    SERVE,
    CompilePod,
    report,
    unproven,
)
from tests.support.processes import descendants
from tests.support.waiting import HANGS_AFTER_SECONDS

pytestmark = pytest.mark.emulator
GIB = 2**30


@pytest.fixture
def pod(tmp_path: Path, endpoint: str, s3: Any) -> CompilePod:
    return CompilePod(root=tmp_path / "one", endpoint=endpoint)


def test_graphs_are_compiled_uploaded_and_called_unproven(pod: CompilePod, s3: Any) -> None:
    (pod.cgroup / "memory.peak").write_text(f"{200 * GIB}\n")
    (pod.cgroup / "memory.max").write_text(f"{480 * GIB}\n")
    assert pod.run() == 0, pod.log.read_text()
    stored = unproven(s3)
    assert stored is not None
    folder = stored.graphs.folder
    assert keys(s3) == {
        f"{KEY}/_UNPROVEN.json",
        f"{folder}/model.pt",
        f"{folder}/neuron_config.json",
    }
    assert stored.graphs.inputs == INPUTS
    assert stored.graphs.checkpoints == {"target": COMMIT}
    assert stored.graphs.compile_seconds < HANGS_AFTER_SECONDS
    host = stored.compiled_on
    assert (host.attempt, host.workers, host.environment) == (1, 4, DEVICE)
    assert (host.peak_memory_bytes, host.memory_bytes) == (200 * GIB, 480 * GIB)
    assert host.vcpus == len(os.sched_getaffinity(0))
    said = report(s3)
    assert said is not None
    assert (said.outcome, said.job_name, said.attempt) == ("compiled", "compile-1", 1)
    assert said.peak_memory_bytes == 200 * GIB
    assert said.compile_seconds == stored.graphs.compile_seconds


def test_the_engine_is_built_with_the_servers_own_command_line(pod: CompilePod) -> None:
    assert pod.run() == 0
    made = pod.configuration()
    assert made["model"] == "/models/target"
    assert made["max_num_seqs"] == 4
    assert made["speculative_config"] == {"k": 7}
    assert made["usage"] == "OPENAI_API_SERVER"


def test_what_the_servers_parser_refuses_fails_for_good(pod: CompilePod, s3: Any) -> None:
    assert pod.run(serve=(*SERVE, "--no-such-flag")) == 2
    said = report(s3)
    assert said is not None
    assert said.outcome == "failed"
    assert any("--no-such-flag" in line for line in said.last_lines)


@pytest.mark.parametrize(("failures", "workers"), [(0, 4), (1, 2), (2, 1), (5, 1)])
def test_each_further_attempt_has_half_of_the_workers(
    pod: CompilePod, s3: Any, failures: int, workers: int
) -> None:
    """Also after a pod that died without a word: the Job counts it."""
    assert pod.run(failures=failures) == 0
    assert pod.configuration()["workers"] == workers
    stored = unproven(s3)
    assert stored is not None
    assert (stored.compiled_on.workers, stored.compiled_on.attempt) == (workers, failures + 1)
    cpus = max(1, len(os.sched_getaffinity(0)) >> failures)
    assert pod.configuration()["cpus"] == stored.compiled_on.vcpus == cpus


def test_the_scratch_folder_takes_what_the_builder_writes(pod: CompilePod) -> None:
    assert pod.run() == 0
    assert (pod.scratch / "work" / "graph.hlo").exists()


# What fails

FINAL = {
    "compiler": "the compiler failed by itself (exit code 70)",
    "empty": "model.pt of",
    "target": "compiled for trn1, asked for trn2",
    "cores": "compiled for 1 physical cores in a logical one, asked for 2",
    "nothing": "vLLM ended with exit code 1 and has compiled nothing",
    "python": "vLLM ended with exit code 1 and has compiled nothing",
}


@pytest.mark.parametrize(("trouble", "reason"), FINAL.items(), ids=FINAL)
def test_what_no_retry_changes_is_reported_at_once(
    pod: CompilePod, s3: Any, trouble: str, reason: str
) -> None:
    assert pod.run(trouble) == 2, pod.log.read_text()
    said = report(s3)
    assert said is not None
    assert said.outcome == "failed"
    assert reason in said.text
    assert keys(s3) == set()


def test_without_a_target_nothing_is_compiled(pod: CompilePod, s3: Any) -> None:
    assert pod.run(NEURON_PLATFORM_TARGET_OVERRIDE="") == 2
    said = report(s3)
    assert said is not None
    assert "NEURON_PLATFORM_TARGET_OVERRIDE: not set" in said.text
    assert not (pod.scratch / "work").exists()


@pytest.mark.parametrize(
    ("trouble", "reason", "code"),
    [
        ("killed", "killed (SIGKILL), most likely because memory ran out", 137),
        ("a compiler killed", "memory ran out: the kernel killed a process", 137),
        ("crash", "ended by signal 6", 1),
    ],
)
def test_what_a_further_attempt_may_mend_is_reported_by_the_last_one_only(
    pod: CompilePod, s3: Any, trouble: str, reason: str, code: int
) -> None:
    assert pod.run(trouble) == code
    assert reason in pod.log.read_text()
    assert report(s3) is None, "who waits would go on without the graphs"
    again = CompilePod(root=pod.root / "again", endpoint=pod.endpoint)
    assert again.run(trouble, failures=1) == code
    said = report(s3)
    assert said is not None
    assert (said.outcome, said.attempt, said.workers) == ("failed", 2, 2)
    assert reason in said.text


def test_memory_that_ran_out_is_said_with_what_the_kernel_tells(pod: CompilePod) -> None:
    (pod.cgroup / "memory.current").write_text(f"{3 * GIB}\n")
    (pod.cgroup / "memory.max").write_text("max\n")
    assert pod.run("killed") == 137
    assert "used at most: 3.0 GiB, allowed: not known" in pod.log.read_text()


def test_an_attempt_after_memory_ran_out_compiles_and_reports(pod: CompilePod, s3: Any) -> None:
    assert pod.run("killed") == 137
    again = CompilePod(root=pod.root / "again", endpoint=pod.endpoint)
    assert again.run(failures=1) == 0
    said = report(s3)
    assert said is not None
    assert (said.outcome, said.attempt, said.workers) == ("compiled", 2, 2)


def test_a_command_that_is_no_servers_is_refused(pod: CompilePod, s3: Any) -> None:
    assert pod.run(serve=("python3", "serve")) == 2
    assert pod.run(workers=0) == 2
    assert report(s3) is None


# Others for the same key


def put(s3: Any, key: str, record: Any) -> None:
    s3.put_object(Bucket=BUCKET, Key=key, Body=dump_record(record))


def a_manifest() -> ArtifactManifest:
    return ArtifactManifest(
        key=KEY,
        inputs=INPUTS,
        checkpoints={},
        folder=f"{KEY}/other",
        files=(StoredFile(path="model.pt", size_bytes=1, sha256="0" * 64),),
        compile_seconds=1.0,
        uploaded_at_unix_s=1.0,
    )


REJECTION = Rejection(
    key=KEY,
    folder=f"{KEY}/other",
    server="vllm-k7",
    pod="a",
    reason="it did not load",
    rejected_at_unix_s=1.0,
)


@pytest.mark.parametrize(
    ("name", "record", "text"),
    [
        (manifest_key(KEY), a_manifest(), "is in the bucket, proven"),
        (rejected_key(KEY), REJECTION, "was rejected by a server: it did not load"),
    ],
)
def test_what_is_there_is_not_compiled_again(
    pod: CompilePod, s3: Any, name: str, record: Any, text: str
) -> None:
    put(s3, name, record)
    assert pod.run() == 0
    assert keys(s3) == {name}
    assert not (pod.scratch / "graphs").exists()
    said = report(s3)
    assert said is not None
    assert said.outcome == "not_needed"
    assert text in said.text


def test_graphs_that_are_unproven_already_are_not_compiled_again(pod: CompilePod, s3: Any) -> None:
    assert pod.run() == 0
    before = keys(s3)
    again = CompilePod(root=pod.root / "again", endpoint=pod.endpoint)
    assert again.run() == 0
    assert keys(s3) == before
    assert not (again.scratch / "graphs").exists()


def test_of_two_pods_at_once_the_second_removes_its_own_files_only(
    pod: CompilePod, s3: Any
) -> None:
    other = CompilePod(root=pod.root / "other", endpoint=pod.endpoint)
    codes: list[int] = []
    both = [threading.Thread(target=lambda p=p: codes.append(p.run())) for p in (pod, other)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert codes == [0, 0]
    stored = unproven(s3)
    assert stored is not None
    assert {key.split("/")[1] for key in keys(s3)} == {
        "_UNPROVEN.json",
        stored.graphs.folder.split("/")[1],
    }


def test_a_job_that_is_late_removes_its_own_files(pod: CompilePod, s3: Any) -> None:
    """A server has compiled and uploaded meanwhile: what is proven counts."""
    go = pod.root / "go"
    with pod.running(TROUBLE="wait", GO=str(go)) as process:
        eventually(lambda: "compiling" in pod.log.read_text())
        put(s3, manifest_key(KEY), a_manifest())
        go.touch()
        assert process.wait(timeout=HANGS_AFTER_SECONDS) == 0
    assert keys(s3) == {manifest_key(KEY)}
    said = report(s3)
    assert said is not None
    assert said.outcome == "not_needed"
    assert "what was compiled here is removed" in said.text


def _is_sleeping(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == "sleep"
    except OSError:
        return False


def test_an_upload_that_s3_refuses_is_no_defect_and_another_pod_may_do_better() -> None:
    """boto3 has an error of its own for uploads, beside those of botocore."""

    def run() -> None:
        raise S3UploadFailedError("Failed to upload model.pt: SlowDown")

    text, code, outcome, _ = _outcome(cast(Job, SimpleNamespace(run=run)))
    assert text == "S3UploadFailedError: Failed to upload model.pt: SlowDown"
    assert (code, outcome) == (1, "failed")


# Signals


def test_sigterm_ends_it_and_what_it_started_and_leaves_nothing_in_the_bucket(
    pod: CompilePod, s3: Any
) -> None:
    with pod.running(TROUBLE="hang") as process:
        eventually(lambda: any(map(_is_sleeping, descendants(process.pid))))
        family = [*descendants(process.pid)]
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=HANGS_AFTER_SECONDS) == 128 + signal.SIGTERM
        eventually(lambda: not any(map(_is_sleeping, family)))
    assert keys(s3) == set()
    assert report(s3) is None


def test_a_bucket_that_cannot_be_reached_is_tried_by_another_pod(pod: CompilePod, s3: Any) -> None:
    assert pod.run(AWS_ENDPOINT_URL="http://127.0.0.1:9", AWS_MAX_ATTEMPTS="1") == 1


def test_a_report_that_cannot_be_put_costs_no_graphs(pod: CompilePod, s3: Any) -> None:
    s3.delete_bucket(Bucket=RESULTS)
    assert pod.run() == 0
    assert unproven(s3) is not None
    assert "it cannot be reported" in pod.log.read_text()
