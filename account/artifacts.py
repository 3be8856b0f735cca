"""`draftworth artifacts`: which compiled graphs exist, which variants would compile, what can go.

Lists; with `--run` it also removes what no given experiment uses, graphs that a server would
refuse, and uploads that were cut off. Exit code 0: done; 1: AWS refused or has no such bucket; 2:
an experiment file is wrong.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from account.clients import client, explained
from account.graph_store import (
    Removal,
    RemovalError,
    StoredKey,
    StoredObject,
    read_store,
    removals,
    remove,
)
from draftworth.errors import DraftworthError
from draftworth.experiment.model import HubModel
from draftworth.experiment.naming import ARTIFACTS_OUTPUT, CHECKPOINTS_OUTPUT
from draftworth.planning.resolved import NeuronVariant, ResolvedNeuron, load_neuron
from draftworth.records.artifact_manifest import differences
from draftworth.records.codec import RecordError, load_record
from draftworth.records.staging import ReadyModel, ready_key

GIB = 1024**3


@dataclass(frozen=True, kw_only=True)
class Place:
    """Buckets of an experiment's storage stack; `checkpoints` is None when it was not looked up."""

    region: str
    artifacts: str
    checkpoints: str | None


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """One variant's compiled graph, as an experiment asks for it."""

    experiment: str
    variant: str
    key: str
    inputs: Mapping[str, Any]
    commits: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Listing:
    """What is wanted of a bucket and what it holds."""

    place: Place
    wanted: tuple[Wanted, ...]
    stored: Mapping[str, StoredKey]
    strange: tuple[StoredObject, ...]
    removals: tuple[Removal, ...]
    now: datetime


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
        "--bucket", help="the artifacts bucket; left out: that of the experiment's storage stack"
    )


def run(arguments: argparse.Namespace) -> int:
    """List, and prune when told to."""
    experiments = [load_neuron(path) for path in arguments.experiments]
    for listing in listings(experiments, bucket=arguments.bucket, now=datetime.now(UTC)):
        _print(listing_lines(listing, run=arguments.run))
        if arguments.run:
            _prune(listing)
    return 0


def listings(
    experiments: Sequence[ResolvedNeuron], *, bucket: str | None, now: datetime
) -> Iterator[Listing]:
    """One listing a bucket. A key that any of the experiments uses is kept in all of them."""
    places: dict[Place, list[ResolvedNeuron]] = {}
    for experiment in experiments:
        places.setdefault(find_place(experiment, bucket), []).append(experiment)
    used = {variant.artifact_key for e in experiments for variant in e.variants}
    for place, own in places.items():
        yield _listing(place, own, used=used, now=now)


def find_place(experiment: ResolvedNeuron, bucket: str | None) -> Place:
    """The buckets of an experiment.

    Raises:
        DraftworthError: its storage stack cannot be asked, or does not name them.
    """
    region, stack = experiment.spec.aws.region, experiment.names.stack("storage")
    if bucket:
        return Place(region=region, artifacts=bucket, checkpoints=None)
    with explained(f"look up the outputs of the stack {stack}", region=region):
        answer = client("cloudformation", region).describe_stacks(StackName=stack)
    outputs = {o["OutputKey"]: o["OutputValue"] for o in answer["Stacks"][0].get("Outputs", [])}
    if ARTIFACTS_OUTPUT not in outputs:
        raise DraftworthError(
            f"stack {stack} in {region}: it has no output {ARTIFACTS_OUTPUT}; next: deploy again "
            "with this version, or name the bucket with --bucket"
        )
    checkpoints = outputs.get(CHECKPOINTS_OUTPUT)
    return Place(
        region=region,
        artifacts=_bucket_of(outputs[ARTIFACTS_OUTPUT]),
        checkpoints=_bucket_of(checkpoints) if checkpoints else None,
    )


def _bucket_of(location: str) -> str:
    return location.removeprefix("s3://").partition("/")[0]


def _listing(
    place: Place, experiments: Iterable[ResolvedNeuron], *, used: set[str], now: datetime
) -> Listing:
    s3 = client("s3", place.region)
    with explained(f"read s3://{place.artifacts}", region=place.region):
        wanted = [_wanted(s3, place, e, variant) for e in experiments for variant in e.variants]
        stored, strange = read_store(s3, place.artifacts)
    refused = [w.key for w in wanted if w.key in stored and refusal(w, stored[w.key])]
    return Listing(
        place=place,
        wanted=tuple(wanted),
        stored=stored,
        strange=strange,
        removals=tuple(removals(stored, used=used, refused=refused, now=now)),
        now=now,
    )


