"""Staged checkpoints: ONE definition, for who stages them, waits for them and compares them.

Standard library only: the stager's pod and the capacity controller use it. In the checkpoints
bucket:

    MODEL/REVISION/FILE           the checkpoint's files, as the hub has them
    MODEL/REVISION/_STAGING.json  the commit that staging began with: who resumes takes the same
    MODEL/REVISION/_READY.json    what was staged; written last, so a model that has it is whole
    MODEL/REVISION/_FAILED.json   why staging was given up; of the newest Job that did
"""

from __future__ import annotations

from dataclasses import dataclass

from draftworth.records.files import StoredFile, check_files

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
