"""Staged checkpoints: their files, their markers, and whether two tokenizers agree.

Standard library only.

Standard library only: the stager's pod and the capacity controller use it. In the checkpoints
bucket:

    MODEL/REVISION/FILE           the checkpoint's files, as the hub has them
    MODEL/REVISION/_STAGING.json  the commit that staging began with: who resumes takes the same
    MODEL/REVISION/_READY.json    what was staged; written last, so a model that has it is whole
    MODEL/REVISION/_FAILED.json   why staging was given up; of the newest Job that did

Standard library only: the stager computes a fingerprint, the capacity controller compares two.
Apart from `staging`, which the serving pods' programs carry with them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from draftworth.records.codec import RecordError, load_object
from draftworth.untrusted import MIB, TooLargeError, read_file

# Formats that the engines read, the best first; others beside it are duplicates.
SERVED_WEIGHTS = ("safetensors", "bin", "pt", "pth")


@dataclass(frozen=True, kw_only=True)
class StoredFile:
    """One file; `path` counts from its folder and cannot lead out of it.

    Paths are opened, and objects deleted by them.
    """

    path: str
    size_bytes: int
    sha256: str

    def __post_init__(self) -> None:
        if not is_below(self.path):
            raise ValueError(f"path: given {self.path!r}, allowed: a relative path")
        if self.size_bytes < 0:
            raise ValueError(f"size_bytes: given {self.size_bytes}, allowed: 0 or more")

    @property
    def is_weights(self) -> bool:
        return PurePosixPath(self.path).suffix.removeprefix(".").lower() in SERVED_WEIGHTS


def is_below(path: str) -> bool:
    """Whether a path is a plain relative one, without `..`."""
    parts = PurePosixPath(path).parts
    return str(PurePosixPath(path)) == path and bool(parts) and not {"..", "/", "."} & set(parts)


def check_files(files: Sequence[StoredFile]) -> None:
    """Raise ValueError unless there is a file, and each path once."""
    if not files or len({file.path for file in files}) != len(files):
        raise ValueError("files: allowed: one or more, each path once")


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's content, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def replace_file(path: Path, data: bytes) -> Path:
    """Write all of a file, or leave the one that was there before: never a half."""
    partial = path.with_name(f".{path.name}.partial")
    partial.write_bytes(data)
    return partial.replace(path)


# Kubernetes' count of a Job's pods that failed, on each pod, and the variable that carries it into
# the program: the pod that knows of as many as there are retries is the last one.
FAILURES_ANNOTATION = "batch.kubernetes.io/job-index-failure-count"
FAILURES_VARIABLE = "DRAFTWORTH_EARLIER_FAILURES"

READY_SCHEMA = "draftworth.ready/1"
READY_MARKER = "_READY.json"
PLAN_SCHEMA = "draftworth.staging/1"
PLAN_MARKER = "_STAGING.json"
FAILED_MARKER = "_FAILED.json"


@dataclass(frozen=True, kw_only=True)
class ReadyModel:
    """`_READY.json`: every file named here was in the bucket, whole and checked, when it was put.

    revision: as the experiment has it, a branch, tag or commit; `commit`: what it stood for when
        staging began. A branch that moved since is not staged again.
    tokenizer_fingerprint: of the vocabulary (`tokenizers.tokenizer_fingerprint`); None where the
        checkpoint brings none, as EAGLE heads may.
    staging_seconds: from the stager's start, files that an earlier try had staged not included.
    """

    schema: str = READY_SCHEMA
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
        """All files together."""
        return sum(file.size_bytes for file in self.files)


@dataclass(frozen=True, kw_only=True)
class StagingPlan:
    """`_STAGING.json`: written before the first file; a resumed staging mixes no commits."""

    schema: str = PLAN_SCHEMA
    model: str
    revision: str
    commit: str


@dataclass(frozen=True, kw_only=True)
class FailedModel:
    """`_FAILED.json`: a staging Job gave up and will not be tried again by itself.

    It says nothing beside a `_READY.json`, nor of a deploy that came after `failed_at_unix_s`.
    reason: what failed, for people, with the next step.
    """

    schema: str = "draftworth.staging-failed/1"
    model: str
    revision: str
    reason: str
    failed_at_unix_s: float


def checkpoint_prefix(model: str, revision: str) -> str:
    """A checkpoint's folder in the bucket, without a trailing slash."""
    return f"{model}/{revision}"


