"""`draftworth artifacts` lists the compiled graphs that exist, and those that can be removed.

With `--run` it also removes graphs that no given experiment uses or that a server would refuse, and
interrupted uploads. Exit code 1: a call to AWS failed, or a bucket is missing.
"""

import argparse
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from draftworth.account import clients, scope
from draftworth.account.printing import duration_text, print_lines, size_text
from draftworth.experiment import naming, variants
from draftworth.planning.resolved import NeuronVariant, ResolvedNeuron, load_neuron
from draftworth.records import graph_manifests
from draftworth.records.checkpoints import ReadyModel, load_marker, ready_key
from draftworth.records.codec import RecordError, load_record
from draftworth.serving.dialects import KEY_LENGTH
from draftworth.terminal import table_lines
from draftworth.untrusted import TooLargeError, read_at_most

# A folder without a manifest may belong to a running upload while its newest file is younger than
# this: the uploader stops its retries after half an hour.
LEFTOVER_AGE = timedelta(hours=1)
_KEY = re.compile(rf"[0-9a-f]{{{KEY_LENGTH}}}")
# An object of an S3 bucket, as boto3's `list_objects_v2` returns it.
Entry = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class StoredKey:
    """The objects in the artifacts bucket below the folder of one artifact key.

    key: the artifact key, a hash of all that determines a compiled graph.
    manifest: the list of the compiled graph's files; None if it is missing or unreadable.
    problems: why the manifest is unreadable or does not fit the objects; empty if neither.
    """

    key: str
    objects: Sequence[Entry]
    manifest: graph_manifests.ArtifactManifest | None
    problems: tuple[str, ...]

    def loose(self) -> dict[str, list[Entry]]:
        """Return the objects that no manifest names (unfinished uploads), by their folder."""
        served_folder = f"{self.manifest.folder}/" if self.manifest else None
        folders: dict[str, list[Entry]] = {}
        for entry in self.objects:
            name = entry["Key"]
            if name != graph_manifests.manifest_key(self.key) and not (
                served_folder and name.startswith(served_folder)
            ):
                folders.setdefault("/".join(name.split("/")[:2]), []).append(entry)
        return folders


@dataclass(frozen=True, kw_only=True)
class Removal:
    """Objects of the artifacts bucket that are deleted together, in the order of `objects`.

    what: the artifact key or the folder below which the objects are. reason: why they can go.
    """

    what: str
    reason: str
    objects: Sequence[Entry]

    @property
    def size_bytes(self) -> int:
        return sum(entry["Size"] for entry in self.objects)


def read_store(s3: Any, bucket: str) -> tuple[dict[str, StoredKey], int]:
    """Return the bucket's objects by artifact key, and the number of all other objects.

    The objects of an artifact key are those in the folder with that name.
    """
    by_key: dict[str, list[Entry]] = {}
    strays = 0
    for entry in clients.listed(s3, "list_objects_v2", "Contents", Bucket=bucket):
        key, slash, _ = entry["Key"].partition("/")
        if slash and _KEY.fullmatch(key):
            by_key.setdefault(key, []).append(entry)
        else:
            strays += 1
    return {key: _stored_key(s3, bucket, key, items) for key, items in by_key.items()}, strays


def _stored_key(s3: Any, bucket: str, key: str, objects: Sequence[Entry]) -> StoredKey:
    manifest, problems = None, []
    sizes = {entry["Key"]: entry["Size"] for entry in objects}
    if graph_manifests.manifest_key(key) in sizes:
        stored = s3.get_object(Bucket=bucket, Key=graph_manifests.manifest_key(key))
        try:
            manifest = load_record(graph_manifests.ArtifactManifest, read_at_most(stored["Body"]))
        except (RecordError, TooLargeError) as error:
            problems = [f"{graph_manifests.MANIFEST_NAME} cannot be read: {error}"]
    if manifest:
        start = f"{manifest.folder}/"
        by_path = {name.removeprefix(start): size for name, size in sizes.items()}
        problems = graph_manifests.size_differences(manifest, by_path)
        if manifest.key != key:
            problems.append(f"key: the manifest is of {manifest.key}")
    return StoredKey(key=key, objects=objects, manifest=manifest, problems=tuple(problems))


