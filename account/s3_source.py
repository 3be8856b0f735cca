"""A run out of S3, into a folder that the report reads."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import boto3
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

from draftworth.errors import DraftworthError
from draftworth.records.reading import parse_s3_url
from draftworth.records.results import BLOCKS_FOLDER, RESULT_SUFFIX, RUN_FILE, TRANSCRIPT_SUFFIX

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_PARALLEL_DOWNLOADS = 8


def download_run(url: str, folder: Path) -> None:
    """Download what the report needs of the run at `s3://BUCKET/PREFIX`.

    Credentials and region are those of boto3's own lookup. A prefix without a run leaves the
    folder empty: its reader says so.

    Raises:
        UserInputError: the address is not one.
        DraftworthError: S3 refused.
    """
    bucket, prefix = parse_s3_url(url)
    try:
        client = boto3.client("s3")
        names = list(_names(client, bucket, prefix.strip("/")))
        (folder / BLOCKS_FOLDER).mkdir(parents=True, exist_ok=True)

        def download(name: str) -> None:
            key = f"{prefix.strip('/')}/{name}".lstrip("/")
            client.download_file(bucket, key, str(folder / name))

        with ThreadPoolExecutor(_PARALLEL_DOWNLOADS) as pool:
            list(pool.map(download, names))
    except NoCredentialsError as error:
        raise DraftworthError(
            f"{url}: cannot be read: no AWS credentials; next: `aws sso login` or `aws configure`, "
            "and AWS_PROFILE when there are several"
        ) from error
    except (BotoCoreError, ClientError) as error:
        raise DraftworthError(f"{url}: cannot be read: {error}") from error


def _names(client: S3Client, bucket: str, prefix: str) -> Iterator[str]:
    """Names of the run's files below its prefix; a key with other parts in it is not one."""
    start = f"{prefix}/" if prefix else ""
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=start):
        for item in page.get("Contents", []):
            name = item["Key"].removeprefix(start)
            if name == RUN_FILE or _is_block_file(name):
                yield name


def _is_block_file(name: str) -> bool:
    path = PurePosixPath(name)
    wanted = name.endswith((RESULT_SUFFIX, TRANSCRIPT_SUFFIX))
    return wanted and name == f"{BLOCKS_FOLDER}/{path.name}"
