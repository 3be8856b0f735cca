"""What is prepared for a start; the inputs and the commits of the checkpoints are compared."""

import dataclasses
from hashlib import sha256
from pathlib import Path

import pytest

from draftworth.experiment.catalog import CompilerCache, catalog
from draftworth.records.artifacts import ArtifactManifest, RefusedGraphsError, manifest_key
from draftworth.records.checkpoints import READY_MARKER, ReadyModel, StoredFile
from draftworth.records.codec import dump_record
from pods.compiled_graphs.prepare import EngineFolders, Order, compiles_after_all, prepare
from pods.compiled_graphs.scratch import (
    MARK_NAME,
    RECORD_NAME,
    begin,
    is_whole,
    mark_whole,
    read_record,
)

KEY = "0123456789abcdef01234567"
COMMIT, OTHER_COMMIT = "a" * 40, "b" * 40
CACHES = {
    name: release.compiled_graphs
    for name, release in catalog().releases.items()
    if isinstance(release.compiled_graphs, CompilerCache)
}


def an_order(root: Path, *, commit: str | None = COMMIT) -> Order:
    target = root / "models" / "target"
    target.mkdir(parents=True, exist_ok=True)
    (target / READY_MARKER).unlink(missing_ok=True)
    if commit:
        (target / READY_MARKER).write_bytes(dump_record(a_staged_model(commit)))
    return Order(
        key=KEY,
        inputs={"window": 7},
        folders=EngineFolders(variable="GRAPHS"),
        artifacts=root / "mounted",
        scratch=root / "scratch",
        checkpoints={"target": target, "draft": root / "models" / "draft"},
    )


def a_staged_model(commit: str) -> ReadyModel:
    return ReadyModel(
        model="a/b",
        revision="main",
        commit=commit,
        files=(StoredFile(path="config.json", size_bytes=2, sha256="0" * 64),),
        tokenizer_fingerprint=None,
        staged_at_unix_s=1.0,
        staging_seconds=1.0,
    )


def put_graphs(root: Path, *, commit: str | None) -> Path:
    folder = root / "mounted" / KEY / "one"
    folder.mkdir(parents=True)
    (folder / "model.pt").write_bytes(b"graph")
    manifest = ArtifactManifest(
        key=KEY,
        inputs={"window": 7},
        checkpoints={"target": commit} if commit else {},
        folder=f"{KEY}/one",
        files=(StoredFile(path="model.pt", size_bytes=5, sha256="0" * 64),),
        compile_seconds=1.0,
        uploaded_at_unix_s=1.0,
    )
    (root / "mounted" / manifest_key(KEY)).write_bytes(dump_record(manifest))
    return folder


def test_the_commits_of_staged_checkpoints_are_written_down(tmp_path: Path) -> None:
    prepare(an_order(tmp_path))
    record = read_record(tmp_path / "scratch")
    assert record is not None
    assert record.checkpoints == {"target": COMMIT}


def test_a_graph_of_another_commit_is_refused(tmp_path: Path) -> None:
    put_graphs(tmp_path, commit=OTHER_COMMIT)
    with pytest.raises(
        RefusedGraphsError, match=f"compiled for commit {OTHER_COMMIT}, asked for commit {COMMIT}"
    ):
        prepare(an_order(tmp_path))


@pytest.mark.parametrize(
    ("compiled", "mounted"), [(COMMIT, COMMIT), (None, COMMIT), (COMMIT, None)]
)
def test_a_commit_that_one_side_does_not_know_is_not_compared(
    tmp_path: Path, compiled: str | None, mounted: str | None
) -> None:
    folder = put_graphs(tmp_path, commit=compiled)
    assert prepare(an_order(tmp_path, commit=mounted)).environment == {"GRAPHS": str(folder)}


def test_a_manifest_of_another_key_is_refused(tmp_path: Path) -> None:
    put_graphs(tmp_path, commit=None)
    text = (tmp_path / "mounted" / manifest_key(KEY)).read_text()
    (tmp_path / "mounted" / manifest_key(KEY)).write_text(text.replace(KEY, "f" * 24))
    with pytest.raises(RefusedGraphsError, match=r"the manifest belongs to f{24}"):
        prepare(an_order(tmp_path))


def test_everything_of_a_start_that_was_cut_off_goes(tmp_path: Path) -> None:
    order = an_order(tmp_path)
    prepare(order)
    leftovers = [tmp_path / "scratch" / name for name in ("graphs", "compile-cache")]
    for folder in leftovers:
        folder.mkdir(exist_ok=True)
        (folder / "x.lock").touch()
    prepare(order)
    assert [f for f in leftovers if f.exists()] == []


def test_what_is_marked_whole_is_kept_and_still_the_same_start(tmp_path: Path) -> None:
    order = an_order(tmp_path)
    before = prepare(order).environment
    record = read_record(order.scratch)
    assert record is not None
    graph = Path(record.graphs) / "model.pt"
    graph.parent.mkdir(parents=True)
    graph.touch()
    mark_whole(order.scratch, record)
    after = prepare(order)
    assert (after.environment, after.compiles) == (before, False)
    assert graph.exists()
    assert read_record(order.scratch) == record