def removals(
    stored: Mapping[str, StoredKey], *, used: Set[str], refused: Set[str], now: datetime
) -> tuple[Removal, ...]:
    """Return what can be deleted: objects of unused or `refused` keys, and interrupted uploads.

    used: artifact keys that an experiment needs. refused: artifact keys whose stored graph a server
        would refuse.
    """
    removals_so_far = []
    for key, entry in sorted(stored.items()):
        # The manifest is deleted first, also an invalid one: a server that starts reads it to find
        # the other objects.
        first, *further = sorted(
            entry.objects, key=lambda item: item["Key"] != graph_manifests.manifest_key(key)
        )
        has_manifest = first["Key"] == graph_manifests.manifest_key(key)
        if has_manifest and (key not in used or key in refused):
            reason = "no given experiment uses it" if key not in used else "it would be refused"
            removals_so_far.append(Removal(what=key, reason=reason, objects=(first, *further)))
            continue
        for folder, objects in sorted(entry.loose().items()):
            if not _is_young(objects, now):
                reason = "no manifest names it: an upload that was cut off or came second"
                removals_so_far.append(Removal(what=folder, reason=reason, objects=objects))
    return tuple(removals_so_far)


def remove(s3: Any, bucket: str, removal: Removal) -> None:
    """Delete a removal's objects, the manifest first; raise DraftworthError if S3 keeps one."""
    names = [entry["Key"] for entry in removal.objects]
    if names[0].endswith(f"/{graph_manifests.MANIFEST_NAME}"):
        s3.delete_object(Bucket=bucket, Key=names.pop(0))
    clients.delete_objects(s3, bucket, [{"Key": name} for name in names])


def _is_young(objects: Iterable[Entry], now: datetime) -> bool:
    newest: datetime = max(entry["LastModified"] for entry in objects)
    return now - newest < LEFTOVER_AGE


