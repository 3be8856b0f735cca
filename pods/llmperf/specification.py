"""The run specification: fetched, bounded, compared with its hash, decoded."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from draftworth.errors import UserInputError
from draftworth.measuring.result_files import SinkError
from draftworth.measuring.run_specification import RunSpec
from draftworth.records.codec import RecordError, load_record
from draftworth.records.prompts import MAX_PROMPT_BYTES
from draftworth.records.reading import parse_s3_url
from draftworth.untrusted import MIB, TooLargeError, read_at_most

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

# All prompts that an experiment may have, and what stands around them.
LIMIT_BYTES = MAX_PROMPT_BYTES + MIB


def read_spec(address: str, sha256: str | None, make_client: Callable[[], S3Client]) -> RunSpec:
    """The run specification at `s3://BUCKET/KEY` or in a file.

    Args:
        address: where it is.
        sha256: of its bytes, in hex digits; None: not compared.
        make_client: makes the client of S3, where one is needed.

    Raises:
        UserInputError: it is not there, or is not what was announced.
        SinkError: S3 did not give it; another pod may succeed.
    """
    try:
        data = _read(address, make_client)
    except TooLargeError as error:
        raise UserInputError(f"{address}: no run specification: {error}") from error
    if sha256 is not None and (found := hashlib.sha256(data).hexdigest()) != sha256:
        raise UserInputError(
            f"{address}: given bytes with the SHA-256 {found}, allowed: {sha256}, which "
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
        # Closed also where more comes than is read.
        with make_client().get_object(Bucket=bucket, Key=key)["Body"] as body:
            return read_at_most(body, LIMIT_BYTES)
    except (BotoCoreError, ClientError) as error:
        raise SinkError(f"{address}: cannot be read: {error}") from error
