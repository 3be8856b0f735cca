"""The checkpoints bucket: what of a model is there, and putting the rest there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from boto3.exceptions import Boto3Error
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import BotoCoreError, ClientError

from draftworth.errors import DraftworthError, UserInputError
from draftworth.records.codec import RecordError, dump_record, load_record
from draftworth.records.files import StoredFile
from draftworth.records.staging import (
    ReadyModel,
    StagingPlan,
    checkpoint_prefix,
    plan_key,
    ready_key,
)
from pods.checkpoint_stager.files import HubFile

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

# Of every staged object, so that a later try knows it without reading it.
CONTENT_ID = "hub-content-id"
SHA256 = "sha256"

PART_BYTES = 64 * 1024 * 1024
PARTS_AT_ONCE = 4
TRANSFER = TransferConfig(
    multipart_threshold=PART_BYTES,
    multipart_chunksize=PART_BYTES,
    max_concurrency=PARTS_AT_ONCE,
)
_NOT_FOUND = frozenset(("404", "NoSuchKey", "NotFound"))
_REFUSED = frozenset(("403", "AccessDenied", "NoSuchBucket"))


class StoreError(DraftworthError):
    """S3 failed."""


class Store:
    """The folder of one model in the checkpoints bucket. The client retries by itself."""

    def __init__(
        self,
        client: S3Client,
        *,
        bucket: str,
        model: str,
        revision: str,
        transfer: TransferConfig = TRANSFER,
    ) -> None:
        self._client = client
        self._bucket = bucket
        self._model = model
        self._revision = revision
        self._transfer = transfer

    def address(self, path: str) -> str:
        """`s3://` address of a file of the model."""
        return f"s3://{self._bucket}/{self._key(path)}"

    def ready(self) -> ReadyModel | None:
        """The model's `_READY.json`; None where it is missing, damaged or another model's."""
        data = self._get(ready_key(self._model, self._revision))
        try:
            ready = load_record(ReadyModel, data) if data is not None else None
        except RecordError:
            return None
        same = ready and (ready.model, ready.revision) == (self._model, self._revision)
        return ready if same else None

    def planned_commit(self) -> str | None:
        """The commit that an earlier try began with.

        Raises:
            UserInputError: the plan is damaged.
        """
        key = plan_key(self._model, self._revision)
        data = self._get(key)
        try:
            return load_record(StagingPlan, data).commit if data is not None else None
        except RecordError as error:
            raise UserInputError(
                f"s3://{self._bucket}/{key}: {error}; this file says which commit is being staged; "
                "next: delete it and stage again"
            ) from error

    def plan(self, commit: str) -> str:
        """Note the commit that staging begins with; the one that counts is the first noted."""
        plan = StagingPlan(model=self._model, revision=self._revision, commit=commit)
        try:
            self._client.put_object(
                Bucket=self._bucket,
                Key=plan_key(self._model, self._revision),
                Body=dump_record(plan, indent=1),
                ChecksumAlgorithm="SHA256",
                IfNoneMatch="*",
            )
        except (ClientError, BotoCoreError) as error:
            # Another stager was first, or our own request was and its answer got lost.
            earlier = self.planned_commit()
            if earlier is None:
                raise self._failed("write", plan_key(self._model, self._revision), error) from error
            return earlier
        return commit

    def staged(self, file: HubFile) -> StoredFile | None:
        """A file that the bucket has already, with the content that the hub has; else None."""
        key = self._key(file.path)
        try:
            head = self._client.head_object(Bucket=self._bucket, Key=key)
        except (ClientError, BotoCoreError) as error:
            if _code(error) in _NOT_FOUND:
                return None
            raise self._failed("look for", key, error) from error
        known = head["Metadata"]
        if head["ContentLength"] != file.size_bytes or known.get(CONTENT_ID) != file.content_id:
            return None
        sha256 = known.get(SHA256)
        return _staged(file, sha256) if sha256 else None

    def upload(self, path: Path, file: HubFile, sha256: str) -> StoredFile:
        """Upload a checked file, large ones in parts. S3 checks each part's SHA-256.

        The object appears when its last part is there: never a half.
        """
        key = self._key(file.path)
        extra = {
            "ChecksumAlgorithm": "SHA256",
            "Metadata": {CONTENT_ID: file.content_id, SHA256: sha256},
        }
        try:
            self._client.upload_file(
                str(path), self._bucket, key, ExtraArgs=extra, Config=self._transfer
            )
        except (ClientError, BotoCoreError, Boto3Error) as error:
            raise self._failed("write", key, error) from error
        return _staged(file, sha256)

    def download(self, path: str, target: Path) -> None:
        """Download a small file of the model."""
        data = self._get(self._key(path))
        if data is None:
            raise StoreError(f"{self.address(path)}: was just staged and is gone")
        target.write_bytes(data)

    def put_ready(self, ready: ReadyModel) -> None:
        """Say that the model is whole. To be called last."""
        key = ready_key(self._model, self._revision)
        try:
            self._client.put_object(
                Bucket=self._bucket,
                Key=key,
                Body=dump_record(ready, indent=1),
                ContentType="application/json",
                ChecksumAlgorithm="SHA256",
            )
        except (ClientError, BotoCoreError) as error:
            raise self._failed("write", key, error) from error

    def _key(self, path: str) -> str:
        return f"{checkpoint_prefix(self._model, self._revision)}/{path}"

    def _get(self, key: str) -> bytes | None:
        try:
            return self._client.get_object(Bucket=self._bucket, Key=key)["Body"].read()
        except (ClientError, BotoCoreError) as error:
            if _code(error) in _NOT_FOUND:
                return None
            raise self._failed("read", key, error) from error

    def _failed(self, action: str, key: str, error: Exception) -> StoreError:
        text = f"s3://{self._bucket}/{key}: cannot {action}: {error}"
        # Not the input's fault: a role that was just made is refused for some seconds.
        if _code(error) in _REFUSED:
            text += "; next: check the bucket's name and that the stager's role may write there"
        return StoreError(text)


def _code(error: BaseException) -> str:
    """S3's error code; of a failed transfer, the one that it wraps."""
    wrapped = error if isinstance(error, ClientError) else error.__context__
    if not isinstance(wrapped, ClientError):
        return ""
    return str(wrapped.response.get("Error", {}).get("Code", ""))


def _staged(file: HubFile, sha256: str) -> StoredFile:
    return StoredFile(path=file.path, size_bytes=file.size_bytes, sha256=sha256)