@dataclass(frozen=True, kw_only=True)
class Buckets:
    """The names of the buckets that hold the compiled graphs and the checkpoints of a stack.

    checkpoints: None if `--bucket` names the bucket of the graphs: then it is not checked whether
        the graphs were compiled for the commits of the checkpoints.
    """

    region: str
    artifacts: str
    checkpoints: str | None


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The compiled graph that a variant needs, and what the bucket has of it.

    stored: the objects of the bucket below the artifact key; None if there are none.
    refusal: the reasons why a server would refuse the stored graph; empty if it would not.
    """

    experiment: str
    variant: str
    key: str
    stored: StoredKey | None
    refusal: Sequence[str]

    def start(self, now: datetime) -> str:
        if self.refusal:
            return "be refused"
        if self.stored and self.stored.manifest:
            return "load"
        loose = self.stored.loose().values() if self.stored else ()
        is_uploading = any(_is_young(objects, now) for objects in loose)
        return "compile (one is being uploaded)" if is_uploading else "compile"


@dataclass(frozen=True, kw_only=True)
class Listing:
    """The graphs that experiments need from a bucket, and what can be removed from the bucket.

    strays: the number of objects that are in the folder of no artifact key.
    """

    buckets: Buckets
    wanted: Sequence[Wanted]
    strays: int
    removals: tuple[Removal, ...]
    now: datetime

    @property
    def removable_bytes(self) -> int:
        return sum(removal.size_bytes for removal in self.removals)


def run(arguments: argparse.Namespace) -> int:
    """List the graphs, and with `--run` delete those that can be removed."""
    experiments = [load_neuron(path) for path in arguments.experiments]
    for listing in listings(experiments, bucket=arguments.bucket, now=datetime.now(UTC)):
        print_lines(listing_lines(listing, run=arguments.run))
        if arguments.run and listing.removals:
            bucket, region = listing.buckets.artifacts, listing.buckets.region
            for removal in listing.removals:
                with clients.explained(f"remove s3://{bucket}/{removal.what}", region=region):
                    remove(clients.client("s3", region), bucket, removal)
            print_lines([f"removed {size_text(listing.removable_bytes)}"])
    return 0


def listings(
    experiments: Sequence[ResolvedNeuron], *, bucket: str | None, now: datetime
) -> Iterator[Listing]:
    """Yield a listing of `bucket`, or, if it is None, of the artifacts bucket of each stack.

    A graph that any of the experiments needs counts as used in every bucket.
    """
    by_buckets: dict[Buckets, list[ResolvedNeuron]] = {}
    for experiment in experiments:
        by_buckets.setdefault(_buckets(experiment, bucket), []).append(experiment)
    used = {variant.artifact_key for e in experiments for variant in e.variants}
    for buckets, of_buckets in by_buckets.items():
        yield _listing(buckets, of_buckets, used=used, now=now)


def _buckets(experiment: ResolvedNeuron, bucket: str | None) -> Buckets:
    region = experiment.spec.aws.region
    if bucket:
        return Buckets(region=region, artifacts=bucket, checkpoints=None)
    outputs = (naming.ARTIFACTS_OUTPUT, naming.CHECKPOINTS_OUTPUT)
    graphs, checkpoints = (scope.bucket_of(experiment, output) for output in outputs)
    return Buckets(region=region, artifacts=graphs, checkpoints=checkpoints)


def _listing(
    buckets: Buckets, experiments: Iterable[ResolvedNeuron], *, used: set[str], now: datetime
) -> Listing:
    s3 = clients.client("s3", buckets.region)
    with clients.explained(f"read s3://{buckets.artifacts}", region=buckets.region):
        stored, strays = read_store(s3, buckets.artifacts)
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
    return Listing(buckets=buckets, wanted=wanted, strays=strays, removals=can_go, now=now)


def _refusal(
    s3: Any, buckets: Buckets, variant: NeuronVariant, stored: Mapping[str, StoredKey]
) -> list[str]:
    there = stored.get(variant.artifact_key)
    if there is None or there.manifest is None:
        return list(there.problems) if there else []
    staged = {r: _commit(s3, buckets.checkpoints, m) for r, m in variant.checkpoints.items()}
    commits = {role: commit for role, commit in staged.items() if commit}
    return [
        *there.problems,
        *graph_manifests.differences(there.manifest, variant.artifact_inputs, commits),
    ]


def _commit(s3: Any, bucket: str | None, model: variants.HubModel) -> str | None:
    key = ready_key(model.model, model.revision)
    stored = bucket and clients.or_none(s3.get_object, "NoSuchKey", Bucket=bucket, Key=key)
    try:
        if not stored:
            return None
        data = read_at_most(stored["Body"])
        return load_marker(ReadyModel, data, model.model, model.revision).commit
    except (RecordError, TooLargeError):
        return None


def listing_lines(listing: Listing, *, run: bool) -> Iterator[str]:
    """Yield the lines of a listing; `run`: whether the objects that can go are then removed."""
    yield f"bucket  s3://{listing.buckets.artifacts} in {listing.buckets.region}"
    yield ""
    headings = ("experiment", "variant", "key", "a start would", "size", "compiled in", "uploaded")
    yield from table_lines((_row(wanted, listing.now) for wanted in listing.wanted), headings)
    for wanted in listing.wanted:
        for reason in wanted.refusal:
            yield f"{wanted.experiment} {wanted.variant}: refused: {reason}"
    if listing.strays:
        yield f"not a compiled graph, left alone: {listing.strays} objects"
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
