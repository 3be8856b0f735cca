"""What is no record of its kind: one message with the key, what was given and what is allowed.

`snapshots/refused-records.txt` has the words of every row, read by people in a diff.
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from draftworth.records.codec import RecordError, dump_record, load_record
from draftworth.records.results import BlockResult
from tests.draftworth.records.good_records import MANIFEST, READY
from tests.draftworth.report.searches import make_candidate_result, make_search_result
from tests.lambdas.capacity_controller import plans
from tests.support.blocks import make_block, make_record, make_run
from tests.support.predictions import prediction
from tests.support.snapshot import assert_snapshot

GOOD = (
    make_block(),
    make_record(),
    make_run(),
    MANIFEST,
    READY,
    plans.make_plan(),
    plans.make_server_given_up(),
    make_search_result(),
    make_candidate_result("a-k6"),
    prediction(),
)
ONE, OTHER, *_ = (asdict(result) for result in make_search_result().results)
CHANGES = yaml.load(
    Path(__file__).with_name("refused_records.yaml").read_text(), Loader=yaml.CSafeLoader
)
CHANGES["RunResult"] += [
    {"variants": [str(i) for i in range(101)]},
    {"self_tests": {"vllm": {"seconds": 1.0, "driver": "2" * 501}}},
]
CHANGES["SearchResult"].append({"results": [ONE, OTHER | {"cost_by_class": {"x": 1.0}}]})


def test_broken_records_are_refused_by_key() -> None:
    messages = ""
    for record in GOOD:
        kind: type[Any] = type(record)
        good = json.loads(dump_record(record))
        assert load_record(kind, json.dumps(good)) == record
        messages += f"{kind.__name__}\n"
        for change in CHANGES[kind.__name__]:
            with pytest.raises(RecordError) as refused:
                load_record(kind, json.dumps({**good, **change}))
            messages += f"  {refused.value}\n"
    assert {type(record).__name__ for record in GOOD} == CHANGES.keys()
    assert_snapshot(messages, Path(__file__).parent / "snapshots" / "refused-records.txt")


@pytest.mark.parametrize("data", [b"", b"\xff", b"[]", b"{}"])
def test_what_is_no_record_at_all_is_refused(data: bytes) -> None:
    with pytest.raises(RecordError, match=r"not JSON|given list, allowed: an object|schema: given"):
        load_record(BlockResult, data)
