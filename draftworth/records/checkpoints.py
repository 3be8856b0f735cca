"""Staged checkpoints: their files, their markers and the fingerprints of their tokenizers.

To stage a checkpoint is to copy it from Hugging Face to S3. In the checkpoints bucket:

    MODEL/REVISION/FILE           the checkpoint's files, as Hugging Face has them
    MODEL/REVISION/_STAGING.json  the commit that is staged; a resumed staging uses the same commit
    MODEL/REVISION/_READY.json    the list of staged files, written last: the model is complete
    MODEL/REVISION/_FAILED.json   the error of the newest staging Job that failed
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, TypeVar

from draftworth.records.codec import Between, Checked, RecordError, load_object, load_record
from draftworth.untrusted import MIB, TooLargeError, one_line, read_file

_BLOCK_BYTES = MIB
# Weight formats that the engines read, the best first; one format of a checkpoint is enough.
SERVED_WEIGHTS = ("safetensors", "bin", "pt", "pth")


@dataclass(frozen=True, kw_only=True)
class StoredFile(Checked):
    """One file of a checkpoint or of compiled graphs.

    path: relative to the folder that holds all these files. A path that leaves this folder is
        refused with ValueError, because programs open files and delete objects by it.
    """

    path: str
    size_bytes: Annotated[int, Between(0)]
    sha256: str

    def __post_init__(self) -> None:
        super().__post_init__()
        if not is_below(self.path):
            raise ValueError(f"path: given {self.path!r}, allowed: a relative path")

    @property
    def is_weights(self) -> bool:
        return PurePosixPath(self.path).suffix.removeprefix(".").lower() in SERVED_WEIGHTS


def is_below(path: str) -> bool:
    """Return whether a path is relative, not empty, and has no part `.` or `..`."""
    parts = PurePosixPath(path).parts
    return str(PurePosixPath(path)) == path and bool(parts) and not {"..", "/", "."} & set(parts)


def check_files(files: Sequence[StoredFile]) -> None:
    """Raise ValueError if there is no file, or if a path occurs twice."""
    if not files or len({file.path for file in files}) != len(files):
        raise ValueError("files: allowed: one or more, each path once")


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's content in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        # hashlib.file_digest needs Python 3.11, and some container images that are not built by
        # this project, in which this module runs too, have an older one.
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


# Kubernetes writes the number of the Job's failed pods into this annotation of each pod, and the
# pod's environment variable FAILURES_VARIABLE passes the number to the staging program. If it
# equals the Job's retry limit, Kubernetes starts no further pod.
FAILURES_ANNOTATION = "batch.kubernetes.io/job-index-failure-count"
FAILURES_VARIABLE = "DRAFTWORTH_EARLIER_FAILURES"

READY_MARKER = "_READY.json"
PLAN_MARKER = "_STAGING.json"
FAILED_MARKER = "_FAILED.json"


def has_marker_name(path: str) -> bool:
    """Return whether any part of a path is exactly a marker's name, such as `_READY.json`."""
    return not {READY_MARKER, PLAN_MARKER, FAILED_MARKER}.isdisjoint(PurePosixPath(path).parts)


@dataclass(frozen=True, kw_only=True)
class ReadyModel:
    """`_READY.json`: a model's files were all in the bucket and checked before this was written.

    revision: the branch, tag or commit in the experiment. commit: the commit that the revision
        named when staging began; a branch that has moved since is not staged again.
    tokenizer_fingerprint: None if the checkpoint has no tokenizer, like some EAGLE heads.
    staging_seconds: how long the last try to stage the model took, without earlier tries.
    """

    schema: str = "draftworth.ready/1"
    model: str
    revision: str
    commit: str
    files: tuple[StoredFile, ...]
    tokenizer_fingerprint: str | None
    staged_at_unix_s: float
    staging_seconds: float

    def __post_init__(self) -> None:
        check_files(self.files)

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)


@dataclass(frozen=True, kw_only=True)
class StagingPlan:
    """`_STAGING.json`: written before any file, so that a resumed staging uses the same commit."""

    schema: str = "draftworth.staging/1"
    model: str
    revision: str
    commit: str


@dataclass(frozen=True, kw_only=True)
class FailedModel:
    """`_FAILED.json`: a staging Job failed, and Kubernetes does not start it again.

    Readers ignore this file if `_READY.json` exists or the deploy is newer than `failed_at_unix_s`.
    reason: the error, and what the user can do next.
    """

    schema: str = "draftworth.staging-failed/1"
    model: str
    revision: str
    reason: str
    failed_at_unix_s: float


M = TypeVar("M", ReadyModel, StagingPlan, FailedModel)


