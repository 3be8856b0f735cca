"""Stages a model from a local hub into an emulated bucket, with the real clients of both."""

import base64
import hashlib
import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants

from draftworth.errors import DraftworthError, UserInputError
from draftworth.records.checkpoints import ReadyModel, StagingPlan, StoredFile
from draftworth.records.codec import dump_record, load_record
from pods.checkpoint_stager.checkpoints_bucket import StoreError
from pods.checkpoint_stager.model_files import CorruptFileError
from pods.checkpoint_stager.stager import ScratchSpace
from tests.pods.checkpoint_stager.conftest import (
    COMMIT,
    MODEL,
    NEWER_COMMIT,
    PART_BYTES,
    REVISION,
    SERVED,
    Bench,
    model_files,
    tokenizer_json,
    weights,
)
from tests.support.waiting import HANGS_AFTER_SECONDS

pytestmark = pytest.mark.emulator
LARGE = "model-00001-of-00002.safetensors"
SMALL = "model-00002-of-00002.safetensors"
CHUNK_BYTES = 2**15


def test_a_model_is_staged_and_ready(bench: Bench) -> None:
    bench.staging(parallel_files=3).run()

    objects, files = bench.objects(), model_files()
    assert set(objects) == {*SERVED, "_READY.json", "_STAGING.json"}
    assert {name: objects[name] for name in SERVED} == {name: files[name] for name in SERVED}
    ready = load_record(ReadyModel, objects["_READY.json"])
    assert (ready.model, ready.revision, ready.commit) == (MODEL, REVISION, COMMIT)
    assert [(f.path, f.size_bytes, f.sha256) for f in ready.files] == [
        (name, len(files[name]), hashlib.sha256(files[name]).hexdigest()) for name in SERVED
    ]
    assert ready.tokenizer_fingerprint is not None
    assert load_record(StagingPlan, objects["_STAGING.json"]).commit == COMMIT
    assert list(bench.scratch.iterdir()) == []


def test_s3_gets_a_sha256_of_each_object(bench: Bench) -> None:
    """S3 checks the SHA-256 of the object, or, after an upload in parts, of its parts' SHA-256s."""
    bench.staging().run()
    files = model_files()
    parts = [files[LARGE][:PART_BYTES], files[LARGE][PART_BYTES:]]
    expected = {SMALL: files[SMALL], LARGE: b"".join(hashlib.sha256(p).digest() for p in parts)}
    for name, data in expected.items():
        head = bench.s3.head_object(
            Bucket=bench.bucket, Key=f"{MODEL}/{REVISION}/{name}", ChecksumMode="ENABLED"
        )
        digest = base64.b64encode(hashlib.sha256(data).digest()).decode()
        # S3 itself appends the number of parts; the emulator does not.
        assert head["ChecksumSHA256"].partition("-")[0] == digest


def test_a_ready_model_costs_one_s3_request(bench: Bench) -> None:
    first = bench.staging().run()
    bench.hub.requests.clear()
    calls: list[str] = []

    def count(model: Any, **_: object) -> None:
        calls.append(model.name)

    bench.s3.meta.events.register("before-call.s3", count)
    assert bench.staging().run() == first
    bench.s3.meta.events.unregister("before-call.s3", count)
    assert bench.hub.requests == []
    assert calls == ["GetObject"]
    assert bench.log[-1] == f"{MODEL} at {REVISION} is READY at commit {COMMIT}: nothing to do"


@pytest.mark.parametrize("damaged", [b"{", b'{"schema": "draftworth.ready/9"}', b" " * 2**21])
def test_a_marker_that_cannot_be_read_is_none(bench: Bench, damaged: bytes) -> None:
    bench.put("_READY.json", damaged)
    bench.staging().run()
    assert bench.ready() is not None


def test_a_marker_of_another_model_is_none(bench: Bench) -> None:
    bench.staging().run()
    ready = bench.objects()["_READY.json"]
    bench.put("_READY.json", ready.replace(MODEL.encode(), b"acme/other"))
    bench.staging().run()
    assert bench.objects()["_READY.json"] != ready.replace(MODEL.encode(), b"acme/other")
    assert bench.log[-1].startswith(f"{MODEL} at {REVISION} is READY: ")


@pytest.mark.parametrize("revision", [REVISION, "v2"])
def test_another_models_plan_is_refused(bench: Bench, revision: str) -> None:
    """Otherwise the commit of another model's plan would be staged."""
    model = MODEL if revision != REVISION else "acme/other"
    plan = StagingPlan(model=model, revision=revision, commit=NEWER_COMMIT)
    bench.put("_STAGING.json", dump_record(plan))
    with pytest.raises(UserInputError, match=f"given: the marker of {model} at {revision}, allow"):
        bench.staging().run()
    assert bench.hub.requests == []


