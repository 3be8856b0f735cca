"""Markers of staged checkpoints."""

from draftworth.records import checkpoints
from tests.support.experiments import resolved, with_third_variant

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


def test_markers_lie_where_the_servers_mount_the_checkpoint() -> None:
    for model in resolved().spec.models:
        ready = checkpoints.ready_key(model.model, model.revision)
        assert ready == f"{model.storage_prefix}/_READY.json"
    assert checkpoints.ready_key("acme/tiny", "v1") == "acme/tiny/v1/_READY.json"
    assert checkpoints.failed_key("acme/tiny", "v1") == "acme/tiny/v1/_FAILED.json"
    assert READY.size_bytes == 3_000_000_728


def test_models_of_an_experiment_are_staged_once_each() -> None:
    twice = with_third_variant(resolved())
    assert [m.model for m in twice.spec.models] == ["Qwen/Qwen3-32B", "Qwen/Qwen3-1.7B"]
