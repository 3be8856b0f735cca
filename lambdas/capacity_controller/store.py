"""The state's object, with S3's conditional writes: two writers at once cannot lose an update.

`If-None-Match: *` lets one of two create it, `If-Match: <ETag>` lets a write through only if nobody
wrote in between ("How to prevent object overwrites with conditional writes", Amazon S3 User Guide).
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypedDict

from botocore.exceptions import ClientError

from draftworth.records.capacity import STATE_KEY
from draftworth.records.codec import RecordError
from lambdas.capacity_controller.state import EMPTY, State, dump_state, load_state

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_NOT_FOUND = {"NoSuchKey", "404"}
# 412: the condition does not hold. 409: another conditional write is under way. 404: If-Match on an
# object that is gone.
_CONFLICTS = _NOT_FOUND | {"PreconditionFailed", "412", "ConditionalRequestConflict", "409"}


class StaleError(Exception):
    """Somebody else wrote the state since it was read: read it again."""


class StateError(Exception):
    """The state's object cannot be read as one; the message says what to do."""


class _Condition(TypedDict, total=False):
    IfNoneMatch: str
    IfMatch: str


@dataclass(frozen=True, kw_only=True)
class Stored:
    """A state and the ETag that the next write must match; None: there is no object yet."""

    state: State
    etag: str | None


class StateStore:
    """Reads and writes the state of one results bucket."""

    def __init__(self, *, s3: S3Client, bucket: str) -> None:
        self._s3 = s3
        self._bucket = bucket

    def read(self) -> Stored:
        """The state as it is.

        Raises:
            StateError: the object is not a state.
        """
        try:
            answer = self._s3.get_object(Bucket=self._bucket, Key=STATE_KEY)
        except ClientError as error:
            if error_code(error) in _NOT_FOUND:
                return Stored(state=EMPTY, etag=None)
            raise
        try:
            return Stored(state=load_state(answer["Body"].read()), etag=answer["ETag"])
        except RecordError as error:
            raise StateError(
                f"s3://{self._bucket}/{STATE_KEY} is not a state of the capacity controller "
                f"({error}); restore it, or delete it and deploy again with another `repetition`"
            ) from error

    def write(self, state: State, *, over: Stored) -> Stored:
        """Write over the state that was read.

        Raises:
            StaleError: somebody else wrote in between.
        """
        state = replace(state, written_by=uuid.uuid4().hex)
        condition: _Condition = (
            {"IfNoneMatch": "*"} if over.etag is None else {"IfMatch": over.etag}
        )
        try:
            answer = self._s3.put_object(
                Bucket=self._bucket,
                Key=STATE_KEY,
                Body=dump_state(state),
                ContentType="application/json",
                **condition,
            )
        except ClientError as error:
            if error_code(error) not in _CONFLICTS:
                raise
            return self._own_write(state, error)
        return Stored(state=state, etag=answer["ETag"])

    def _own_write(self, state: State, conflict: ClientError) -> Stored:
        """boto3 repeats a write whose answer got lost, and then meets its own first try."""
        stored = self.read()
        if stored.state.written_by == state.written_by:
            return stored
        raise StaleError(error_code(conflict)) from conflict


def error_code(error: ClientError) -> str:
    """AWS's short name of an error."""
    return str(error.response.get("Error", {}).get("Code", ""))
