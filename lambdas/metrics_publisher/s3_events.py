"""Reads S3 events from SQS message bodies, and defines the reasons why a message is not done.

Source: "EventBridge event message structure", Amazon S3 User Guide. A body names one object, whose
key is not escaped.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path

from draftworth.records.codec import RecordError, load_object
from draftworth.records.results import OBJECT_CREATED
from draftworth.untrusted import one_line

_SHOWN_CHARACTERS = 200
_REASONS = tomllib.loads(Path(__file__).with_name("reasons.toml").read_text(encoding="utf-8"))


class PublishError(Exception):
    """A message's file was not published. reason: the key of the logged text in `reasons.toml`.

    SQS delivers the message again; after `maxReceiveCount` tries it is a dead letter.
    retry_helps: whether another delivery can succeed.
    """

    retry_helps = False

    def __init__(self, reason: str, **values: object) -> None:
        super().__init__(_REASONS[reason].format(**values))


class UnusableError(PublishError):
    """The message or file cannot be used, or its figures are too old or too new for CloudWatch."""


class NotNowError(PublishError):
    """The next delivery of the message can succeed."""

    retry_helps = True


class ClaimedError(NotNowError):
    """Another delivery publishes the same file at this moment."""


@dataclass(frozen=True, kw_only=True)
class ObjectCreated:
    """An S3 object that was written."""

    bucket: str
    key: str


def created_object(body: str) -> ObjectCreated:
    """Return the S3 object that a message body names; raise UnusableError for other messages."""
    shown = one_line(repr(body), characters=_SHOWN_CHARACTERS)
    try:
        event = load_object(body)
        kind, detail = event["detail-type"], event["detail"]
        bucket, key = detail["bucket"]["name"], detail["object"]["key"]
    except (RecordError, KeyError, TypeError) as error:
        raise UnusableError("not_an_event", why=f"{error}: {shown}") from error
    if not all(isinstance(name, str) for name in (kind, bucket, key)):
        raise UnusableError("not_an_event", why=shown)
    if kind != OBJECT_CREATED:
        raise UnusableError("another_event", kind=kind, key=key, allowed=OBJECT_CREATED)
    return ObjectCreated(bucket=bucket, key=key)
