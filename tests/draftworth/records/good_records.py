"""Records that are in order, of which tests change a key."""

from draftworth.records import checkpoints
from draftworth.records.checkpoints import StoredFile
from draftworth.records.graph_manifests import ArtifactManifest

INPUTS = {"image": "neuron:1", "window": 7, "target": {"model": "a/b", "revision": "main"}}
MANIFEST = ArtifactManifest(
    key="0123",
    inputs=INPUTS,
    checkpoints={"target": "c0ffee"},
    folder="0123/upload",
    files=(
        StoredFile(path="model.pt", size_bytes=5, sha256="0" * 64),
        StoredFile(path="weights/.done", size_bytes=0, sha256="1" * 64),
    ),
    compile_seconds=1800.5,
    uploaded_at_unix_s=1.0,
)
READY = checkpoints.ReadyModel(
    model="Qwen/Qwen3-32B",
    revision="main",
    commit="a" * 40,
    files=(
        checkpoints.StoredFile(path="config.json", size_bytes=728, sha256="1" * 64),
        checkpoints.StoredFile(path="model.safetensors", size_bytes=3_000_000_000, sha256="2" * 64),
    ),
    tokenizer_fingerprint="3" * 64,
    staged_at_unix_s=1_790_000_000.5,
    staging_seconds=412.0,
)
