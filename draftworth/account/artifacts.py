"""`draftworth artifacts`: which compiled graphs exist, and which of them can go.

Lists; with `--run` it also removes what no given experiment uses, graphs that a server would
refuse, and uploads that were cut off. Exit code 0: done; 1: AWS refused or has no such bucket; 2:
an experiment file is wrong.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from draftworth.account.clients import client, explained, listed, or_none
from draftworth.account.printing import duration_text, print_lines, size_text
from draftworth.account.scope import bucket_in, stack_outputs
from draftworth.errors import DraftworthError
from draftworth.experiment.naming import ARTIFACTS_OUTPUT, CHECKPOINTS_OUTPUT
from draftworth.experiment.variants import HubModel
from draftworth.planning.resolved import NeuronVariant, ResolvedNeuron, load_neuron
from draftworth.records.artifacts import (
    MANIFEST_NAME,
    ArtifactManifest,
    differences,
    manifest_key,
    size_differences,
)
from draftworth.records.checkpoints import ReadyModel, ready_key
from draftworth.records.codec import RecordError, load_record
from draftworth.serving.artifacts import KEY_LENGTH
from draftworth.terminal import table_lines
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


@dataclass(frozen=True, kw_only=True)
class Buckets:
    """Those of an experiment's stack; `checkpoints` is None when it was not looked up."""

    region: str
    artifacts: str
    checkpoints: str | None


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """One variant's compiled graph as an experiment asks for it, and what the bucket has of it.

    refusal: why a server would refuse what is there; empty when it would serve or compile.
    """

    experiment: str
    variant: str
    key: str
    stored: StoredKey | None
    refusal: Sequence[str]

    def start(self, now: datetime) -> str:
        """What a server's start would do."""
        if self.refusal:
            return "be refused"
        if self.stored and self.stored.manifest:
            return "load"
        if self.stored and self.stored.being_uploaded(now):
            return "compile (one is being uploaded)"
        return "compile"


@dataclass(frozen=True, kw_only=True)
class Listing:
    """What is wanted of a bucket and what it holds; `others`: objects that are no graph's."""

    buckets: Buckets
    wanted: Sequence[Wanted]
    others: int
    removals: tuple[Removal, ...]
    now: datetime

    @property
    def removable_bytes(self) -> int:
        """All that can go."""
        return sum(removal.size_bytes for removal in self.removals)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Experiment files, and what to do."""
    parser.add_argument(
        "experiments",
        nargs="+",
        type=Path,
        metavar="EXPERIMENT",
        help="experiment files; give every one whose compiled graphs are to be kept",
    )
    parser.add_argument(
        "--run",
        action="store_true",
        help="remove what the list says can go (without it nothing is changed)",
    )
    parser.add_argument(
        "--bucket", help="the artifacts bucket; left out: that of the experiment's stack"
    )


def run(arguments: argparse.Namespace) -> int:
    """List, and remove when told to."""
    experiments = [load_neuron(path) for path in arguments.experiments]
    for listing in listings(experiments, bucket=arguments.bucket, now=datetime.now(UTC)):
        print_lines(listing_lines(listing, run=arguments.run))
        if arguments.run and listing.removals:
            bucket, region = listing.buckets.artifacts, listing.buckets.region
            for removal in listing.removals:
                with explained(f"remove s3://{bucket}/{removal.what}", region=region):
                    remove(client("s3", region), bucket, removal)
            print_lines([f"removed {size_text(listing.removable_bytes)}"])
    return 0


def listings(
    experiments: Sequence[ResolvedNeuron], *, bucket: str | None, now: datetime
) -> Iterator[Listing]:
    """One listing a bucket. A key that any of the experiments uses is kept in all of them."""
    by_buckets: dict[Buckets, list[ResolvedNeuron]] = {}
    for experiment in experiments:
        by_buckets.setdefault(find_buckets(experiment, bucket), []).append(experiment)
    used = {variant.artifact_key for e in experiments for variant in e.variants}
    for buckets, own in by_buckets.items():
        yield _listing(buckets, own, used=used, now=now)


def find_buckets(experiment: ResolvedNeuron, bucket: str | None) -> Buckets:
    """An experiment's; raises DraftworthError where its stack does not name them."""
    region, stack = experiment.spec.aws.region, experiment.names.stack
    if bucket:
        return Buckets(region=region, artifacts=bucket, checkpoints=None)
    outputs = stack_outputs(experiment)
    artifacts = bucket_in(outputs, ARTIFACTS_OUTPUT)
    if artifacts is None:
        raise DraftworthError(
            f"stack {stack} in {region}: it has no output {ARTIFACTS_OUTPUT}; next: deploy again "
            "with this version, or name the bucket with --bucket"
        )
    checkpoints = bucket_in(outputs, CHECKPOINTS_OUTPUT)
    return Buckets(region=region, artifacts=artifacts, checkpoints=checkpoints)