def ready_key(model: str, revision: str) -> str:
    """Object key of a checkpoint's `_READY.json`."""
    return f"{checkpoint_prefix(model, revision)}/{READY_MARKER}"


def plan_key(model: str, revision: str) -> str:
    """Object key of a checkpoint's `_STAGING.json`."""
    return f"{checkpoint_prefix(model, revision)}/{PLAN_MARKER}"


def failed_key(model: str, revision: str) -> str:
    """Object key of a checkpoint's `_FAILED.json`."""
    return f"{checkpoint_prefix(model, revision)}/{FAILED_MARKER}"


TOKENIZER_FILE = "tokenizer.json"
VOCABULARY_FILE = "vocab.json"
TOKENIZER_LIMIT_BYTES = 64 * MIB  # the largest known are half as large
# Where tokens and their ids can stand. Of a checkpoint with none of the first two, they are in a
# form that is not read here.
TOKENIZER_FILES = (TOKENIZER_FILE, VOCABULARY_FILE, "added_tokens.json", "tokenizer_config.json")


def tokenizer_mismatch(
    target: ReadyModel, draft: ReadyModel, *, draft_may_lack_tokenizer: bool = False
) -> str | None:
    """Why a draft's token ids do not mean the target's; None when they do.

    A target verifies the ids that a draft proposes: with another vocabulary, or the same one in
    another order, it would reject nearly everything, or worse, take one word for another.
    `draft_may_lack_tokenizer` is for EAGLE heads, which are trained on the target's ids and often
    published without a tokenizer; a draft model has ids of its own.
    """
    if target.tokenizer_fingerprint == draft.tokenizer_fingerprint is not None:
        return None
    if draft.tokenizer_fingerprint is None and draft_may_lack_tokenizer:
        return None
    return (
        "the tokenizers of target and draft differ, so the target cannot verify the draft's token "
        f"ids: target {_tokenizer_of(target)}, draft {_tokenizer_of(draft)}; next: give the "
        "variant a draft of the target's own family and deploy again"
    )


def _tokenizer_of(ready: ReadyModel) -> str:
    name = f"{ready.model} at {ready.revision} (commit {ready.commit[:12]})"
    if ready.tokenizer_fingerprint is None:
        return f"{name} has no {TOKENIZER_FILE} and no {VOCABULARY_FILE}"
    return f"{name} has vocabulary {ready.tokenizer_fingerprint[:12]}"


def tokenizer_fingerprint(folder: Path) -> str | None:
    """SHA-256 over the sorted (token, id) pairs of a checkpoint's vocabulary, added tokens too.

    Equal exactly when every token has the same id, in whatever order and file they stand. Read from
    `tokenizer.json`, else from `vocab.json` with `added_tokens.json` and the added tokens of
    `tokenizer_config.json`; None where neither is there.

    Raises:
        RecordError: a file is there and is not a vocabulary.
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
    """Of Hugging Face's `tokenizer.json`: BPE, WordPiece and WordLevel map, Unigram lists."""
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
    where = f"{TOKENIZER_FILE}: added_tokens"
    for added in _list(tokenizer.get("added_tokens"), where):
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


def _list(value: Any, where: str) -> list[Any]:
    if value is not None and not isinstance(value, list):
        raise RecordError(f"{where}: given {value!r:.40}, allowed: a list")
    return value or []


def _read_object(path: Path) -> dict[str, Any]:
    try:
        return load_object(read_file(path, TOKENIZER_LIMIT_BYTES))
    except (RecordError, TooLargeError) as error:
        raise RecordError(f"{path.name}: {error}") from error