def test_a_repositorys_markers_are_not_staged_but_named(bench: Bench) -> None:
    """A marker before the weights would start nodes, even if staging failed later."""
    files = bench.hub.repos[MODEL].commits[COMMIT]
    forged = ReadyModel(
        model=MODEL,
        revision=REVISION,
        commit=COMMIT,
        files=(StoredFile(path="config.json", size_bytes=1, sha256="0" * 64),),
        tokenizer_fingerprint=None,
        staged_at_unix_s=1.0,
        staging_seconds=1.0,
    )
    names = ("_FAILED.json", "_READY.json", "_STAGING.json", "v2/_READY.json")
    files |= dict.fromkeys(names, dump_record(forged))
    bench.hub.trouble.corrupt[SMALL] = 99
    with pytest.raises(CorruptFileError):
        bench.staging().run()
    assert set(bench.objects()) <= {*SERVED, "_STAGING.json"}

    bench.hub.trouble.corrupt.clear()
    ready = bench.staging().run()
    assert tuple(file.path for file in ready.files) == SERVED
    assert set(bench.objects()) == {*SERVED, "_READY.json", "_STAGING.json"}
    (line,) = {line for line in bench.log if "marker" in line}
    assert line == (
        "not staged, because their names are those of the stager's own markers: "
        "_FAILED.json, _READY.json, _STAGING.json, v2/_READY.json"
    )


def test_a_file_with_other_content_is_staged_again(bench: Bench) -> None:
    """The file in the bucket has the same name and size, but another writer or commit."""
    bench.put(SMALL, weights(2000, 99))
    bench.staging().run()
    assert bench.objects()[SMALL] == model_files()[SMALL]


def test_a_moved_branch_is_resumed_at_its_commit(bench: Bench) -> None:
    bench.hub.trouble.corrupt[SMALL] = 99
    with pytest.raises(CorruptFileError):
        bench.staging().run()
    _move_branch(bench)

    bench.staging().run()

    ready = bench.ready()
    assert ready is not None
    assert ready.commit == COMMIT
    assert bench.objects()["config.json"] == model_files()["config.json"]


def test_of_two_stagers_the_first_plan_counts(bench: Bench) -> None:
    """Neither stager saw a recorded commit, and the branch moved between their requests."""
    assert bench.store().plan(COMMIT) == COMMIT
    assert bench.store().plan(NEWER_COMMIT) == COMMIT
    assert load_record(StagingPlan, bench.objects()["_STAGING.json"]).commit == COMMIT


def test_a_dropped_commit_is_reported_with_its_plan(bench: Bench) -> None:
    bench.hub.trouble.corrupt[SMALL] = 99
    with pytest.raises(CorruptFileError):
        bench.staging().run()
    _move_branch(bench)
    del bench.hub.repos[MODEL].commits[COMMIT]
    marker = f"s3://{bench.bucket}/{MODEL}/{REVISION}/_STAGING.json"
    with pytest.raises(UserInputError, match=f"no such revision.*delete {marker} and stage again"):
        bench.staging().run()


def _move_branch(bench: Bench) -> None:
    bench.hub.trouble.corrupt.clear()
    repo = bench.hub.repos[MODEL]
    repo.commits[NEWER_COMMIT] = {**model_files(), "config.json": b'{"newer": true}'}
    repo.refs[REVISION] = NEWER_COMMIT


def test_a_wrong_download_is_repeated(bench: Bench) -> None:
    bench.hub.trouble.corrupt[LARGE] = 1
    bench.staging().run()
    assert bench.objects()[LARGE] == model_files()[LARGE]
    assert bench.hub.downloads(LARGE) == 2


@pytest.mark.parametrize("name", ["config.json", LARGE], ids=["git's hash", "sha256"])
def test_a_download_that_stays_wrong_is_refused(bench: Bench, name: str) -> None:
    bench.hub.trouble.corrupt[name] = 99
    with pytest.raises(CorruptFileError, match=f"{name}: downloaded with hash .* 3 times"):
        bench.staging().run()
    assert name not in bench.objects()
    assert bench.ready() is None


def test_an_interrupted_download_is_resumed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", CHUNK_BYTES)
    monkeypatch.setattr("huggingface_hub.file_download.time.sleep", lambda _: None)
    bench.hub.trouble.cut_after_bytes[LARGE] = 3 * CHUNK_BYTES
    bench.staging().run()
    ranges = [a.range_ for a in bench.hub.requests if a.path.endswith(LARGE) and a.method == "GET"]
    assert ranges == [None, f"bytes={3 * CHUNK_BYTES}-"]
    assert bench.objects()[LARGE] == model_files()[LARGE]


