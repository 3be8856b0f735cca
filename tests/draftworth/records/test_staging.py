"""Markers of staged checkpoints."""

from draftworth.records import checkpoints
from tests.draftworth.records.good_records import READY
from tests.support.experiments import resolved, with_third_variant


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
