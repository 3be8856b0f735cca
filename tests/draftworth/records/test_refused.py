"""What is no record of its kind: one message with the key, what was given and what is allowed.

`snapshots/refused-records.txt` has the words of every row, read by people in a diff.
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from draftworth.records.artifacts import ArtifactManifest
from draftworth.records.checkpoints import ReadyModel
from draftworth.records.codec import RecordError, dump_record, load_record
from draftworth.records.deployment import CapacityPlan
from draftworth.records.likelihoods import Prediction
from draftworth.records.results import BlockResult, RequestRecord, RunResult, ServerStart
from draftworth.records.search import CandidateResult, SearchResult
from draftworth.records.servers import ServerState
from tests.draftworth.records.test_artifact_manifest import MANIFEST
from tests.draftworth.records.test_staging import READY
from tests.draftworth.report.searches import make_candidate_result, make_search_result
from tests.draftworth.report.test_predicted import prediction
from tests.lambdas.capacity_controller import plans
from tests.support.blocks import make_block, make_record, make_run
from tests.support.snapshot import assert_snapshot


def a_file(**values: Any) -> dict[str, Any]:
    return {"path": "a", "size_bytes": 1, "sha256": "0", **values}


ONE, OTHER, *_ = (asdict(result) for result in make_search_result().results)
START = asdict(ServerStart(startup_s=1.0))
# By the record that is changed: what is put into it.
CHANGES: dict[type[Any], tuple[Any, list[dict[str, Any]]]] = {
    BlockResult: (
        make_block(),
        [
            {"schema": "draftworth.result/999"},
            {"variant": 3},
            {"round": True},
            {"started_at_unix_s": "now"},
            {"requests": {}},
            {"requests": [1]},
            {"requests": [{}]},
            {"speculation": {"drafts": 1}},
            {"ended_at_unix_s": -1.0},
            {"ended_at_unix_s": 1e300},
            {"max_tokens_per_step": 0},
            {"repetition": 0},
            {"slot": -1},
        ],
    ),
    RequestRecord: (
        make_record(),
        [
            {"ttft_s": -0.001},
            {"ttft_s": 1e308},
            {"inter_token_latency_s": 1e-320},
            {"end_to_end_latency_s": 2e9},
            {"number_output_tokens": -3},
            {"chunks": -1},
            {"tokens_per_step": -1.0},
            {"request_output_throughput_token_per_s": 1e300},
            {"started_at_unix_s": -1.0},
            {"started_at_unix_s": 1e15},
        ],
    ),
    RunResult: (
        make_run(),
        [
            {"started_at_unix_s": 1e300},
            {"ended_at_unix_s": -5},
            {"target_interval_width": -1.0},
            {"target_interval_width": 1e-320},
            {"temperature": -0.5},
            {"temperature": 3.0},
            {"variants": ["a", "a"]},
            {"variants": [str(i) for i in range(101)]},
            {"server_starts": {"nobody": START}},
            {"server_starts": {"baseline": START | {"startup_s": 1e18}}},
            {"self_tests": {"vllm": {"seconds": -1.0}}},
            {"self_tests": {"vllm": {"seconds": 1.0, "driver": "2" * 501}}},
            {"class_weights": {"a": 0.0}},
            {"class_weights": {"a": 2.0, "b": -1.0}},
        ],
    ),
    ArtifactManifest: (
        MANIFEST,
        [
            {"schema": "draftworth.artifacts/2"},
            {"files": []},
            {"files": [a_file()] * 2},
            {"files": [a_file(size_bytes=-1)]},
            {"files": [a_file(path="../a")]},
            {"files": [a_file(path="/etc/passwd")]},
            {"files": [a_file(path="a//b")]},
            {"folder": "0123"},
            {"folder": "other/upload"},
            {"folder": "0123/.."},
        ],
    ),
    ReadyModel: (
        READY,
        [
            {"schema": "draftworth.ready/2"},
            {"files": []},
            {"files": [a_file(path="../a")]},
            {"files": [a_file()] * 2},
        ],
    ),
    CapacityPlan: (
        plans.make_plan(),
        [
            {"schema": "draftworth.capacity-plan/1"},
            {"nodes": "1"},
            {"variants": []},
            {"startup_minutes": 0},
            {"capacity": "stolen"},
            {"budget_usd": None},
        ],
    ),
    ServerState: (plans.make_given_up(), [{"start": 0}, {"reason": ""}, {"phase": "healthy"}]),
    SearchResult: (
        make_search_result(),
        [
            {"best": "a-k8"},
            {"sureness": 1.1},
            {"order": ["z"]},
            {"results": [ONE, OTHER | {"cost_by_class": {"x": 1.0}}]},
        ],
    ),
    CandidateResult: (
        make_candidate_result("a-k6"),
        [{"chance": -1.0}, {"measured": ONE["cost"] | {"value": 0.0}}],
    ),
    Prediction: (prediction(), [{"predicted": 0.5}, {"measured": 0.5}]),
}


def test_what_is_no_record_of_its_kind_is_refused_by_key() -> None:
    told = ""
    for kind, (record, changes) in CHANGES.items():
        good = json.loads(dump_record(record))
        assert load_record(kind, json.dumps(good)) == record
        told += f"{kind.__name__}\n"
        for change in changes:
            with pytest.raises(RecordError) as refused:
                load_record(kind, json.dumps({**good, **change}))
            told += f"  {refused.value}\n"
    assert_snapshot(told, Path(__file__).parent / "snapshots" / "refused-records.txt")


@pytest.mark.parametrize("data", [b"", b"\xff", b"[]", b"{}"])
def test_what_is_no_record_at_all_is_refused(data: bytes) -> None:
    with pytest.raises(RecordError, match=r"not JSON|given list, allowed: an object|schema: given"):
        load_record(BlockResult, data)
