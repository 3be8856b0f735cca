"""What the artifacts bucket holds, and what of it can go."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar

from account.clients import listed
from draftworth.errors import DraftworthError
from draftworth.records.artifact_manifest import (
    MANIFEST_NAME,
    ArtifactManifest,
    manifest_key,
    size_differences,
)
from draftworth.records.codec import RecordError, load_record
from draftworth.records.unproven_graphs import (
    REJECTED_NAME,
    UNPROVEN_NAME,
    Rejection,
    UnprovenManifest,
    rejected_key,
    unproven_key,
)
from draftworth.serving.artifacts import KEY_LENGTH
from draftworth.untrusted import TooLargeError, read_at_most

# A folder without a manifest is an upload that was cut off, or one that goes on: the uploader tries
# for half an hour after its last file at most.
LEFTOVER_AGE = timedelta(hours=1)
R = TypeVar("R")
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
    unproven, rejection: of graphs that were compiled without a device. unreadable: names of their
        records that cannot be read, and why.
    """

    key: str
    objects: tuple[StoredObject, ...]
    manifest: ArtifactManifest | None
    problems: tuple[str, ...]
    unproven: UnprovenManifest | None = None
    rejection: Rejection | None = None
    unreadable: Mapping[str, str] = field(default_factory=dict)

    @property
    def has_manifest(self) -> bool:
        """Whether a server that starts would find it, good or not."""
        return any(o.name == manifest_key(self.key) for o in self.objects)

    @property
    def is_proven(self) -> bool:
        """Whether the manifest names the graphs that were compiled without a device."""
        named = self.manifest and self.unproven
        return bool(named) and self._folder_of(self.manifest) == self._unproven_folder

    @property
    def is_rejected(self) -> bool:
        """Whether a server could not use them, and none has proven them."""
        folder = self._unproven_folder
        rejected = self.rejection is not None and self.rejection.folder == folder
        return rejected and folder != "" and not self.is_proven

    @property
    def may_be_tried(self) -> bool:
        """Whether a server that starts would try them."""
        return self.unproven is not None and not self.has_manifest and not self.is_rejected

    @property
    def _unproven_folder(self) -> str:
        return self._folder_of(self.unproven.graphs if self.unproven else None)

    @staticmethod
    def _folder_of(manifest: ArtifactManifest | None) -> str:
        return manifest.folder if manifest else ""

    def not_needed(self) -> Iterator[Removal]:
        """What is of no use of graphs that were compiled without a device."""
        ends = (unproven_key(self.key), rejected_key(self.key))
        if self.is_rejected or (self.unproven and self.manifest and not self.is_proven):
            why = f"rejected: {self.rejection.reason}" if self.rejection else "others were first"
            folder = f"{self._unproven_folder}/"
            found = [o for o in self.objects if o.name in ends or o.name.startswith(folder)]
            yield Removal(what=folder[:-1], reason=why, objects=_ordered(found))
        elif self.rejection and not self.unproven:
            found = [o for o in self.objects if o.name == rejected_key(self.key)]
            yield Removal(
                what=found[0].name, reason="what it rejects is gone", objects=tuple(found)
            )
        for name, why in self.unreadable.items():
            found = [o for o in self.objects if o.name == name]
            yield Removal(what=name, reason=f"cannot be read: {why}", objects=tuple(found))

    def loose(self) -> dict[str, tuple[StoredObject, ...]]:
        """Objects that no manifest names, by their folder: uploads cut off, or going on."""
        named = (self._folder_of(self.manifest), self._unproven_folder)
        own = tuple(f"{folder}/" for folder in named if folder)
        folders: dict[str, tuple[StoredObject, ...]] = {}
        for item in self.objects:
            if item.name not in _record_names(self.key) and not item.name.startswith(own):
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
    unreadable: dict[str, str] = {}
    return StoredKey(
        key=key,
        objects=tuple(items),
        manifest=manifest,
        problems=tuple(problems),
        unproven=_record(s3, bucket, UnprovenManifest, unproven_key(key), items, unreadable),
        rejection=_record(s3, bucket, Rejection, rejected_key(key), items, unreadable),
        unreadable=unreadable,
    )


def _record(
    s3: Any,
    bucket: str,
    kind: type[R],
    name: str,
    items: Sequence[StoredObject],
    unreadable: dict[str, str],
) -> R | None:
    """A record of the listed objects; why it cannot be read goes into `unreadable`."""
    if all(item.name != name for item in items):
        return None
    try:
        return load_record(kind, read_at_most(s3.get_object(Bucket=bucket, Key=name)["Body"]))
    except (RecordError, TooLargeError) as error:
        unreadable[name] = str(error)
        return None


def _record_names(key: str) -> tuple[str, ...]:
    return manifest_key(key), unproven_key(key), rejected_key(key)


def _ordered(items: Iterable[StoredObject]) -> tuple[StoredObject, ...]:
    """As they can go: what promises files before them, what forbids to try them after."""

    def place(item: StoredObject) -> int:
        name = item.name.rpartition("/")[2]
        return {MANIFEST_NAME: 0, UNPROVEN_NAME: 1, REJECTED_NAME: 3}.get(name, 2)

    return tuple(sorted(items, key=place))


def removals(
    stored: Mapping[str, StoredKey], *, used: Set[str], refused: Set[str], now: datetime
) -> tuple[Removal, ...]:
    """What can go: keys that nothing uses, graphs that would be refused or were rejected, uploads
    that were cut off or came second.

    used: keys of all experiments that are given.
    refused: those of them whose graphs are not what an experiment asks for.
    """
    found = []
    for key, entry in sorted(stored.items()):
        is_named = entry.has_manifest or entry.unproven or entry.rejection
        if (is_named and key not in used) or (entry.has_manifest and key in refused):
            reason = "no given experiment uses it" if key not in used else "it would be refused"
            found.append(Removal(what=key, reason=reason, objects=_ordered(entry.objects)))
            continue
        found += entry.not_needed()
        for folder, objects in sorted(entry.loose().items()):
            if not _is_young(objects, now):
                reason = "no manifest names it: an upload that was cut off or came second"
                found.append(Removal(what=folder, reason=reason, objects=objects))
    return tuple(found)


def remove(s3: Any, bucket: str, removal: Removal) -> None:
    """Delete, one batch after the other; what promises files goes before them.

    Raises DraftworthError where S3 answers, and did not delete an object.
    """
    names = [item.name for item in removal.objects]
    while names and names[0].endswith((f"/{MANIFEST_NAME}", f"/{UNPROVEN_NAME}")):
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
