"""Runs and checkpoints out of S3, into a folder that the report or a model reads.

It may end at any point: a file has its name once it is whole and checked, and who comes again
downloads the others.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from boto3.exceptions import Boto3Error
from s3transfer.exceptions import RetriesExceededError

from draftworth.account.clients import AwsError, client, explained, listed, or_none
from draftworth.errors import DraftworthError, UserInputError
from draftworth.records.checkpoints import (
    FAILED_MARKER,
    PLAN_MARKER,
    READY_MARKER,
    FailedModel,
    ReadyModel,
    StoredFile,
    checkpoint_prefix,
    is_below,
    sha256_of,
)
from draftworth.records.codec import RecordError, dump_record, load_record
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
from draftworth.untrusted import DOCUMENT_LIMIT_BYTES, TooLargeError, one_line, read_at_most

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


_GIB = 2**30
_BETWEEN_LINES_SECONDS = 5.0
_FORM = "s3://BUCKET/MODEL/REVISION of a checkpoints bucket (s3://BUCKET/Qwen/Qwen3-1.7B/main)"


def download_checkpoint(
    url: str, folder: Path, *, wanted: Callable[[str], bool], say: Callable[[str], None]
) -> Path:
    """Where the checkpoint at `s3://BUCKET/MODEL/REVISION` lies, below `folder`.

    wanted: of a file's path, whether it is needed. say: takes lines of progress.

    Raises:
        UserInputError: there is no whole checkpoint, or the folder cannot be written.
        DraftworthError: S3 cannot be read, or has other files than the checkpoint's.
    """
    bucket, prefix = parse_s3_url(url)
    start = prefix.strip("/")
    if not is_below(start):
        raise UserInputError(f"given {url!r}, allowed: {_FORM}")
    with explained(f"read {url}"):
        s3 = client("s3")
        ready = _ready(s3, bucket, start, url)
    files = [file for file in ready.files if wanted(file.path)]
    # Of its files: a checkpoint that was staged anew is another folder.
    content = hashlib.sha256(b"".join(map(dump_record, ready.files))).hexdigest()
    place = folder / content[:12] / PurePosixPath(ready.model).name
    try:
        missing = [file for file in files if not _is_whole(place / file.path, file)]
        progress = _Progress(
            name=f"{ready.model} at {ready.revision}",
            total_bytes=sum(file.size_bytes for file in missing),
            say=say,
        )
        for file in missing:
            _download_checked(s3, bucket, f"{start}/{file.path}", place / file.path, file, progress)
    except OSError as error:
        raise UserInputError(
            f"--out: {place}: cannot be written: {error.strerror}; next: free some room, or give "
            "another folder; files that are whole are kept"
        ) from error
    return place


def _ready(s3: Any, bucket: str, start: str, url: str) -> ReadyModel:
    """What was staged; raises UserInputError where nothing was, or not all."""
    data = _marker(s3, bucket, f"{start}/{READY_MARKER}")
    if data is None:
        raise UserInputError(f"{url}: {_unready(s3, bucket, start)}")
    try:
        ready = load_record(ReadyModel, data)
    except RecordError as error:
        raise UserInputError(
            f"{url}/{READY_MARKER}: {error}; next: delete it and stage the model again"
        ) from error
    if not f"/{start}".endswith(f"/{checkpoint_prefix(ready.model, ready.revision)}"):
        raise UserInputError(
            f"{url}/{READY_MARKER}: given: the marker of {one_line(ready.model)} at "
            f"{one_line(ready.revision)}, allowed: of the checkpoint that lies there; next: give "
            "that one's address"
        )
    return ready


def _unready(s3: Any, bucket: str, start: str) -> str:
    """Why a checkpoint has no `_READY.json`, and what to do."""
    if failed := _marker(s3, bucket, f"{start}/{FAILED_MARKER}"):
        try:
            return f"staging was given up: {one_line(load_record(FailedModel, failed).reason)}"
        except RecordError:
            return f"staging was given up; {FAILED_MARKER} there, which should say why, is damaged"
    if _marker(s3, bucket, f"{start}/{PLAN_MARKER}"):
        return (
            f"this checkpoint is not whole: its staging has begun and not ended (no {READY_MARKER} "
            "yet); next: wait for it (`make logs` shows the stager), or deploy the experiment again"
        )
    return (
        f"no staged checkpoint there (no {READY_MARKER}); allowed: {_FORM}; next: list the bucket "
        f"(aws s3 ls s3://{bucket}/), or deploy an experiment with this model, which stages it"
    )


def _marker(s3: Any, bucket: str, key: str) -> bytes | None:
    answer = or_none(s3.get_object, "NoSuchKey", Bucket=bucket, Key=key)
    try:
        return None if answer is None else read_at_most(answer["Body"])
    except TooLargeError as error:
        raise UserInputError(f"s3://{bucket}/{key}: no marker of a checkpoint: {error}") from error


def _is_whole(path: Path, file: StoredFile) -> bool:
    return (
        path.is_file() and path.stat().st_size == file.size_bytes and sha256_of(path) == file.sha256
    )


def _download_checked(
    s3: Any, bucket: str, key: str, path: Path, file: StoredFile, progress: _Progress
) -> None:
    address = f"s3://{bucket}/{key}"
    partial = path.with_name(f".{path.name}.partial")
    path.parent.mkdir(parents=True, exist_ok=True)
    with explained(f"read {address}"), partial.open("wb") as target:
        try:
            s3.download_fileobj(bucket, key, target, Callback=progress.received)
        except (Boto3Error, RetriesExceededError) as error:
            again = "run the command again, which goes on with the files that are whole"
            raise AwsError(f"could not read {address}: {error}", next_step=again) from error
    if not _is_whole(partial, file):
        partial.unlink()
        raise DraftworthError(
            f"{address}: given: another content than {READY_MARKER} beside it says "
            f"({file.size_bytes:,} bytes, SHA-256 {file.sha256[:12]}); next: delete "
            f"{READY_MARKER} and stage the model again"
        )
    partial.replace(path)


@dataclass
class _Progress:
    """Says every few seconds how much is there and how long the rest takes, and the end."""

    name: str
    total_bytes: int
    say: Callable[[str], None]
    started_seconds: float = field(default_factory=time.monotonic)
    _bytes: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        # The first bytes say nothing of how long the rest takes.
        self._said_seconds = self.started_seconds

    def received(self, count: int) -> None:
        """So many bytes more; threads of a download call this."""
        with self._lock:
            self._bytes += count
            now_seconds = time.monotonic()
            if now_seconds - self._said_seconds > _BETWEEN_LINES_SECONDS or self._is_all:
                self._said_seconds = now_seconds
                self.say(self._line(now_seconds - self.started_seconds))

    @property
    def _is_all(self) -> bool:
        return self._bytes == self.total_bytes

    def _line(self, seconds: float) -> str:
        there = f"{self.name}: {self._bytes / _GIB:.2f} GiB"
        if self._is_all:
            return f"{there} downloaded"
        left_seconds = seconds * (self.total_bytes - self._bytes) / self._bytes
        return f"{there} of {self.total_bytes / _GIB:.2f}, about {left_seconds:.0f} s left"
