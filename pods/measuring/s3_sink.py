"""Writes result files to S3, each name once, and reads them back."""

from __future__ import annotations

from mimetypes import guess_type
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from draftworth.measuring.result_files import SinkError
from draftworth.records.results import RESULT_LIMIT_BYTES
from draftworth.untrusted import TooLargeError, read_at_most

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


class S3Sink:
    """Stores files below `s3://bucket/prefix/`; each method raises SinkError if S3 fails.

    The S3 client itself repeats failed requests before that.
    """

    def __init__(self, client: S3Client, *, bucket: str, prefix: str) -> None:
        self._client = client
        self.bucket = bucket
        self.prefix = prefix.strip("/")

    def write(self, name: str, data: bytes) -> None:
        """Write one object; raise SinkError if S3 has the name with other bytes, or if S3 fails.

        S3 refuses a name that exists (`If-None-Match: *`). If the answer to a PUT is lost, botocore
        sends the PUT again, and S3 refuses it because our own object exists. So an existing object
        with the same bytes counts as written.
        """
        key = self._key(name)
        try:
            self._client.put_object(
                Bucket=self.bucket,
                Key=key,
                Body=data,
                IfNoneMatch="*",
                # With its own type the report's HTML page is shown, and not downloaded, by a
                # browser in which the S3 console opens it.
                ContentType=guess_type(name)[0] or "application/octet-stream",
            )
        except (BotoCoreError, ClientError) as error:
            if not self._holds(name, data):
                raise SinkError(f"s3://{self.bucket}/{key}: cannot be written: {error}") from error

    def names(self, folder: str) -> list[str]:
        start = f"{self._key(folder).rstrip('/')}/"
        skipped = len(self._key(""))
        try:
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self.bucket, Prefix=start
            )
            return [item["Key"][skipped:] for page in pages for item in page.get("Contents", [])]
        except (BotoCoreError, ClientError) as error:
            raise SinkError(f"s3://{self.bucket}/{start}: cannot be listed: {error}") from error

    def read(self, name: str, *, limit_bytes: int = RESULT_LIMIT_BYTES) -> bytes:
        key = self._key(name)
        try:
            body = self._client.get_object(Bucket=self.bucket, Key=key)["Body"]
            return read_at_most(body, limit_bytes)
        except (BotoCoreError, ClientError, TooLargeError) as error:
            raise SinkError(f"s3://{self.bucket}/{key}: cannot be read: {error}") from error

    def _key(self, name: str) -> str:
        return f"{self.prefix}/{name}" if self.prefix else name

    def _holds(self, name: str, data: bytes) -> bool:
        try:
            return self.read(name, limit_bytes=len(data)) == data
        except SinkError:
            return False