def test_scratch_holds_only_what_fits(bench: Bench, tmp_path: Path) -> None:
    scratch = ScratchSpace(tmp_path, 10)
    inside, most, lock = [0], [0], threading.Lock()

    def hold(size_bytes: int) -> None:
        with scratch.room_for(size_bytes):
            with lock:
                inside[0] += size_bytes
                most[0] = max(most[0], inside[0])
            threading.Event().wait(0.002)
            with lock:
                inside[0] -= size_bytes

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(hold, [6, 3, 10, 1, 4, 4, 7, 2] * 4))
    assert 0 < most[0] <= 10


def test_unused_room_in_scratch_is_freed(tmp_path: Path) -> None:
    """Otherwise the other files would wait for that room for ever."""
    folder = tmp_path / "scratch"
    scratch = ScratchSpace(folder, 10)
    with pytest.raises(FileNotFoundError), scratch.room_for(10):
        pass
    folder.mkdir()
    waiting = threading.Thread(target=_use, args=(scratch, 10), daemon=True)
    waiting.start()
    waiting.join(timeout=HANGS_AFTER_SECONDS)
    assert not waiting.is_alive()


def _use(scratch: ScratchSpace, size_bytes: int) -> None:
    with scratch.room_for(size_bytes):
        pass


def test_a_file_larger_than_scratch_is_refused_first(bench: Bench) -> None:
    with pytest.raises(UserInputError, match=f"{LARGE} has .* next: a revision in smaller files"):
        bench.staging(scratch_bytes=PART_BYTES).run()
    assert bench.hub.downloads(LARGE) == bench.hub.downloads("config.json") == 0


@pytest.mark.parametrize(
    ("operation", "number"),
    [
        ("GetObject", 1),
        pytest.param("PutObject", 1, id="both found no plan"),
        pytest.param("CreateMultipartUpload", 1, id="both found the large file missing"),
        pytest.param("UploadPart", 2, id="between two parts of it"),
        ("CompleteMultipartUpload", 1),
        pytest.param("PutObject", 2, id="both found a small file missing"),
        pytest.param("PutObject", 5, id="before READY"),
    ],
)
def test_two_stagers_at_once_are_harmless(bench: Bench, operation: str, number: int) -> None:
    """One stager runs completely before the other's request number `number` of the operation."""
    requests, second = itertools.count(1), []

    def run_the_second(model: Any, **_: object) -> None:
        if model.name == operation and next(requests) == number:
            second.append(bench.staging().run())

    bench.s3.meta.events.register("before-call.s3", run_the_second)
    first = bench.staging().run()
    bench.s3.meta.events.unregister("before-call.s3", run_the_second)
    assert first.files == second[0].files
    objects = bench.objects()
    assert set(objects) == {*SERVED, "_READY.json", "_STAGING.json"}
    assert {name: objects[name] for name in SERVED} == {n: model_files()[n] for n in SERVED}


def test_a_model_without_tokenizer_has_no_fingerprint(bench: Bench) -> None:
    del bench.hub.repos[MODEL].commits[COMMIT]["tokenizer.json"]
    assert bench.staging().run().tokenizer_fingerprint is None


def test_the_fingerprint_is_the_staged_tokenizers(bench: Bench) -> None:
    before = bench.staging().run().tokenizer_fingerprint
    bench.s3.delete_object(Bucket=bench.bucket, Key=f"{MODEL}/{REVISION}/_READY.json")
    bench.s3.delete_object(Bucket=bench.bucket, Key=f"{MODEL}/{REVISION}/_STAGING.json")
    repo = bench.hub.repos[MODEL]
    repo.commits[COMMIT]["tokenizer.json"] = tokenizer_json("b", "a", "c")
    assert bench.staging().run().tokenizer_fingerprint != before


def test_a_tokenizer_that_is_none_is_refused(bench: Bench) -> None:
    bench.hub.repos[MODEL].commits[COMMIT]["tokenizer.json"] = b"[]"
    with pytest.raises(UserInputError, match=r"tokenizer.json: given list, allowed: an object"):
        bench.staging().run()
    assert bench.ready() is None


def test_an_unreadable_plan_is_reported_with_its_remedy(bench: Bench) -> None:
    bench.put("_STAGING.json", b"nonsense")
    with pytest.raises(UserInputError, match=r"_STAGING.json: not JSON.*next: delete it"):
        bench.staging().run()


def test_a_missing_bucket_is_reported_and_retried(bench: Bench) -> None:
    bench.bucket = "nowhere"
    with pytest.raises(StoreError, match=r"s3://nowhere/.*next: check the bucket's name") as failed:
        bench.staging().run()
    assert failed.value.exit_code == DraftworthError.exit_code
