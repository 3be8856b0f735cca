"""Which S3 object a message of the results queue names, and which messages are refused."""

import json
from typing import Any

import pytest

from lambdas.metrics_publisher.publish_errors import UnusableError
from lambdas.metrics_publisher.s3_events import ObjectCreated, created_object


def event(
    key: str = "runs/a.result.json", *, kind: Any = "Object Created", detail: Any = None
) -> str:
    """Return an event as EventBridge sends it, with the fields that are read."""
    about = {"bucket": {"name": "b"}, "object": {"key": key, "size": 3}, "reason": "PutObject"}
    return json.dumps({"source": "aws.s3", "detail-type": kind, "detail": detail or about})


@pytest.mark.parametrize("key", ["runs/a.result.json", "runs/a b+c%2B/\xe4=1.result.json"])
def test_a_key_is_taken_as_it_stands_there(key: str) -> None:
    assert created_object(event(key)) == ObjectCreated(bucket="b", key=key)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("not json", "message body is not an S3 event: not JSON: "),
        ("[1]", "message body is not an S3 event: given list, allowed: an object: '[1]'"),
        ("{}", "message body is not an S3 event"),
        (event(detail="text"), "message body is not an S3 event"),
        (event(detail={"object": {"key": "k"}}), "message body is not an S3 event"),
        (event(detail={"bucket": {"name": 1}, "object": {"key": "k"}}), "is not an S3 event"),
        (event(kind=1), "message body is not an S3 event"),
        (event(kind="Object Deleted"), "only 'Object Created' can be published"),
    ],
)
def test_bodies_without_a_written_object_are_refused(text: str, reason: str) -> None:
    with pytest.raises(UnusableError) as refused:
        created_object(text)
    assert reason in str(refused.value)


def test_a_long_body_is_cut_in_the_reason() -> None:
    with pytest.raises(UnusableError) as refused:
        created_object("x" * 100_000)
    assert len(str(refused.value)) < 400
