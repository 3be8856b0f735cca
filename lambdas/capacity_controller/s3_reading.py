"""Reads what other programs wrote to S3 for the controller: records, listings, lines to quote.

No object may stop the function that limits the cost: objects are read up to a limit and decoded
strictly, and quoted text is made printable.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from draftworth.records.codec import RecordError, load_record
from draftworth.untrusted import TooLargeError, one_line
from lambdas.s3_document import read_object

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import ListObjectsV2OutputTypeDef

# Lines of a log or a verdict in one notification: Amazon SNS accepts 256 KiB, and up to 50
# notifications wait in the state.
QUOTED_LINES = 20
# A page of an S3 listing has at most 1000 keys.
MAX_PAGES = 10

R = TypeVar("R")


def read_record(record_type: type[R], s3: S3Client, bucket: str, key: str) -> R | None:
    """Return a record, or None if there is no such object; raise RecordError or TooLargeError."""
    data = read_object(s3, bucket, key)
    return None if data is None else load_record(record_type, data)


def read_if_valid(record_type: type[R], s3: S3Client, bucket: str, key: str) -> R | None:
    """Return a record; None if there is no such object, or if it is not valid."""
    try:
        return read_record(record_type, s3, bucket, key)
    except (RecordError, TooLargeError):
        return None


def quotable_lines(lines: tuple[str, ...]) -> tuple[str, ...]:
    """Return the end of a log as printable lines, at most `QUOTED_LINES`."""
    return tuple(one_line(line) for line in lines[-QUOTED_LINES:])


def pages_of(s3: S3Client, bucket: str, prefix: str) -> Iterable[ListObjectsV2OutputTypeDef]:
    """List the objects and folders that begin with `prefix`, in at most `MAX_PAGES` pages.

    The content of these folders is not listed.
    """
    paginator = s3.get_paginator("list_objects_v2")
    return islice(paginator.paginate(Bucket=bucket, Prefix=prefix, Delimiter="/"), MAX_PAGES)
