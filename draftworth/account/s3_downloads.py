"""Downloads runs and checkpoints from S3 into a folder, to report a run or to load a model.

A file gets its name only when it is complete; the next call downloads what is still missing.
"""

import hashlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import Any

from boto3.exceptions import Boto3Error
from s3transfer.exceptions import RetriesExceededError

from draftworth.account import clients, printing
from draftworth.errors import DraftworthError, UserInputError
from draftworth.records import checkpoints, codec, results, search_result, transcripts
from draftworth.records.run_folder import is_file_name, parse_s3_url, read_end
from draftworth.untrusted import DOCUMENT_LIMIT_BYTES, TooLargeError, one_line, read_at_most

_PARALLEL_DOWNLOADS = 8
# The largest allowed size of a file, by the end of its name; the first entry that fits counts.
_LIMITS_BYTES = {
    results.RESULT_SUFFIX: results.RESULT_LIMIT_BYTES,
    results.TRANSCRIPT_SUFFIX: transcripts.FILE_LIMIT_BYTES,
    ".json": DOCUMENT_LIMIT_BYTES,
}


def download_run(url: str, folder: Path) -> None:
    """Download a run's files from `s3://BUCKET/PREFIX` into `folder`.

    These are `run.json`, the result files that it lists, and, if the run is of a search,
    `search.json`. Of a result file that `run.json` does not list, only an empty file of its name is
    made, so that the report can mention it. Without `run.json`, no file is made.
    UserInputError is raised for a file above its size limit, AwsError if S3 cannot be read.
    """
    bucket, prefix = parse_s3_url(url)
    start = f"{prefix.strip('/')}/".lstrip("/")
    (folder / results.BLOCKS_FOLDER).mkdir(parents=True, exist_ok=True)
    with clients.explained(f"read {url}"), ThreadPoolExecutor(_PARALLEL_DOWNLOADS) as pool:
        s3 = clients.client("s3")
        sizes = _sizes(s3, bucket, start)

        def download(name: str) -> None:
            address, size_bytes = f"s3://{bucket}/{start}{name}", sizes[name]
            limit = next(limit for end, limit in _LIMITS_BYTES.items() if name.endswith(end))
            if size_bytes > limit:
                raise UserInputError(f"{address}: {size_bytes:,} bytes, allowed: at most {limit:,}")
            s3.download_file(bucket, f"{start}{name}", str(folder / name))

        if results.RUN_FILE in sizes:
            download(results.RUN_FILE)
            listed_names = _listed_names(folder)
            list(pool.map(download, [name for name in sizes if name in listed_names]))
            for name in sizes.keys() - listed_names - {results.RUN_FILE}:
                (folder / name).touch()


def _sizes(s3: Any, bucket: str, start: str) -> Mapping[str, int]:
    sizes = {}
    for entry in clients.listed(s3, "list_objects_v2", "Contents", Bucket=bucket, Prefix=start):
        name = entry["Key"].removeprefix(start)
        folder, _, file = name.rpartition("/")
        of_block = folder == results.BLOCKS_FOLDER and file.endswith(
            (results.RESULT_SUFFIX, results.TRANSCRIPT_SUFFIX)
        )
        if name in (results.RUN_FILE, search_result.SEARCH_FILE) or (
            of_block and is_file_name(file)
        ):
            sizes[name] = entry["Size"]
    return sizes


def _listed_names(folder: Path) -> set[str]:
    """Return which files to download of the run whose `run.json` is in the folder.

    These are the files that `run.json` lists, and `search.json`, which only the run of a search
    has. The result is empty if `run.json` is invalid.
    """
    try:
        stems = read_end(folder).blocks
    except UserInputError:
        return set()
    ends = (results.RESULT_SUFFIX, results.TRANSCRIPT_SUFFIX)
    of_blocks = {f"{results.BLOCKS_FOLDER}/{stem}{end}" for stem in stems for end in ends}
    return {search_result.SEARCH_FILE} | of_blocks


_FORM = "s3://BUCKET/MODEL/REVISION of a checkpoints bucket (s3://BUCKET/Qwen/Qwen3-1.7B/main)"


