"""Which graphs are prepared for a start; the manifest's inputs and commits are compared."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from draftworth.experiment.catalog import CompilerCache, catalog
from draftworth.records.checkpoints import READY_MARKER
from draftworth.records.codec import dump_record
from draftworth.records.graph_manifests import RefusedGraphsError, manifest_key
from pods.compiled_graphs import scratch_records
from pods.compiled_graphs.prepare_graphs import Order, prepare
from tests.lambdas.capacity_controller import plans
from tests.pods.compiled_graphs import pods

KEY = pods.KEY
COMMIT, OTHER_COMMIT = "a" * 40, "b" * 40
CACHES = {
    name: release.compiled_graphs
    for name, release in catalog().releases.items()
    if isinstance(release.compiled_graphs, CompilerCache)
}


@pytest.fixture
def order(tmp_path: Path) -> Order:
    return an_order(tmp_path)


def an_order(root: Path, *, commit: str | None = COMMIT) -> Order:
    target = root / "models" / "target"
    target.mkdir(parents=True, exist_ok=True)
    if commit:
        staged = replace(plans.make_ready(plans.TARGET), commit=commit)
        (target / READY_MARKER).write_bytes(dump_record(staged))
    mounted = {"target": target, "draft": root / "models" / "draft"}
    return pods.make_order(root, checkpoints=mounted)


def put_graphs(order: Order, *, commit: str | None = COMMIT, **more: Any) -> Path:
    """Put a graph into the mounted bucket."""
    checkpoints = {"target": commit} if commit else {}
    files = {"model.pt": b"graph"}
    manifest = pods.put_graphs(order.artifacts, files, checkpoints=checkpoints, **more)
    return order.artifacts / manifest.folder / "model.pt"


def started(order: Order) -> scratch_records.StartRecord:
    """Prepare a start, and return its record."""
    prepare(order)
    record = scratch_records.read_record(order.scratch)
    assert record is not None
    return record


def test_the_commits_of_staged_checkpoints_are_written_down(order: Order) -> None:
    assert started(order).checkpoints == {"target": COMMIT}


@pytest.mark.parametrize(
    ("compiled", "mounted"), [(COMMIT, COMMIT), (None, COMMIT), (COMMIT, None)]
)
def test_an_unknown_commit_is_not_compared(
    tmp_path: Path, compiled: str | None, mounted: str | None
) -> None:
    order = an_order(tmp_path, commit=mounted)
    folder = put_graphs(order, commit=compiled).parent
    assert prepare(order).environment == {"GRAPHS": str(folder)}


@pytest.mark.parametrize(
    ("compiled", "reason"),
    [
        (
            {"commit": OTHER_COMMIT},
            f"compiled for commit {OTHER_COMMIT}, asked for commit {COMMIT}",
        ),
        ({"inputs": {**pods.INPUTS, "window": 5}}, "window: compiled for 5, asked for 7"),
    ],
)
def test_graphs_compiled_for_something_else_are_refused(
    order: Order, compiled: dict[str, Any], reason: str
) -> None:
    put_graphs(order, **compiled)
    with pytest.raises(RefusedGraphsError, match=reason):
        prepare(order)


@pytest.mark.parametrize("cache", [None, "cache"])
@pytest.mark.parametrize(
    ("left", "there"), [(b"gr", "2 bytes are there"), (None, "it is not there")]
)
def test_a_graph_with_a_damaged_file_is_refused(
    order: Order, left: bytes | None, there: str, cache: str | None
) -> None:
    path = put_graphs(order)
    path.unlink()
    if left:
        path.write_bytes(left)
    with pytest.raises(RefusedGraphsError, match=f"model.pt: 5 bytes were uploaded, {there}"):
        prepare(replace(order, cache=cache))


def test_a_copy_unlike_the_upload_is_refused(order: Order) -> None:
    """The copy has the right length, so only its hash shows the difference."""
    put_graphs(order).write_bytes(b"other")
    assert prepare(order).compiles is False
    with pytest.raises(RefusedGraphsError, match="its content is not what was uploaded"):
        prepare(replace(order, cache="cache"))


def test_a_spoilt_copy_is_made_again(order: Order, monkeypatch: pytest.MonkeyPatch) -> None:
    put_graphs(order)
    copy, spoilt = shutil.copyfile, iter([b"spoil"])

    def copyfile(source: Path, target: Path) -> None:
        copy(source, target)
        target.write_bytes(next(spoilt, b"graph"))

    monkeypatch.setattr(shutil, "copyfile", copyfile)
    root = Path(prepare(replace(order, cache="cache")).environment["GRAPHS"])
    assert (root / "cache" / "model.pt").read_bytes() == b"graph"


@pytest.mark.parametrize(
    ("manifest", "reason"),
    [
        (lambda data: data.replace(KEY.encode(), b"f" * 24), r"the manifest belongs to f{24}"),
        (lambda data: data[:40], "cannot be read: not JSON"),
        (lambda _: b" " * (2**20 + 1), "cannot be read: more than 1,048,576 bytes"),
    ],
)
def test_a_manifest_of_another_key_is_refused(order: Order, manifest: Any, reason: str) -> None:
    put_graphs(order)
    path = order.artifacts / manifest_key(KEY)
    path.write_bytes(manifest(path.read_bytes()))
    with pytest.raises(RefusedGraphsError, match=reason):
        prepare(order)


def test_an_interrupted_start_leaves_only_the_count(order: Order) -> None:
    scratch_records.begin(order.scratch)
    prepare(order)
    leftovers = [order.scratch / name for name in ("graphs", "compile-cache")]
    for folder in leftovers:
        folder.mkdir(exist_ok=True)
        (folder / "x.lock").touch()
    prepare(order)
    assert [f for f in leftovers if f.exists()] == []
    assert scratch_records.begin(order.scratch).number == 2


def compiled(order: Order) -> tuple[scratch_records.StartRecord, Path]:
    """A start that compiled, and its graph, which is not yet marked as complete."""
    record = started(order)
    graph = Path(record.graphs) / "model.pt"
    graph.parent.mkdir(parents=True)
    graph.write_bytes(b"graph")
    return record, graph


def test_whole_graphs_are_kept_with_their_start(order: Order) -> None:
    record, graph = compiled(order)
    scratch_records.mark_whole(order.scratch, record)
    after = prepare(order)
    assert after.environment == {"GRAPHS": str(graph.parent)}
    assert not after.compiles
    assert graph.exists()
    assert scratch_records.read_record(order.scratch) == record


@pytest.mark.parametrize("why", ["a mark of another start", "cut off since", "a mark of no file"])
def test_graphs_that_changed_are_not_kept(order: Order, why: str) -> None:
    record, graph = compiled(order)
    if "another start" in why:
        record = replace(record, start_id="another")
    if "no file" in why:
        graph.unlink()
    scratch_records.mark_whole(order.scratch, record)
    if "another start" not in why:
        graph.write_bytes(b"gr")
    prepare(order)
    assert not graph.exists()


@pytest.mark.parametrize(
    "mark",
    [
        b"{}",
        b'{"start_id": "x", "sizes": {"nul\\u0000": 1}}',
        b'{"start_id": "x", "sizes": []}',
        b" " * (2**20 + 1),
    ],
)
def test_a_mark_that_cannot_be_read_marks_nothing(order: Order, mark: bytes) -> None:
    record = replace(started(order), start_id="x")
    (order.scratch / scratch_records.MARK_NAME).write_bytes(mark)
    assert not scratch_records.is_whole(order.scratch, record)


def test_only_a_restored_cache_gets_a_proof(order: Order) -> None:
    put_graphs(order)
    cache = replace(order, cache="cache", proof="MISSES_ARE_FATAL")
    proven = prepare(cache)
    assert (proven.compiles, proven.proof) == (False, {"MISSES_ARE_FATAL": "1"})
    assert prepare(order).proof == {}
    (order.artifacts / manifest_key(KEY)).unlink()
    new = prepare(cache)
    assert (new.compiles, new.proof) == (True, {})


@pytest.mark.parametrize("name", CACHES)
def test_a_cache_is_restored_to_the_engines_folder(name: str, order: Order) -> None:
    """In each kind of cache the graph is where the engine looks for it."""
    cache = CACHES[name]
    order = replace(order, variable=cache.variable, cache=cache.folder)
    looked_for = "neuron/compile_cache/hash/graph.neff"
    pods.put_graphs(order.artifacts, {looked_for.removeprefix(f"{cache.folder}/"): b"a graph"})
    root = Path(prepare(order).environment[cache.variable])
    assert (root / looked_for).read_bytes() == b"a graph"
    record = scratch_records.read_record(order.scratch)
    assert record
    assert [path for _, path in scratch_records.compiled_files(Path(record.graphs))] == [
        root / looked_for
    ]