def load_marker(kind: type[M], data: bytes, model: str, revision: str) -> M:
    """Parse a checkpoint's marker, such as `_READY.json`, and check that it names the checkpoint.

    RecordError is raised if the marker is damaged or belongs to another model or revision.
    """
    marker = load_record(kind, data)
    if (marker.model, marker.revision) != (model, revision):
        raise RecordError(
            f"given: the marker of {one_line(marker.model)} at {one_line(marker.revision)}, "
            f"allowed: of {model} at {revision}"
        )
    return marker


def checkpoint_prefix(model: str, revision: str) -> str:
    """Return a checkpoint's folder in the bucket, without a trailing slash."""
    return f"{model}/{revision}"


def ready_key(model: str, revision: str) -> str:
    """Return the object key of a checkpoint's `_READY.json`."""
    return f"{checkpoint_prefix(model, revision)}/{READY_MARKER}"


def failed_key(model: str, revision: str) -> str:
    """Return the object key of a checkpoint's `_FAILED.json`."""
    return f"{checkpoint_prefix(model, revision)}/{FAILED_MARKER}"


TOKENIZER_FILE = "tokenizer.json"
VOCABULARY_FILE = "vocab.json"
TOKENIZER_LIMIT_BYTES = 64 * MIB  # twice the largest known tokenizer file
# The files that can contain tokens and their ids. A checkpoint without the first two files stores
# its tokens in a form that this module does not read.
TOKENIZER_FILES = (TOKENIZER_FILE, VOCABULARY_FILE, "added_tokens.json", "tokenizer_config.json")


def tokenizer_fingerprint(folder: Path) -> str | None:
    """Return the SHA-256 of the sorted (token, id) pairs of a vocabulary with its added tokens.

    Two fingerprints are equal exactly if every token has the same id. The pairs are read from
    `tokenizer.json`, else from `vocab.json`, `added_tokens.json` and `tokenizer_config.json`. None:
    neither `tokenizer.json` nor `vocab.json` exists. RecordError is raised for a wrong file.
    """
    if (folder / TOKENIZER_FILE).is_file():
        pairs = set(_tokenizer_pairs(_read_object(folder / TOKENIZER_FILE)))
    elif (folder / VOCABULARY_FILE).is_file():
        pairs = set(_slow_tokenizer_pairs(folder))
    else:
        return None
    if not pairs:
        raise RecordError(f"{folder.name}: the tokenizer has no tokens")
    text = json.dumps(sorted(pairs), separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


Pair = tuple[str, int]


def _tokenizer_pairs(tokenizer: dict[str, Any]) -> Iterator[Pair]:
    """Yield the (token, id) pairs of a parsed `tokenizer.json` of Hugging Face.

    `model.vocab` is a list of tokens for Unigram tokenizers, and maps tokens to ids for all others.
    """
    model = tokenizer.get("model")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    if isinstance(vocabulary, dict):
        yield from _mapped(vocabulary, f"{TOKENIZER_FILE}: model.vocab")
    elif isinstance(vocabulary, list):
        for index, entry in enumerate(vocabulary):
            token = entry[0] if isinstance(entry, list) and entry else None
            yield _pair(token, index, f"{TOKENIZER_FILE}: model.vocab[{index}]")
    else:
        raise RecordError(f"{TOKENIZER_FILE}: model.vocab: allowed: an object or a list")
    where, all_added = f"{TOKENIZER_FILE}: added_tokens", tokenizer.get("added_tokens")
    if not isinstance(all_added, list | None):
        raise RecordError(f"{where}: given {all_added!r:.40}, allowed: a list")
    for added in all_added or []:
        content = added if isinstance(added, dict) else {}
        yield _pair(content.get("content"), content.get("id"), where)


def _slow_tokenizer_pairs(folder: Path) -> Iterator[Pair]:
    yield from _mapped(_read_object(folder / VOCABULARY_FILE), VOCABULARY_FILE)
    added = folder / "added_tokens.json"
    if added.is_file():
        yield from _mapped(_read_object(added), added.name)
    config = folder / "tokenizer_config.json"
    decoder = _read_object(config).get("added_tokens_decoder") if config.is_file() else None
    where = f"{config.name}: added_tokens_decoder"
    for number, token in (decoder if isinstance(decoder, dict) else {}).items():
        content = token.get("content") if isinstance(token, dict) else None
        yield _pair(content, int(number) if number.isdecimal() else None, where)


def _mapped(vocabulary: dict[str, Any], where: str) -> Iterator[Pair]:
    for token, number in vocabulary.items():
        yield _pair(token, number, where)


def _pair(token: Any, number: Any, where: str) -> Pair:
    if not isinstance(token, str) or not isinstance(number, int) or isinstance(number, bool):
        raise RecordError(
            f"{where}: given {token!r:.40} with id {number!r:.40}, allowed: text with a number"
        )
    return token, number


def _read_object(path: Path) -> dict[str, Any]:
    try:
        return load_object(read_file(path, TOKENIZER_LIMIT_BYTES))
    except (RecordError, TooLargeError) as error:
        raise RecordError(f"{path.name}: {error}") from error
