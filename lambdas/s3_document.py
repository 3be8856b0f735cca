"""A JSON document in S3 that several invocations write without losing an update.

S3's conditional writes make this safe: `If-None-Match: *` lets one of two writers create the
object, `If-Match: <ETag>` accepts a write only if nobody has written since the document was read
("How to prevent object overwrites with conditional writes", Amazon S3 User Guide).
"""

from __future__ import annotations

import uuid
from dataclasses import Field, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from botocore.exceptions import ClientError

from draftworth.records.codec import RecordError, dump_record, load_record
from draftworth.untrusted import TooLargeError, read_at_most

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import GetObjectOutputTypeDef

_NOT_FOUND = {"NoSuchKey", "404"}
# Errors by which S3 refuses a conditional write because of another writer. 412: the condition does
# not hold. 409: another conditional write is in progress. 404: `If-Match` for a deleted object.
_CONFLICTS = _NOT_FOUND | {"PreconditionFailed", "412", "ConditionalRequestConflict", "409"}


class ConflictError(Exception):
    """Another invocation wrote the document after it was read."""


class DocumentError(Exception):
    """The object in S3 cannot be read as the document; the message says what to do next.

    etag: the ETag of the object that was read.
    """

    def __init__(self, message: str, *, etag: str) -> None:
        super().__init__(message)
        self.etag = etag


class Document(Protocol):
    """A record that several invocations write; each knows its own write by the id `written_by`."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def written_by(self) -> str: ...


D = TypeVar("D", bound=Document)


@dataclass(frozen=True, kw_only=True)
class Stored(Generic[D]):
    """A document as it is in the bucket, with the ETag that the next write must match."""

    document: D
    etag: str


@dataclass(frozen=True, kw_only=True)
class S3Document(Generic[D]):
    """One document in a bucket: reads it, and writes it unless another invocation has written.

    `read` returns None if there is no object. `write` expects the object to be as in `over` (None:
    no object), or raises ConflictError. Both raise DocumentError.
    kind: the type of the record. repair: what a person can do if the document cannot be read.
    """

    s3: S3Client
    bucket: str
    key: str
    kind: type[D]
    repair: str

    def read(self) -> Stored[D] | None:
        answer = _get(self.s3, self.bucket, self.key)
        if answer is None:
            return None
        try:
            document = load_record(self.kind, read_at_most(answer["Body"]))
        except (RecordError, TooLargeError) as error:
            raise DocumentError(
                f"s3://{self.bucket}/{self.key} is not a {self.kind.__name__.lower()} ({error}); "
                f"{self.repair}",
                etag=answer["ETag"],
            ) from error
        return Stored(document=document, etag=answer["ETag"])

    def write(self, document: D, *, over: Stored[D] | None) -> Stored[D]:
        document = replace(document, written_by=uuid.uuid4().hex)
        condition: dict[str, Any] = {"IfMatch": over.etag} if over else {"IfNoneMatch": "*"}
        try:
            answer = self.s3.put_object(
                Bucket=self.bucket,
                Key=self.key,
                Body=dump_record(document),
                ContentType="application/json",
                **condition,
            )
        except ClientError as error:
            if error_code(error) not in _CONFLICTS:
                raise
            # If S3's response is lost, boto3 writes again, which conflicts with its first write.
            # Then the bucket has our own document, and nobody else has written.
            stored = self.read()
            if stored is None or stored.document != document:
                raise ConflictError(error_code(error)) from error
            return stored
        return Stored(document=document, etag=answer["ETag"])


def read_object(s3: S3Client, bucket: str, key: str) -> bytes | None:
    """Return an object's bytes; None if it does not exist; raise TooLargeError above 1 MiB."""
    answer = _get(s3, bucket, key)
    return None if answer is None else read_at_most(answer["Body"])


def _get(s3: S3Client, bucket: str, key: str) -> GetObjectOutputTypeDef | None:
    try:
        return s3.get_object(Bucket=bucket, Key=key)
    except ClientError as error:
        if error_code(error) in _NOT_FOUND:
            return None
        raise


def error_code(error: Exception) -> str:
    """Return the AWS error code of a ClientError; empty for other errors."""
    if not isinstance(error, ClientError):
        return ""
    return str(error.response.get("Error", {}).get("Code", ""))