@pytest.mark.parametrize(
    "why", ["a mark of another start", "a file that was cut off since", "a mark of no file"]
)
def test_what_is_not_whole_any_more_is_not_kept(tmp_path: Path, why: str) -> None:
    order = an_order(tmp_path)
    prepare(order)
    record = read_record(order.scratch)
    assert record is not None
    graph = Path(record.graphs) / "model.pt"
    graph.parent.mkdir(parents=True)
    graph.write_bytes(b"graph")
    if "no file" in why:
        graph.unlink()
        mark_whole(order.scratch, record)
        graph.write_bytes(b"gr")
    elif "mark" in why:
        mark_whole(order.scratch, dataclasses.replace(record, start_id="another"))
    else:
        mark_whole(order.scratch, record)
        graph.write_bytes(b"gr")
    prepare(order)
    assert not graph.exists()


def test_a_manifest_larger_than_any_of_ours_is_refused(tmp_path: Path) -> None:
    put_graphs(tmp_path, commit=COMMIT)
    with (tmp_path / "mounted" / manifest_key(KEY)).open("r+b") as file:
        file.truncate(10**12)  # no block of the disk is used
    with pytest.raises(RefusedGraphsError, match="cannot be read: more than 1,048,576 bytes"):
        prepare(an_order(tmp_path))


@pytest.mark.parametrize(
    "mark",
    [
        b"[" * 100_000,
        b"{}",
        b'{"start_id": "x", "sizes": {"a": 1e400}}',
        b'{"start_id": "x", "sizes": {"nul\\u0000": 1}}',
        b'{"start_id": "x", "sizes": []}',
        b" " * (2**20 + 1),
    ],
)
def test_a_mark_that_cannot_be_read_marks_nothing(tmp_path: Path, mark: bytes) -> None:
    prepare(an_order(tmp_path))
    scratch = tmp_path / "scratch"
    record = read_record(scratch)
    assert record
    (scratch / MARK_NAME).write_bytes(mark)
    assert not is_whole(scratch, record)


@pytest.mark.parametrize("data", [b"[" * 100_000, b"\xff", b" " * (2**20 + 1)])
def test_a_record_that_cannot_be_read_is_none(tmp_path: Path, data: bytes) -> None:
    (tmp_path / RECORD_NAME).write_bytes(data)
    assert read_record(tmp_path) is None


def test_only_a_restored_cache_is_proven_and_only_where_the_engine_can(tmp_path: Path) -> None:
    put_graphs(tmp_path, commit=None)
    (tmp_path / "mounted" / KEY / "one" / "model.pt").write_bytes(b"graph")
    order = an_order(tmp_path)
    cache = EngineFolders(variable="GRAPHS", cache="cache", proof="MISSES_ARE_FATAL")
    manifest = tmp_path / "mounted" / manifest_key(KEY)
    manifest.write_text(manifest.read_text().replace("0" * 64, sha256(b"graph").hexdigest()))
    proven = prepare(dataclasses.replace(order, folders=cache))
    assert (proven.compiles, proven.proof) == (False, {"MISSES_ARE_FATAL": "1"})
    assert prepare(order).proof == {}
    manifest.unlink()
    new = prepare(dataclasses.replace(order, folders=cache))
    assert (new.compiles, new.proof) == (True, {})


def test_a_mount_that_fails_refuses_nothing(tmp_path: Path) -> None:
    """Another start may read it."""
    put_graphs(tmp_path, commit=COMMIT)
    path = tmp_path / "mounted" / manifest_key(KEY)
    path.unlink()
    path.mkdir()  # it cannot be read as a file
    with pytest.raises(OSError, match="a folder"):
        prepare(an_order(tmp_path))


def test_what_was_not_hit_becomes_a_start_that_compiles(tmp_path: Path) -> None:
    """So that its graphs, once it is healthy, are this pod's to keep."""
    put_graphs(tmp_path, commit=COMMIT)
    order = an_order(tmp_path)
    prepare(order)
    before = read_record(order.scratch)
    compiles_after_all(order)
    after = read_record(order.scratch)
    assert before
    assert after
    assert (before.origin, after.origin) == ("bucket", "compiled")
    assert before.start_id != after.start_id
    assert before.graphs == after.graphs


def test_the_count_of_starts_outlives_what_a_start_left(tmp_path: Path) -> None:
    order = an_order(tmp_path)
    begin(order.scratch)
    prepare(order)
    assert begin(order.scratch).number == 2


@pytest.mark.parametrize("name", CACHES)
def test_a_cache_is_restored_where_the_engine_looks_for_it(name: str, tmp_path: Path) -> None:
    """Also one that is kept whole, with the traces that lie beside the graphs."""
    cache = CACHES[name]
    folders = EngineFolders(variable=cache.variable, cache=cache.folder)
    mounted, root = tmp_path / "mounted", tmp_path / "scratch" / "graphs" / "key"
    inside = "neuron/compile_cache/hash/graph.neff".removeprefix(f"{cache.folder}/")
    file = mounted / inside
    file.parent.mkdir(parents=True)
    file.write_bytes(b"a graph")
    digest = sha256(b"a graph").hexdigest()
    manifest = ArtifactManifest(
        key="key",
        inputs={},
        checkpoints={},
        folder="key/upload",
        files=(StoredFile(path=inside, size_bytes=7, sha256=digest),),
        compile_seconds=1.0,
        uploaded_at_unix_s=1.0,
    )

    assert folders.take_over(mounted, manifest, root) == root
    assert (root / "neuron/compile_cache/hash/graph.neff").read_bytes() == b"a graph"
    assert folders.graphs(root) / inside == root / "neuron/compile_cache/hash/graph.neff"
