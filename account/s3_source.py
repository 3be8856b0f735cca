"""A run out of S3, into a folder that the report reads."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from account.clients import client, explained, listed
from draftworth.errors import UserInputError
from draftworth.records.reading import is_file_name, parse_s3_url, read_end
from draftworth.records.results import (
    BLOCKS_FOLDER,
    RESULT_LIMIT_BYTES,
    RESULT_SUFFIX,
    RUN_FILE,
    TRANSCRIPT_SUFFIX,
)
from draftworth.records.search import SEARCH_FILE
from draftworth.records.transcripts import FILE_LIMIT_BYTES
from draftworth.untrusted import DOCUMENT_LIMIT_BYTES

_PARALLEL_DOWNLOADS = 8
# The first end that a name has.
_LIMITS_BYTES = {
    RESULT_SUFFIX: RESULT_LIMIT_BYTES,
    TRANSCRIPT_SUFFIX: FILE_LIMIT_BYTES,
    ".json": DOCUMENT_LIMIT_BYTES,
}


def download_run(url: str, folder: Path) -> None:
    """Download what `run.json` lists of the run at `s3://BUCKET/PREFIX`, and what a search found.

    Of result files that it does not list the names come along, without their content. Credentials
    and region are those of boto3's own lookup. A prefix without a run leaves the folder empty: its
    reader says so. Raises UserInputError for what is no address, or too large.
    """
    bucket, prefix = parse_s3_url(url)
    start = f"{prefix.strip('/')}/".lstrip("/")
    (folder / BLOCKS_FOLDER).mkdir(parents=True, exist_ok=True)
    with explained(f"read {url}"), ThreadPoolExecutor(_PARALLEL_DOWNLOADS) as pool:
        s3 = client("s3")
        sizes = _sizes(s3, bucket, start)

        def download(name: str) -> None:
            _download(s3, bucket, f"{start}{name}", sizes[name], folder / name)

        if RUN_FILE in sizes:
            download(RUN_FILE)
            listed_names = _listed_names(folder)
            list(pool.map(download, [name for name in sizes if name in listed_names]))
            for name in sizes.keys() - listed_names - {RUN_FILE}:
                (folder / name).touch()


def _download(s3: Any, bucket: str, key: str, size_bytes: int, file: Path) -> None:
    _check_size(f"s3://{bucket}/{key}", size_bytes)
    s3.download_file(bucket, key, str(file))


def _sizes(s3: Any, bucket: str, start: str) -> Mapping[str, int]:
    """Sizes of the run's files below its prefix; a key with other parts in it is not one."""
    found = {}
    for entry in listed(s3, "list_objects_v2", "Contents", Bucket=bucket, Prefix=start):
        name = entry["Key"].removeprefix(start)
        folder, _, file = name.rpartition("/")
        of_block = folder == BLOCKS_FOLDER and file.endswith((RESULT_SUFFIX, TRANSCRIPT_SUFFIX))
        if name in (RUN_FILE, SEARCH_FILE) or (of_block and is_file_name(file)):
            found[name] = entry["Size"]
    return found


def _listed_names(folder: Path) -> set[str]:
    """What `run.json` lists; nothing where it is none: who reads the folder says why."""
    try:
        stems = read_end(folder).blocks
    except UserInputError:
        return set()
    ends = (RESULT_SUFFIX, TRANSCRIPT_SUFFIX)
    of_blocks = {f"{BLOCKS_FOLDER}/{stem}{end}" for stem in stems for end in ends}
    return {SEARCH_FILE} | of_blocks


def _check_size(address: str, size_bytes: int) -> None:
    limit_bytes = next(limit for end, limit in _LIMITS_BYTES.items() if address.endswith(end))
    if size_bytes > limit_bytes:
        raise UserInputError(f"{address}: {size_bytes:,} bytes, allowed: at most {limit_bytes:,}")
