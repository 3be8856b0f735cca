"""SQS message bodies: classic S3 event notifications.

Source: "Event message structure", Amazon S3 User Guide. Keys arrive URL-encoded with `+` for a
space; a body can carry several records; S3 sends one `s3:TestEvent` when somebody sets the
notification up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_plus

from draftworth.records.codec import RecordError, load_object
from lambdas.metrics_publisher.errors import UnusableError

_SHOWN_CHARACTERS = 200


@dataclass(frozen=True, kw_only=True)
class ObjectCreated:
    """An object that was written; `key` is decoded."""

    bucket: str
    key: str


def created_objects(body: str) -> tuple[ObjectCreated, ...]:
    """The objects that a message is about; none for S3's test event, UnusableError for others."""
    try:
        event = load_object(body)
    except RecordError as error:
        raise UnusableError(f"message body is not an S3 event: {error}: {_shown(body)}") from error
    if event.get("Event") == "s3:TestEvent":
        return ()
    records = event.get("Records")
    if not isinstance(records, list) or not records:
        raise UnusableError(f"message body is not an S3 event, it has no Records: {_shown(body)}")
    return tuple(_created_object(record) for record in records)


def _created_object(record: Any) -> ObjectCreated:
    try:
        name, bucket = record["eventName"], record["s3"]["bucket"]["name"]
        key = record["s3"]["object"]["key"]
    except (KeyError, TypeError):
        name = bucket = key = None
    if not (isinstance(name, str) and isinstance(bucket, str) and isinstance(key, str)):
        raise UnusableError(f"not an S3 event record: {_shown(repr(record))}")
    if not name.startswith("ObjectCreated:"):
        raise UnusableError(
            f"event {name!r} on {key!r}: only ObjectCreated:* can be published; "
            "narrow the bucket's notification"
        )
    return ObjectCreated(bucket=bucket, key=unquote_plus(key))


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "...")
