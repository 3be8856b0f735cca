"""Graphs that were compiled without a device, before a device has loaded them.

Standard library only: who compiles and who serves write and read it. In the artifacts bucket,
beside what `artifact_manifest` says:

    KEY/_UNPROVEN.json          where the files are, and how they were made; written last and once
    KEY/_REJECTED.json          a server could not use them: nobody tries again

Unproven graphs become proven when `KEY/_ARTIFACTS.json` names the same folder: nothing is copied.
What that file names counts, whatever the others say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from draftworth.records.artifact_manifest import ArtifactManifest
from draftworth.records.control import CONTROL_PREFIX

UNPROVEN_NAME = "_UNPROVEN.json"
REJECTED_NAME = "_REJECTED.json"
COMPILING_FOLDER = f"{CONTROL_PREFIX}compiling/"

# compiled: the graphs are in the bucket. not_needed: they, or others for the same key, were there
# before, or a server has rejected them. failed: there are none, and none will come.
CompileOutcome = Literal["compiled", "not_needed", "failed"]


@dataclass(frozen=True, kw_only=True)
class CompileHost:
    """Where and how graphs were compiled without a device.

    attempt: from 1; one after memory ran out has fewer workers.
    workers: compiler processes that ran at once, at most.
    peak_memory_bytes: of the pod; None: the kernel did not say.
    environment: what the compiler was told of the device.
    packages: versions of what took part, by name.
    """

    instance_type: str
    vcpus: int
    memory_bytes: int | None
    attempt: int
    workers: int
    peak_memory_bytes: int | None
    environment: Mapping[str, str]
    packages: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if min(self.vcpus, self.attempt, self.workers) < 1:
            raise ValueError("vcpus, attempt and workers: allowed: 1 or more")


@dataclass(frozen=True, kw_only=True)
class UnprovenManifest:
    """`KEY/_UNPROVEN.json`. graphs: what becomes the manifest, as it is, once they are proven."""

    schema: str = "draftworth.unproven-artifacts/1"
    graphs: ArtifactManifest
    compiled_on: CompileHost


@dataclass(frozen=True, kw_only=True)
class Rejection:
    """`KEY/_REJECTED.json`: a server on the devices could not use them.

    folder: of the upload that is rejected; graphs in another folder are not.
    reason: in words. last_lines: of that server's log, the newest last.
    """

    schema: str = "draftworth.rejected-artifacts/1"
    key: str
    folder: str
    server: str
    pod: str
    reason: str
    last_lines: tuple[str, ...] = ()
    rejected_at_unix_s: float


@dataclass(frozen=True, kw_only=True)
class CompileReport:
    """`control/compiling/KEY.json` in the results bucket: how a compile Job ended.

    key: the artifact key. job_name: of the compile Job, which changes with what it compiles.
    text: what happened, or why it failed, in words.
    workers, compile_seconds, peak_memory_bytes: None where they are not known.
    """

    schema: str = "draftworth.compile-report/1"
    key: str
    job_name: str
    outcome: CompileOutcome
    text: str
    attempt: int
    workers: int | None = None
    compile_seconds: float | None = None
    peak_memory_bytes: int | None = None
    last_lines: tuple[str, ...] = ()
    reported_at_unix_s: float


def unproven_key(key: str) -> str:
    """Object key of a key's unproven graphs, and its path below the mounted bucket."""
    return f"{key}/{UNPROVEN_NAME}"


def rejected_key(key: str) -> str:
    """Object key of their rejection, and its path below the mounted bucket."""
    return f"{key}/{REJECTED_NAME}"


def compile_report_key(key: str) -> str:
    """Object key of a compile Job's report."""
    return f"{COMPILING_FOLDER}{key}.json"
