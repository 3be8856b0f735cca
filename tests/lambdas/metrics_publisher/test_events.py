from __future__ import annotations

import json
from typing import Any

import pytest

from lambdas.metrics_publisher.errors import UnusableError
from lambdas.metrics_publisher.events import ObjectCreated, created_objects


def s3_record(key: str = "runs/a.result.json", **overrides: Any) -> dict[str, Any]:
    s3 = {"bucket": {"name": "b"}, "object": {"key": key}}
    return {"eventName": "ObjectCreated:Put", "s3": s3, **overrides}


def body(*records: object) -> str:
    return json.dumps({"Records": records})


def test_a_key_is_decoded_as_s3_encodes_it() -> None:
    (source,) = created_objects(body(s3_record("runs/a+b%2Bc/%C3%A4%3D1.result.json")))
    assert source == ObjectCreated(bucket="b", key="runs/a b+c/ä=1.result.json")


def test_a_body_with_several_records_names_several_objects() -> None:
    assert [s.key for s in created_objects(body(s3_record("x"), s3_record("y")))] == ["x", "y"]


def test_the_test_event_of_s3_names_nothing() -> None:
    event = {"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "b"}
    assert created_objects(json.dumps(event)) == ()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("not json", "message body is not an S3 event: not JSON: "),
        ("[1]", "message body is not an S3 event: given list, allowed: an object: '[1]'"),
        ("[" * 100_000, "not JSON: too deep"),
        ('{"Records": 1e999}', "1e999 is more than a number can hold"),
        ('{"Records": "\\ud800"}', "text that UTF-8 cannot hold"),
        ('{"Event": "other"}', "it has no Records"),
        ('{"Records": []}', "it has no Records"),
        (body("text"), "not an S3 event record"),
        (body({"eventName": "ObjectCreated:Put"}), "not an S3 event record"),
        (body(s3_record(s3={"bucket": {"name": 1}, "object": {"key": "k"}})), "not an S3 event"),
        (body(s3_record(eventName="ObjectRemoved:Delete")), "only ObjectCreated:* can be publi"),
    ],
)
def test_a_body_that_is_no_event_of_a_written_object_is_refused(text: str, reason: str) -> None:
    with pytest.raises(UnusableError) as refused:
        created_objects(text)
    assert reason in str(refused.value)


def test_a_long_body_is_cut_in_the_reason() -> None:
    with pytest.raises(UnusableError) as refused:
        created_objects("x" * 100_000)
    assert len(str(refused.value)) < 400
