"""Reads S3 events from SQS message bodies.

Source: "EventBridge event message structure", Amazon S3 User Guide. A body names one object, whose
key is not escaped.
"""

from dataclasses import dataclass

from draftworth.records.codec import RecordError, load_object
from draftworth.records.results import OBJECT_CREATED
from draftworth.untrusted import one_line
from lambdas.metrics_publisher.publish_errors import UnusableError

_QUOTED_CHARACTERS = 200


@dataclass(frozen=True, kw_only=True)
class ObjectCreated:
    """An S3 object that was written."""

    bucket: str
    key: str


def created_object(body: str) -> ObjectCreated:
    """Return the S3 object that a message body names; raise UnusableError for other messages."""
    quoted = one_line(repr(body), characters=_QUOTED_CHARACTERS)
    try:
        event = load_object(body)
        kind, detail = event["detail-type"], event["detail"]
        bucket, key = detail["bucket"]["name"], detail["object"]["key"]
    except (RecordError, KeyError, TypeError) as error:
        raise UnusableError("not_an_event", why=f"{error}: {quoted}") from error
    if not all(isinstance(name, str) for name in (kind, bucket, key)):
        raise UnusableError("not_an_event", why=quoted)
    if kind != OBJECT_CREATED:
        raise UnusableError("another_event", kind=kind, key=key, allowed=OBJECT_CREATED)
    return ObjectCreated(bucket=bucket, key=key)
