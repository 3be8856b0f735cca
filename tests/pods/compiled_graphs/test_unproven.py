"""Graphs compiled without a device, in a serving pod: with real processes and S3 calls."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from draftworth.records.artifact_manifest import ArtifactManifest, manifest_key
from draftworth.records.codec import dump_record, load_record
from draftworth.records.server_state import GraphsFrom, ServerState
from draftworth.records.unproven_graphs import (
    CompileHost,
    Rejection,
    UnprovenManifest,
    rejected_key,
    unproven_key,
)
from pods.compiled_graphs.graph_bucket import GraphBucket, inventory
from tests.pods.compiled_graphs.conftest import PodFactory
from tests.pods.compiled_graphs.pods import (
    BUCKET,
    CACHE_FLAGS,
    INPUTS,
    KEY,
    SERVER,
    Pod,
    eventually,
    keys,
    stored_manifest,
    what_is_not_whole,
)
from tests.pods.compiled_graphs.stand_in_vllm import FILES
from tests.pods.compiled_graphs.test_parent import phase, vllm_of
from tests.support.waiting import HANGS_AFTER_SECONDS

pytestmark = pytest.mark.emulator
FOLDER = f"{KEY}/fromcpu"
HOST = CompileHost(
    instance_type="m7i.16xlarge",
    vcpus=64,
    memory_bytes=None,
    attempt=1,
    workers=4,
    peak_memory_bytes=None,
    environment={},
)


def put_unproven(
    s3: Any,
    root: Path,
    *,
    inputs: Mapping[str, Any] = INPUTS,
    model: bytes = FILES["model.pt"],
    entry: str = "",
) -> UnprovenManifest:
    """What a compile Job leaves. entry: of a cache."""
    for name, content in {**FILES, "model.pt": model}.items():
        path = root / "compiled" / entry / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    graphs = ArtifactManifest(
        key=KEY,
        inputs=inputs,
        checkpoints={},
        folder=FOLDER,
        files=tuple(inventory(root / "compiled")),
        compile_seconds=100.0,
        uploaded_at_unix_s=1.0,
    )
    bucket = GraphBucket(client=s3, name=BUCKET)
    bucket.put_files(root / "compiled", graphs)
    record = UnprovenManifest(graphs=graphs, compiled_on=HOST)
    bucket.put_once(unproven_key(KEY), record)
    return record


@pytest.fixture
def unproven(s3: Any, tmp_path: Path) -> UnprovenManifest:
    return put_unproven(s3, tmp_path)


def mounting(pod: Pod, s3: Any) -> Pod:
    pod.mount(s3)
    return pod


def rejection(s3: Any) -> Rejection | None:
    if rejected_key(KEY) not in keys(s3):
        return None
    return load_record(
        Rejection, s3.get_object(Bucket=BUCKET, Key=rejected_key(KEY))["Body"].read()
    )


def healthy(s3: Any, graphs: GraphsFrom) -> ServerState:
    """The state of a server that got healthy in its first start."""
    found = phase(s3, "healthy")
    assert (found.graphs, found.start, found.pod != "") == (graphs, 1, True)
    return found


# What works


def test_a_server_that_answers_makes_them_proven(
    pod: PodFactory, s3: Any, unproven: UnprovenManifest
) -> None:
    first = mounting(pod("first"), s3)
    before = keys(s3)
    with first.server(), first.uploader():
        assert first.what_vllm_did() == f"loaded {first.scratch}/graphs/{KEY}"
        assert "not proven yet: tried" in first.log.read_text()
        manifest = eventually(lambda: stored_manifest(s3))
        assert healthy(s3, "unproven").rejection == ""
    assert manifest == unproven.graphs
    assert keys(s3) == before | {manifest_key(KEY)}, "something was copied"
    assert what_is_not_whole(s3) == []

    second = mounting(pod("second"), s3)
    with second.server():
        assert second.what_vllm_did() == f"loaded {second.mounted}/{FOLDER}"
        eventually(lambda: phase(s3, "healthy").pod == "second")
        healthy(s3, "proven")


def test_health_alone_proves_nothing(pod: PodFactory, s3: Any, unproven: UnprovenManifest) -> None:
    """The uploader meets a healthy server whose parent has not asked it: nothing is promoted."""
    first = mounting(pod("first"), s3)
    with first.server():
        healthy(s3, "unproven")
        (first.scratch / "proof.json").unlink()
        with first.uploader():
            eventually(lambda: first.healthy())
            assert not _happens_soon(lambda: stored_manifest(s3))


def _happens_soon(condition: Any) -> bool:
    """The uploader looks every 0.05 s; how long a busy machine takes cannot make this fail."""
    try:
        eventually(condition, seconds=1.0)
    except AssertionError:
        return False
    return True


# What does not


@pytest.mark.parametrize(
    ("environment", "reason", "line"),
    [
        ({"LOAD": "crash"}, "the server ended with exit code 7", "RuntimeError: nrt_load failed"),
        ({"LOAD": "hang"}, "the server was not healthy within 0.05 minutes", ""),
    ],
    ids=["crash", "hang"],
)
def test_what_cannot_be_used_is_rejected_for_all_and_compiled_in_the_same_start(
    pod: PodFactory,
    s3: Any,
    unproven: UnprovenManifest,
    environment: dict[str, str],
    reason: str,
    line: str,
) -> None:
    first = mounting(pod("first"), s3)
    minutes = "0.05" if environment.get("LOAD") == "hang" else "15"
    with (
        first.server(f"--unproven-minutes={minutes}", **environment),
        first.uploader(),
    ):
        state = healthy(s3, "rejected")
        assert first.what_vllm_did() == f"compiled {first.scratch}/graphs/{KEY}"
        manifest = eventually(lambda: stored_manifest(s3))
    assert reason in state.rejection
    found = rejection(s3)
    assert found is not None
    assert (found.folder, found.server, found.pod) == (FOLDER, SERVER, "first")
    assert found.reason == state.rejection
    assert not line or line in found.last_lines
    assert manifest.folder != FOLDER
    assert what_is_not_whole(s3) == []


def test_a_server_that_was_healthy_and_did_not_answer_compiles_in_a_new_container(
    pod: PodFactory, s3: Any, unproven: UnprovenManifest
) -> None:
    """The startup probe of its container is over. It is no further start: there is one here."""
    first = mounting(pod("first"), s3)
    with first.server("--starts=1", ANSWER="500") as process:
        process.wait(timeout=HANGS_AFTER_SECONDS)
        assert phase(s3, "ended").start == 1
    assert first.log.read_text().count("may take an hour or more") == 0
    with first.server("--starts=1", ANSWER="500"), first.uploader():
        assert first.what_vllm_did() == f"compiled {first.scratch}/graphs/{KEY}"
        state = eventually(lambda: phase(s3, "healthy"))
        eventually(lambda: stored_manifest(s3))
    assert (state.graphs, state.start) == ("rejected", 2)
    assert "the server was healthy and did not answer: completions" in state.rejection
    found = rejection(s3)
    assert found is not None
    assert found.reason == state.rejection


def test_a_server_that_hangs_with_its_answer_is_rejected_before_its_container_is_ended(
    pod: PodFactory, s3: Any, unproven: UnprovenManifest
) -> None:
    first = mounting(pod("first"), s3)
    with first.server("--answer-seconds=1", ANSWER="hang") as process:
        process.wait(timeout=HANGS_AFTER_SECONDS)
    assert "timed out" in (first.scratch / "rejection.json").read_text()


def test_what_was_rejected_is_tried_by_nobody_again(
    pod: PodFactory, s3: Any, unproven: UnprovenManifest
) -> None:
    first = mounting(pod("first"), s3)
    with first.server(LOAD="crash"), first.uploader():
        healthy(s3, "rejected")
        eventually(lambda: rejection(s3))
    s3.delete_object(Bucket=BUCKET, Key=manifest_key(KEY))
    second = mounting(pod("second"), s3)
    (second.mounted / manifest_key(KEY)).unlink(missing_ok=True)
    with second.server(LOAD="crash"):
        assert second.what_vllm_did().startswith("compiled ")
        eventually(lambda: phase(s3, "healthy").pod == "second")
        assert "exit code 7" in healthy(s3, "rejected").rejection
    assert "not proven yet: tried" not in second.log.read_text()


def test_a_rejection_that_nobody_can_be_told_of_holds_for_the_pod(
    pod: PodFactory, s3: Any, unproven: UnprovenManifest
) -> None:
    first = mounting(pod("first"), s3)
    for _ in range(2):
        with first.server(LOAD="crash"):
            assert first.what_vllm_did().startswith("compiled ")
    assert rejection(s3) is None
    assert first.log.read_text().count("nrt_load failed") == 1


def test_graphs_for_something_else_are_rejected_with_the_difference_and_not_refused(
    pod: PodFactory, s3: Any, tmp_path: Path
) -> None:
    put_unproven(s3, tmp_path, inputs={**INPUTS, "window": 5})
    first = mounting(pod("first"), s3)
    with first.server(), first.uploader():
        assert first.what_vllm_did().startswith("compiled ")
        found = eventually(lambda: rejection(s3))
        healthy(s3, "rejected")
    assert "window: compiled for 5, asked for 7" in found.reason


def test_a_copy_with_another_content_is_rejected(
    pod: PodFactory, s3: Any, unproven: UnprovenManifest
) -> None:
    first = mounting(pod("first"), s3)
    file = first.mounted / FOLDER / "model.pt"
    file.write_bytes(b"x" * file.stat().st_size)
    with first.server(), first.uploader():
        assert first.what_vllm_did().startswith("compiled ")
        found = eventually(lambda: rejection(s3))
    assert "its content is not what was uploaded" in found.reason


@pytest.mark.parametrize("name", [unproven_key(KEY), rejected_key(KEY)])
def test_a_record_that_cannot_be_read_is_neither_tried_nor_rejected(
    pod: PodFactory, s3: Any, unproven: UnprovenManifest, name: str
) -> None:
    first = mounting(pod("first"), s3)
    (first.mounted / name).write_text("{")
    with first.server(), first.uploader():
        assert first.what_vllm_did().startswith("compiled ")
        eventually(lambda: stored_manifest(s3))
        healthy(s3, "compiled")
    assert rejection(s3) is None
    assert "not tried:" in first.log.read_text()


def test_an_engine_that_compiles_over_them_has_graphs_of_its_own(
    pod: PodFactory, s3: Any, tmp_path: Path
) -> None:
    put_unproven(s3, tmp_path, model=b"cannot be loaded")
    first = mounting(pod("first"), s3)
    with first.server(LOAD="compile over"), first.uploader():
        manifest = eventually(lambda: stored_manifest(s3))
        found = eventually(lambda: rejection(s3))
        healthy(s3, "rejected")
    assert "compiled over them" in found.reason
    assert manifest.compile_seconds > 0
    assert manifest.folder != FOLDER
    assert what_is_not_whole(s3) == []


def test_a_container_that_died_without_a_word_is_followed_by_one_that_compiles(
    pod: PodFactory, s3: Any, unproven: UnprovenManifest
) -> None:
    first = mounting(pod("first"), s3)
    with first.server(LOAD="without a word") as process:
        assert process.wait(timeout=HANGS_AFTER_SECONDS) == -signal.SIGKILL
    with first.server(LOAD="without a word"), first.uploader():
        assert first.what_vllm_did().startswith("compiled ")
        found = eventually(lambda: rejection(s3))
    assert "ended without a word" in found.reason


def test_a_try_that_is_ended_from_outside_rejects_nothing(
    pod: PodFactory, s3: Any, unproven: UnprovenManifest
) -> None:
    """The pod is moved: the next one tries again."""
    first = mounting(pod("first"), s3)
    with first.server(LOAD="hang") as process, first.uploader():
        eventually(lambda: "loading" in first.log.read_text())
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=HANGS_AFTER_SECONDS) == 128 + signal.SIGTERM
        phase(s3, "ended")
    assert not (first.scratch / "rejection.json").exists()
    with first.server(), first.uploader():
        assert first.what_vllm_did().startswith("loaded ")
        eventually(lambda: stored_manifest(s3))
    assert rejection(s3) is None


def test_a_program_that_is_not_there_says_nothing_of_its_graphs(
    pod: PodFactory, s3: Any, unproven: UnprovenManifest
) -> None:
    first = mounting(pod("first"), s3)
    (first.root / "bin" / "vllm").unlink()
    with first.server(PATH="/nowhere") as process:
        assert process.wait(timeout=HANGS_AFTER_SECONDS) == 127
    assert not (first.scratch / "start.json").exists(), "the next start would reject them"
    assert not (first.scratch / "rejection.json").exists()


# A cache: what is not found in it ends the engine, where it has such a way.

ENTRY = "0123abcd"
WITHOUT_PROOF = CACHE_FLAGS[:3]


def test_a_cache_that_is_hit_is_proven_although_more_is_kept_in_it(
    pod: PodFactory, s3: Any, tmp_path: Path
) -> None:
    made = put_unproven(s3, tmp_path, entry=ENTRY)
    first = mounting(pod("first", flags=CACHE_FLAGS), s3)
    with first.server(LOAD="add"), first.uploader():
        assert first.what_vllm_did().startswith("loaded ")
        assert eventually(lambda: stored_manifest(s3)) == made.graphs
        healthy(s3, "unproven")
    assert rejection(s3) is None


@pytest.mark.parametrize("flags", [CACHE_FLAGS, WITHOUT_PROOF])
def test_a_cache_that_is_not_hit_is_rejected(
    pod: PodFactory, s3: Any, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    """Where a miss does not end the engine, what it compiled beside them shows it."""
    made = put_unproven(s3, tmp_path, entry="another")
    first = mounting(pod("first", flags=flags), s3)
    with first.server(), first.uploader():
        assert first.what_vllm_did().startswith("compiled ")
        manifest = eventually(lambda: stored_manifest(s3))
        healthy(s3, "rejected")
    assert manifest.folder != made.graphs.folder
    assert eventually(lambda: rejection(s3)).folder == made.graphs.folder


# Several


def test_of_one_pod_that_rejects_and_one_that_proves_the_proof_counts(
    pod: PodFactory, s3: Any, unproven: UnprovenManifest
) -> None:
    bad, good = mounting(pod("bad"), s3), mounting(pod("good"), s3)
    with bad.server(LOAD="crash", SECONDS_A_FILE="1000"), bad.uploader():
        eventually(lambda: rejection(s3))
        with good.server(), good.uploader():
            assert good.what_vllm_did().startswith("loaded ")
            manifest = eventually(lambda: stored_manifest(s3))
    assert manifest == unproven.graphs
    third = mounting(pod("third"), s3)
    assert {rejected_key(KEY), manifest_key(KEY)} < keys(s3)
    with third.server():
        assert third.what_vllm_did() == f"loaded {third.mounted}/{FOLDER}"
        eventually(lambda: phase(s3, "healthy").pod == "third")
        healthy(s3, "proven")


def test_a_pod_that_rejects_and_finds_a_proof_meanwhile_loads_it(
    pod: PodFactory, s3: Any, unproven: UnprovenManifest
) -> None:
    """Another pod has promoted them while this one tried."""
    first = mounting(pod("first"), s3)
    # A limit that the trial has used up: the load that follows has the longer one.
    with first.server("--load-minutes=0", LOAD="hang") as process:
        eventually(lambda: "loading" in first.log.read_text())
        path = first.mounted / manifest_key(KEY)
        path.write_bytes(dump_record(unproven.graphs))
        os.kill(vllm_of(process), signal.SIGKILL)
        eventually(lambda: first.log.read_text().count("loading") == 2)
        assert "are in the bucket" in first.log.read_text()


def test_a_job_that_is_late_changes_nothing_for_a_server_that_compiles(
    pod: PodFactory, s3: Any, tmp_path: Path
) -> None:
    first = mounting(pod("first"), s3)
    with first.server(SECONDS_A_FILE="0.3"), first.uploader():
        eventually(lambda: (first.scratch / "start.json").exists())
        put_unproven(s3, tmp_path)
        first.mount(s3)
        manifest = eventually(lambda: stored_manifest(s3))
        healthy(s3, "compiled")
    assert manifest.folder != FOLDER
    second = mounting(pod("second"), s3)
    with second.server():
        assert second.what_vllm_did() == f"loaded {second.mounted}/{manifest.folder}"


def test_graphs_that_were_removed_while_they_were_proven_are_not_promoted(
    pod: PodFactory, s3: Any, unproven: UnprovenManifest
) -> None:
    first = mounting(pod("first"), s3)
    s3.delete_object(Bucket=BUCKET, Key=unproven_key(KEY))
    with first.server(), first.uploader():
        eventually(lambda: "was removed from the bucket" in first.uploader_log.read_text())
    assert stored_manifest(s3) is None


def test_the_record_of_a_start_says_where_its_graphs_are(
    pod: PodFactory, s3: Any, unproven: UnprovenManifest
) -> None:
    first = mounting(pod("first"), s3)
    with first.server():
        healthy(s3, "unproven")
    record = json.loads((first.scratch / "start.json").read_text())
    assert (record["origin"], record["upload"]) == ("unproven", FOLDER)
