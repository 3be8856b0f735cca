"""Graphs into the artifacts bucket, for who compiled them: with a device, or without one.

Files go into a folder of their own, the record that names it comes last and is written once:
whoever dies where, there is no record without all of its files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from draftworth.records.artifact_manifest import ArtifactManifest
from draftworth.records.codec import dump_record, load_record
from draftworth.records.files import StoredFile, sha256_of
from draftworth.untrusted import read_at_most
from pods.compiled_graphs.handover import compiled_files

if TYPE_CHECKING:
    from boto3.s3.transfer import TransferConfig
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import ObjectIdentifierTypeDef

    Keys = list[ObjectIdentifierTypeDef]

R = TypeVar("R")


class UnfinishedError(Exception):
    """A file changed while it was uploaded, or S3 did not delete an object: try again."""


@dataclass(frozen=True, kw_only=True)
class GraphBucket:
    """The artifacts bucket. transfer: how files are cut into parts; None: boto3's way."""

    client: S3Client
    name: str
    transfer: TransferConfig | None = None

    def put_files(self, folder: Path, manifest: ArtifactManifest) -> None:
        """Upload the manifest's files; raises UnfinishedError where they changed meanwhile."""
        for file in manifest.files:
            self.put_file(folder / file.path, f"{manifest.folder}/{file.path}")
        if tuple(inventory(folder)) != manifest.files:
            raise UnfinishedError(f"{folder} changed while it was uploaded")

    def put_file(self, path: Path, key: str) -> None:
        """Upload one file, in parts when it is large; S3 compares each part's SHA-256."""
        extra = {"ChecksumAlgorithm": "SHA256"}
        self.client.upload_file(str(path), self.name, key, ExtraArgs=extra, Config=self.transfer)

    def put_once(self, key: str, record: Any) -> None:
        """Write a record unless there is one. Whose it is then, the caller looks up.

        When an answer is lost botocore tries again, and then finds its own object.
        """
        try:
            self.client.put_object(
                Bucket=self.name,
                Key=key,
                Body=dump_record(record, indent=1),
                ContentType="application/json",
                ChecksumAlgorithm="SHA256",
                IfNoneMatch="*",
            )
        except self.client.exceptions.ClientError as error:
            if error.response["Error"]["Code"] not in ("PreconditionFailed", "412"):
                raise

    def read(self, kind: type[R], key: str) -> R | None:
        """A record; None where there is none. Raises RecordError, TooLargeError."""
        try:
            stored = self.client.get_object(Bucket=self.name, Key=key)
        except self.client.exceptions.NoSuchKey:
            return None
        return load_record(kind, read_at_most(stored["Body"]))

    def remove(self, folder: str) -> None:
        """Delete what is in a folder; raises UnfinishedError where something stays."""
        pages = self.client.get_paginator("list_objects_v2")
        # A page is listed with as many keys as one request deletes.
        for page in pages.paginate(Bucket=self.name, Prefix=f"{folder}/"):
            keys: Keys = [{"Key": item["Key"]} for item in page.get("Contents", [])]
            if not keys:
                continue
            answer = self.client.delete_objects(
                Bucket=self.name, Delete={"Objects": keys, "Quiet": True}
            )
            if errors := answer.get("Errors"):
                raise UnfinishedError(f"{errors[0].get('Key')}: {errors[0].get('Message')}")


def inventory(folder: Path) -> Iterator[StoredFile]:
    """Every compiled file of a folder, in order."""
    for name, path in compiled_files(folder):
        yield StoredFile(path=name, size_bytes=path.stat().st_size, sha256=sha256_of(path))


def last_written_unix_s(folder: Path) -> float:
    """When the newest of its compiled files was written; there is one at least."""
    return max(path.stat().st_mtime for _, path in compiled_files(folder))