def _listing(
    buckets: Buckets, experiments: Iterable[ResolvedNeuron], *, used: set[str], now: datetime
) -> Listing:
    s3 = client("s3", buckets.region)
    with explained(f"read s3://{buckets.artifacts}", region=buckets.region):
        stored, others = read_store(s3, buckets.artifacts)
        wanted = [
            Wanted(
                experiment=experiment.name,
                variant=variant.name,
                key=variant.artifact_key,
                stored=stored.get(variant.artifact_key),
                refusal=_refusal(s3, buckets, variant, stored),
            )
            for experiment in experiments
            for variant in experiment.variants
        ]
    refused = {w.key for w in wanted if w.refusal}
    can_go = removals(stored, used=used, refused=refused, now=now)
    return Listing(buckets=buckets, wanted=wanted, others=others, removals=can_go, now=now)


def _refusal(
    s3: Any, buckets: Buckets, variant: NeuronVariant, stored: Mapping[str, StoredKey]
) -> list[str]:
    there = stored.get(variant.artifact_key)
    if there is None or there.manifest is None:
        return list(there.problems) if there else []
    found = {r: _commit(s3, buckets.checkpoints, m) for r, m in variant.checkpoints.items()}
    commits = {role: commit for role, commit in found.items() if commit}
    return [*there.problems, *differences(there.manifest, variant.artifact_inputs, commits)]


def _commit(s3: Any, bucket: str | None, model: HubModel) -> str | None:
    """The commit of a staged checkpoint; None when none is staged or was looked up."""
    key = ready_key(model.model, model.revision)
    stored = bucket and or_none(s3.get_object, "NoSuchKey", Bucket=bucket, Key=key)
    try:
        return load_record(ReadyModel, read_at_most(stored["Body"])).commit if stored else None
    except (RecordError, TooLargeError):
        return None


def listing_lines(listing: Listing, *, run: bool) -> Iterator[str]:
    """The listing as text."""
    yield f"bucket  s3://{listing.buckets.artifacts} in {listing.buckets.region}"
    yield ""
    headings = ("experiment", "variant", "key", "a start would", "size", "compiled in", "uploaded")
    yield from table_lines((_row(wanted, listing.now) for wanted in listing.wanted), headings)
    for wanted in listing.wanted:
        for reason in wanted.refusal:
            yield f"{wanted.experiment} {wanted.variant}: refused: {reason}"
    if listing.others:
        yield f"not a compiled graph, left alone: {listing.others} objects"
    yield ""
    for removal in listing.removals:
        yield (
            f"{'removing' if run else 'can go'}  {removal.what}  {size_text(removal.size_bytes)}, "
            f"{len(removal.objects)} objects: {removal.reason}"
        )
    if not listing.removals:
        yield "nothing to remove"
    elif not run:
        yield f"{size_text(listing.removable_bytes)} can go; --run removes it"


def _row(wanted: Wanted, now: datetime) -> tuple[str, ...]:
    cells = (wanted.experiment, wanted.variant, wanted.key, wanted.start(now))
    if wanted.stored is None or wanted.stored.manifest is None:
        return cells
    manifest = wanted.stored.manifest
    age = duration_text(max(0.0, now.timestamp() - manifest.uploaded_at_unix_s))
    compiled_in = duration_text(manifest.compile_seconds)
    return (*cells, size_text(manifest.size_bytes), compiled_in, f"{age} ago")
