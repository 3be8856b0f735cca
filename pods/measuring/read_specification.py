"""Reads the run specification from S3 or from a file."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from draftworth.errors import UserInputError
from draftworth.measuring.result_files import SinkError
from draftworth.measuring.run_specification import LIMIT_BYTES, RunSpec
from draftworth.records.codec import RecordError, load_record
from draftworth.records.run_folder import parse_s3_url
from draftworth.untrusted import TooLargeError, read_at_most

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


def read_spec(address: str, sha256: str | None, make_client: Callable[[], S3Client]) -> RunSpec:
    """Read the run specification from `s3://BUCKET/KEY` or from a file.

    It raises UserInputError if the file is wrong, SinkError if S3 fails: a later pod may succeed.
    sha256: the hash that the bytes must have, in hex digits; None: any hash.
    """
    try:
        data = _read(address, make_client)
    except TooLargeError as error:
        raise UserInputError(f"{address}: no run specification: {error}") from error
    if sha256 is not None and (actual := hashlib.sha256(data).hexdigest()) != sha256:
        raise UserInputError(
            f"{address}: given bytes with the SHA-256 {actual}, allowed: {sha256}, which "
            "--run-spec-sha256 says; next: put the file there again that was made with the Job"
        )
    try:
        return load_record(RunSpec, data)
    except RecordError as error:
        raise UserInputError(f"{address}: not a run specification: {error}") from error


def _read(address: str, make_client: Callable[[], S3Client]) -> bytes:
    if "://" not in address:
        try:
            with Path(address).open("rb") as file:
                return read_at_most(file, LIMIT_BYTES)
        except OSError as error:
            raise UserInputError(f"{address}: cannot be read: {error.strerror}") from error
    bucket, key = parse_s3_url(address)
    try:
        # `with` closes the body also if it has more bytes than are read.
        with make_client().get_object(Bucket=bucket, Key=key)["Body"] as body:
            return read_at_most(body, LIMIT_BYTES)
    except (BotoCoreError, ClientError) as error:
        raise SinkError(f"{address}: cannot be read: {error}") from error
