"""A run out of S3, into a folder that the report reads."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import Any

from account.clients import client, explained, listed
from draftworth.records.reading import parse_s3_url
from draftworth.records.results import BLOCKS_FOLDER, RESULT_SUFFIX, RUN_FILE, TRANSCRIPT_SUFFIX

_PARALLEL_DOWNLOADS = 8


def download_run(url: str, folder: Path) -> None:
    """Download what the report needs of the run at `s3://BUCKET/PREFIX`.

    Credentials and region are those of boto3's own lookup. A prefix without a run leaves the
    folder empty: its reader says so. Raises UserInputError for what is no address.
    """
    bucket, prefix = parse_s3_url(url)
    start = f"{prefix.strip('/')}/".lstrip("/")
    (folder / BLOCKS_FOLDER).mkdir(parents=True, exist_ok=True)
    with explained(f"read {url}"), ThreadPoolExecutor(_PARALLEL_DOWNLOADS) as pool:
        s3 = client("s3")

        def download(name: str) -> None:
            s3.download_file(bucket, f"{start}{name}", str(folder / name))

        list(pool.map(download, _names(s3, bucket, start)))


def _names(s3: Any, bucket: str, start: str) -> Iterator[str]:
    """Names of the run's files below its prefix; a key with other parts in it is not one."""
    for key in listed(s3, "list_objects_v2", "Contents[].Key", Bucket=bucket, Prefix=start):
        name = key.removeprefix(start)
        of_block = name == f"{BLOCKS_FOLDER}/{PurePosixPath(name).name}"
        if name == RUN_FILE or (of_block and name.endswith((RESULT_SUFFIX, TRANSCRIPT_SUFFIX))):
            yield name
