"""Where an engine's graphs are put: below its cache, or as the whole of it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from draftworth.experiment.catalog import CompilerCache, catalog
from draftworth.records.artifact_manifest import ArtifactManifest
from draftworth.records.files import StoredFile
from pods.compiled_graphs.engine_folders import EngineFolders

CACHES = {
    name: release.compiled_graphs
    for name, release in catalog().releases.items()
    if isinstance(release.compiled_graphs, CompilerCache)
}


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
    digest = hashlib.sha256(b"a graph").hexdigest()
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