def download_checkpoint(
    url: str, folder: Path, *, needs_weights: bool, say: Callable[[str], None]
) -> Path:
    """Download the checkpoint at `s3://BUCKET/MODEL/REVISION` and return its folder in `folder`.

    needs_weights: whether files with weights are downloaded too. say: gets each line of progress.
    UserInputError is raised if no complete checkpoint is there, or if a file cannot be written.
    """
    bucket, prefix = parse_s3_url(url)
    start = prefix.strip("/")
    if not checkpoints.is_below(start):
        raise UserInputError(f"given {url!r}, allowed: {_FORM}")
    with clients.explained(f"read {url}"):
        s3 = clients.client("s3")
        ready = _ready(s3, bucket, start, url)
    files = [file for file in ready.files if needs_weights or not file.is_weights]
    # The folder's name has a hash of the list of files, so a changed checkpoint gets a new folder.
    content = hashlib.sha256(b"".join(map(codec.dump_record, ready.files))).hexdigest()
    place = folder / content[:12] / PurePosixPath(ready.model).name
    try:
        missing = [file for file in files if not _is_whole(place / file.path, file)]
        for file in missing:
            size = printing.size_text(file.size_bytes)
            say(f"{ready.model} at {ready.revision}: downloading {file.path}, {size}")
            _download_checked(s3, bucket, f"{start}/{file.path}", place / file.path, file)
    except OSError as error:
        raise UserInputError(
            f"--out: {place}: cannot be written: {error.strerror}; next: free some room, or give "
            "another folder; files that are whole are kept"
        ) from error
    return place


def _ready(s3: Any, bucket: str, start: str, url: str) -> checkpoints.ReadyModel:
    data = _marker(s3, bucket, f"{start}/{checkpoints.READY_MARKER}")
    if data is None:
        raise UserInputError(f"{url}: {_unready(s3, bucket, start)}")
    try:
        ready = codec.load_record(checkpoints.ReadyModel, data)
    except codec.RecordError as error:
        raise UserInputError(
            f"{url}/{checkpoints.READY_MARKER}: {error}; next: delete it and stage the model again"
        ) from error
    if not f"/{start}".endswith(f"/{checkpoints.checkpoint_prefix(ready.model, ready.revision)}"):
        raise UserInputError(
            f"{url}/{checkpoints.READY_MARKER}: given: the marker of {one_line(ready.model)} at "
            f"{one_line(ready.revision)}, allowed: of the checkpoint that lies there; next: give "
            "that one's address"
        )
    return ready


def _unready(s3: Any, bucket: str, start: str) -> str:
    if failed := _marker(s3, bucket, f"{start}/{checkpoints.FAILED_MARKER}"):
        try:
            return (
                f"staging was given up: "
                f"{one_line(codec.load_record(checkpoints.FailedModel, failed).reason)}"
            )
        except codec.RecordError:
            return (
                f"staging was given up; {checkpoints.FAILED_MARKER} there, which should say "
                f"why, is damaged"
            )
    if _marker(s3, bucket, f"{start}/{checkpoints.PLAN_MARKER}"):
        return (
            f"this checkpoint is not whole: its staging has begun and not ended (no "
            f"{checkpoints.READY_MARKER} yet); next: wait for it (`draftworth logs` shows the "
            "stager), or deploy the experiment again"
        )
    return (
        f"no staged checkpoint there (no {checkpoints.READY_MARKER}); allowed: {_FORM}; next: "
        f"list the bucket "
        f"(aws s3 ls s3://{bucket}/), or deploy an experiment with this model, which stages it"
    )


def _marker(s3: Any, bucket: str, key: str) -> bytes | None:
    answer = clients.or_none(s3.get_object, "NoSuchKey", Bucket=bucket, Key=key)
    try:
        return None if answer is None else read_at_most(answer["Body"])
    except TooLargeError as error:
        raise UserInputError(f"s3://{bucket}/{key}: no marker of a checkpoint: {error}") from error


def _is_whole(path: Path, file: checkpoints.StoredFile) -> bool:
    return (
        path.is_file()
        and path.stat().st_size == file.size_bytes
        and checkpoints.sha256_of(path) == file.sha256
    )


def _download_checked(
    s3: Any, bucket: str, key: str, path: Path, file: checkpoints.StoredFile
) -> None:
    address = f"s3://{bucket}/{key}"
    partial = path.with_name(f".{path.name}.partial")
    path.parent.mkdir(parents=True, exist_ok=True)
    # There may be half a file here, of a download that was killed, or a link; mode `x` never
    # follows a link. `write_file` is not used, because it needs the whole file in memory.
    partial.unlink(missing_ok=True)
    with clients.explained(f"read {address}"), partial.open("xb") as target:
        try:
            s3.download_fileobj(bucket, key, target)
        except (Boto3Error, RetriesExceededError) as error:
            again = "run the command again, which goes on with the files that are whole"
            raise clients.AwsError(f"could not read {address}: {error}", next_step=again) from error
    if not _is_whole(partial, file):
        partial.unlink()
        raise DraftworthError(
            f"{address}: given: another content than {checkpoints.READY_MARKER} beside it says "
            f"({file.size_bytes:,} bytes, SHA-256 {file.sha256[:12]}); next: delete "
            f"{checkpoints.READY_MARKER} and stage the model again"
        )
    partial.replace(path)
