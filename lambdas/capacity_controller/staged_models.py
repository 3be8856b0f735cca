"""Observes in S3 whether the models are staged, and compares the tokenizers of target and draft."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeVar

from draftworth.records import checkpoints
from draftworth.records.checkpoints import FailedModel, ReadyModel
from draftworth.records.codec import RecordError
from draftworth.records.deployment import CapacityPlan, DraftTokenizer, ModelRef
from draftworth.untrusted import TooLargeError, one_line
from lambdas.capacity_controller.s3_reading import pages_of
from lambdas.s3_document import read_object

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

M = TypeVar("M", ReadyModel, FailedModel)


@dataclass(frozen=True, kw_only=True)
class Models:
    """Whether all checkpoints that the plan names are staged.

    staging: `failed`: a staging Job has given up since the deploy. `mismatch`: the tokenizers of
        target and draft differ. `unreadable`: a `_READY.json` is not valid, or is another
        checkpoint's; then no node is started and no run is ended.
    text: the explanation of every state but `ready`.
    silent: the names of missing checkpoints of which the bucket has no file yet; empty: none.
    staged_at_unix_s: when the last checkpoint was staged; 0 if `staging` is not `ready`.
    """

    staging: Literal["ready", "missing", "failed", "mismatch", "unreadable"]
    text: str = ""
    silent: str = ""
    staged_at_unix_s: float = 0.0


def models_of(s3: S3Client, bucket: str, plan: CapacityPlan, *, since: float) -> Models:
    """Read from the bucket whether the plan's checkpoints are staged and their tokenizers agree.

    since: reports of a staging Job that gave up before this Unix time are ignored.
    """
    try:
        markers = {
            model: _marker(ReadyModel, s3, bucket, model, checkpoints.ready_key)
            for model in plan.models
        }
    except (RecordError, TooLargeError) as error:
        text = one_line(f"{checkpoints.READY_MARKER} cannot be read: {error}")
        return Models(staging="unreadable", text=text)
    ready = {model: marker for model, marker in markers.items() if marker is not None}
    missing = [model for model in plan.models if model not in ready]
    for model in missing:
        failed = None
        with suppress(RecordError, TooLargeError):
            failed = _marker(FailedModel, s3, bucket, model, checkpoints.failed_key)
        if failed is not None and failed.failed_at_unix_s >= since:
            text = one_line(f"{_name(model)} is not staged: {failed.reason}")
            return Models(staging="failed", text=text)
    if missing:
        silent = [model for model in missing if not _has_begun(s3, bucket, model)]
        return Models(
            staging="missing",
            text=", ".join(map(_name, missing)),
            silent=", ".join(map(_name, silent)),
        )
    for draft in plan.drafts:
        mismatch = tokenizer_mismatch(ready[plan.target], ready[draft.checkpoint], draft.vocabulary)
        if mismatch:
            return Models(staging="mismatch", text=one_line(mismatch))
    staged_at = max(marker.staged_at_unix_s for marker in ready.values())
    return Models(staging="ready", staged_at_unix_s=staged_at)


def _marker(
    kind: type[M], s3: S3Client, bucket: str, model: ModelRef, key_of: Callable[[str, str], str]
) -> M | None:
    data = read_object(s3, bucket, key_of(model.model, model.revision))
    if data is None:
        return None
    return checkpoints.load_marker(kind, data, model.model, model.revision)


def tokenizer_mismatch(
    target: ReadyModel, draft: ReadyModel, vocabulary: DraftTokenizer
) -> str | None:
    """Describe how the tokenizers of target and draft differ; None if their token ids agree.

    The target verifies the token ids that the draft proposes. With another vocabulary, or the same
    vocabulary in another order, it would reject nearly all ids, or read them as other words.
    vocabulary: with `own_or_none`, a draft without a tokenizer also agrees.
    """
    fingerprint = draft.tokenizer_fingerprint
    if fingerprint is None and vocabulary == "own_or_none":
        return None
    if fingerprint is not None and fingerprint == target.tokenizer_fingerprint:
        return None
    return (
        "the tokenizers of target and draft differ, so the target cannot verify the draft's token "
        f"ids: target {_tokenizer_of(target)}, draft {_tokenizer_of(draft)}; next: give the "
        "variant a draft of the target's own family and deploy again"
    )


def _tokenizer_of(ready: ReadyModel) -> str:
    name = f"{ready.model} at {ready.revision} (commit {ready.commit[:12]})"
    if ready.tokenizer_fingerprint is None:
        return f"{name} has no {checkpoints.TOKENIZER_FILE} and no {checkpoints.VOCABULARY_FILE}"
    return f"{name} has vocabulary {ready.tokenizer_fingerprint[:12]}"


def _name(model: ModelRef) -> str:
    return f"{model.model} at {model.revision}"


def _has_begun(s3: S3Client, bucket: str, model: ModelRef) -> bool:
    folder = f"{checkpoints.checkpoint_prefix(model.model, model.revision)}/"
    return any(page.get("Contents") for page in pages_of(s3, bucket, folder))
