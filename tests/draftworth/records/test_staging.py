"""Markers of staged checkpoints."""

import json
from typing import Any

import pytest

from draftworth.records import checkpoints
from draftworth.records.codec import RecordError, dump_record, load_record
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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": "draftworth.ready/2"}, "schema: given 'draftworth.ready/2'"),
        ({"files": []}, "files: allowed: one or more"),
        ({"files": [{"path": "../a", "size_bytes": 1, "sha256": "b"}]}, "allowed: a relative path"),
        ({"files": [{"path": "a", "size_bytes": 1, "sha256": "b"}] * 2}, "each path once"),
    ],
)
def test_a_marker_that_is_not_whole_is_refused(change: dict[str, Any], message: str) -> None:
    data = {**json.loads(dump_record(READY)), **change}
    with pytest.raises(RecordError, match=message):
        load_record(checkpoints.ReadyModel, json.dumps(data).encode())


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
