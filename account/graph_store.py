"""What the artifacts bucket holds, and what of it can go."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from account.clients import listed
from draftworth.errors import DraftworthError
from draftworth.records.artifacts import (
    MANIFEST_NAME,
    ArtifactManifest,
    manifest_key,
    size_differences,
)
from draftworth.records.codec import RecordError, load_record
from draftworth.serving.artifacts import KEY_LENGTH
from draftworth.untrusted import TooLargeError, read_at_most

# A folder without a manifest is an upload that was cut off, or one that goes on: the uploader tries
# for half an hour after its last file at most.
LEFTOVER_AGE = timedelta(hours=1)
_DELETE_BATCH = 1000
_KEY = re.compile(rf"[0-9a-f]{{{KEY_LENGTH}}}")


@dataclass(frozen=True, kw_only=True)
class StoredObject:
    """One object of the bucket."""

    name: str
    size_bytes: int
    modified: datetime


@dataclass(frozen=True, kw_only=True)
class StoredKey:
    """All that the bucket has of one artifact key.

    problems: why its manifest cannot be trusted: it cannot be read, or its files are not there.
    """

    key: str
    objects: tuple[StoredObject, ...]
    manifest: ArtifactManifest | None
    problems: tuple[str, ...]

    @property
    def has_manifest(self) -> bool:
        """Whether a server that starts would find it, good or not."""
        return any(o.name == manifest_key(self.key) for o in self.objects)

    def loose(self) -> dict[str, tuple[StoredObject, ...]]:
        """Objects that no manifest names, by their folder: uploads cut off, or going on."""
        own = f"{self.manifest.folder}/" if self.manifest else None
        folders: dict[str, tuple[StoredObject, ...]] = {}
        for item in self.objects:
            if item.name != manifest_key(self.key) and not (own and item.name.startswith(own)):
                folder = "/".join(item.name.split("/")[:2])
                folders[folder] = (*folders.get(folder, ()), item)
        return folders

    def being_uploaded(self, now: datetime) -> bool:
        """Whether an upload may go on."""
        return any(_is_young(objects, now) for objects in self.loose().values())


@dataclass(frozen=True, kw_only=True)
class Removal:
    """Objects that can go together, in this order, and why."""

    what: str
    reason: str
    objects: tuple[StoredObject, ...]

    @property
    def size_bytes(self) -> int:
        """All of them together."""
        return sum(o.size_bytes for o in self.objects)


def read_store(s3: Any, bucket: str) -> tuple[dict[str, StoredKey], int]:
    """Every artifact key of the bucket, and the number of objects that belong to none."""
    by_key: dict[str, list[StoredObject]] = {}
    others = 0
    for entry in listed(s3, "list_objects_v2", "Contents", Bucket=bucket):
        key, slash, _ = entry["Key"].partition("/")
        if slash and _KEY.fullmatch(key):
            by_key.setdefault(key, []).append(
                StoredObject(
                    name=entry["Key"], size_bytes=entry["Size"], modified=entry["LastModified"]
                )
            )
        else:
            others += 1
    return {key: _stored_key(s3, bucket, key, items) for key, items in by_key.items()}, others


def _stored_key(s3: Any, bucket: str, key: str, items: Sequence[StoredObject]) -> StoredKey:
    manifest, problems = None, []
    if any(item.name == manifest_key(key) for item in items):
        stored = s3.get_object(Bucket=bucket, Key=manifest_key(key))
        try:
            manifest = load_record(ArtifactManifest, read_at_most(stored["Body"]))
        except (RecordError, TooLargeError) as error:
            problems = [f"{MANIFEST_NAME} cannot be read: {error}"]
    if manifest:
        sizes = {i.name.removeprefix(f"{manifest.folder}/"): i.size_bytes for i in items}
        problems = size_differences(manifest, sizes)
        if manifest.key != key:
            problems.append(f"key: the manifest is of {manifest.key}")
    return StoredKey(key=key, objects=tuple(items), manifest=manifest, problems=tuple(problems))


def removals(
    stored: Mapping[str, StoredKey], *, used: Set[str], refused: Set[str], now: datetime
) -> tuple[Removal, ...]:
    """What can go: keys that nothing uses, graphs that would be refused, uploads cut off.

    used: keys of all experiments that are given.
    refused: those of them whose graphs are not what an experiment asks for.
    """
    found = []
    for key, entry in sorted(stored.items()):
        if entry.has_manifest and (key not in used or key in refused):
            reason = "no given experiment uses it" if key not in used else "it would be refused"
            manifest = manifest_key(key)
            first = sorted(entry.objects, key=lambda item: item.name != manifest)
            found.append(Removal(what=key, reason=reason, objects=tuple(first)))
            continue
        for folder, objects in sorted(entry.loose().items()):
            if not _is_young(objects, now):
                reason = "no manifest names it: an upload that was cut off or came second"
                found.append(Removal(what=folder, reason=reason, objects=objects))
    return tuple(found)


def remove(s3: Any, bucket: str, removal: Removal) -> None:
    """Delete, one batch after the other; a manifest goes before the files it promises.

    Raises DraftworthError where S3 answers, and did not delete an object.
    """
    names = [item.name for item in removal.objects]
    if names[0].endswith(f"/{MANIFEST_NAME}"):
        s3.delete_object(Bucket=bucket, Key=names.pop(0))
    for start in range(0, len(names), _DELETE_BATCH):
        batch = [{"Key": name} for name in names[start : start + _DELETE_BATCH]]
        answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": batch, "Quiet": True})
        if errors := answer.get("Errors"):
            first = errors[0]
            raise DraftworthError(
                f"s3://{bucket}/{first['Key']}: not removed: {first['Code']}: {first['Message']}"
            )


def _is_young(objects: Iterable[StoredObject], now: datetime) -> bool:
    return now - max(o.modified for o in objects) < LEFTOVER_AGE