def _wanted(s3: Any, place: Place, experiment: ResolvedNeuron, variant: NeuronVariant) -> Wanted:
    found = {r: _commit(s3, place.checkpoints, m) for r, m in variant.checkpoints.items()}
    return Wanted(
        experiment=experiment.name,
        variant=variant.name,
        key=variant.artifact_key,
        inputs=variant.artifact_inputs,
        commits={role: commit for role, commit in found.items() if commit},
    )


def _commit(s3: Any, bucket: str | None, model: HubModel) -> str | None:
    """The commit of a staged checkpoint; None when none is staged, or nobody looked."""
    if bucket is None:
        return None
    try:
        stored = s3.get_object(Bucket=bucket, Key=ready_key(model.model, model.revision))
        return load_record(ReadyModel, stored["Body"].read()).commit
    except (s3.exceptions.NoSuchKey, RecordError):
        return None


def refusal(wanted: Wanted, stored: StoredKey) -> list[str]:
    """Why a server would refuse what the bucket has; empty when it would serve or compile."""
    manifest = stored.manifest
    different = differences(manifest, wanted.inputs, wanted.commits) if manifest else []
    return [*stored.problems, *different]


def listing_lines(listing: Listing, *, run: bool) -> Iterator[str]:
    """The listing as text."""
    yield f"bucket  s3://{listing.place.artifacts} in {listing.place.region}"
    yield ""
    yield from _table([_HEAD, *(_row(listing, w) for w in listing.wanted)])
    for wanted in listing.wanted:
        stored = listing.stored.get(wanted.key)
        for reason in refusal(wanted, stored) if stored else []:
            yield f"{wanted.experiment} {wanted.variant}: refused: {reason}"
    if listing.strange:
        yield f"not a compiled graph, left alone: {len(listing.strange)} objects"
    yield ""
    yield from _removal_lines(listing, run=run)


_HEAD = ("experiment", "variant", "key", "a start would", "size", "compiled in", "uploaded")


def _row(listing: Listing, wanted: Wanted) -> tuple[str, ...]:
    stored = listing.stored.get(wanted.key)
    manifest = stored.manifest if stored else None
    figures = ("", "", "")
    if manifest:
        age_seconds = listing.now.timestamp() - manifest.uploaded_at_unix_s
        figures = (
            _size(manifest.size_bytes),
            _duration(manifest.compile_seconds),
            f"{_duration(max(0.0, age_seconds))} ago",
        )
    does = _what_a_start_does(listing, wanted, stored)
    return (wanted.experiment, wanted.variant, wanted.key, does, *figures)


def _what_a_start_does(listing: Listing, wanted: Wanted, stored: StoredKey | None) -> str:
    if stored and refusal(wanted, stored):
        return "be refused"
    if stored and stored.manifest:
        return "load"
    if stored and stored.being_uploaded(listing.now):
        return "compile (one is being uploaded)"
    return "compile"


def _removal_lines(listing: Listing, *, run: bool) -> Iterator[str]:
    if not listing.removals:
        yield "nothing to remove"
        return
    for removal in listing.removals:
        yield (
            f"{'removing' if run else 'can go'}  {removal.what}  {_size(removal.size_bytes)}, "
            f"{len(removal.objects)} objects: {removal.reason}"
        )
    if not run:
        total = sum(removal.size_bytes for removal in listing.removals)
        yield f"{_size(total)} can go; --run removes it"


def _prune(listing: Listing) -> None:
    place = listing.place
    s3 = client("s3", place.region)
    for removal in listing.removals:
        with explained(f"remove s3://{place.artifacts}/{removal.what}", region=place.region):
            try:
                remove(s3, place.artifacts, removal)
            except RemovalError as error:
                raise DraftworthError(f"s3://{place.artifacts}: not removed: {error}") from error
    if listing.removals:
        total = sum(removal.size_bytes for removal in listing.removals)
        _print([f"removed {_size(total)}"])


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(
            f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)
        ).rstrip()


def _size(size_bytes: int) -> str:
    return f"{size_bytes / GIB:.2f} GiB" if size_bytes >= GIB / 100 else f"{size_bytes:,} bytes"


def _duration(seconds: float) -> str:
    for unit, length in (("days", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def _print(lines: Iterable[str]) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
