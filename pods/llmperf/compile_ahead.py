"""Graphs that a search will likely need: compiled on CPU nodes while others are measured.

Their Jobs are suspended from the deploy on. This program resumes those that are asked for and
writes which they are, for the capacity controller to give them nodes (`lambdas/
capacity_controller/compiling.py`). Nobody waits for them: a candidate whose graph is not there is
compiled by its server.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from draftworth.errors import UserInputError
from draftworth.measuring.clock import WallClock, unix_clock
from draftworth.records.codec import RecordError, dump_record, load_record
from draftworth.records.unproven_graphs import WANTED_KEY, WantedGraphs
from draftworth.untrusted import TooLargeError, read_at_most
from pods.llmperf.kubernetes_servers import KubernetesApi

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

# Denied: this role may not list where the object lies, and then S3 does not say that there is none.
_NOTHING_THERE = {"NoSuchKey", "AccessDenied"}


@dataclass(frozen=True, kw_only=True)
class CompileJob:
    """Who compiles a variant's graph: the Job, and the graph's artifact key."""

    key: str
    job_name: str


def compile_jobs(text: str) -> dict[str, CompileJob]:
    """By variant, of JSON text; raises UserInputError."""
    try:
        return {name: CompileJob(**given) for name, given in json.loads(text).items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise UserInputError(
            f"--compile-jobs: given {text[:80]!r}, allowed: a JSON object with key and job_name "
            "for each variant"
        ) from error


@dataclass(kw_only=True)
class CompileAhead:
    """Asked with variants, the cheapest expected first; what was asked for stays so.

    measuring_job: whose run needs them.
    """

    jobs: Mapping[str, CompileJob]
    api: KubernetesApi
    client: S3Client
    bucket: str
    measuring_job: str
    log: Callable[[str], None]
    clock: WallClock = unix_clock
    _since: dict[str, float] | None = field(default=None, init=False)

    def __call__(self, variants: Sequence[str]) -> None:
        """Ask for the graphs of these; what fails is a line in the log."""
        try:
            self._ask(variants)
        except Exception as error:  # noqa: BLE001 - whatever it is, their servers compile them
            self.log(f"graphs are not compiled ahead: {type(error).__name__}: {error}")

    def _ask(self, variants: Sequence[str]) -> None:
        if self._since is None:
            self._since = self._asked_before()
        asked = [self.jobs[name] for name in variants if name in self.jobs]
        for job in asked:
            if job.key in self._since:
                continue
            self.api.resume_job(job.job_name)
            since = {**self._since, job.key: self.clock()}
            self._write(since)
            self._since = since  # only what the controller was told is asked for
            self.log(f"asked for on a CPU node: {job.job_name}")

    def _asked_before(self) -> dict[str, float]:
        """By an earlier pod of this Job; raises ClientError where it cannot be read now, because
        the next write would drop it."""
        try:
            body = self.client.get_object(Bucket=self.bucket, Key=WANTED_KEY)["Body"]
            found = load_record(WantedGraphs, read_at_most(body))
        except (RecordError, TooLargeError):
            return {}
        except self.client.exceptions.ClientError as error:
            if error.response["Error"]["Code"] not in _NOTHING_THERE:
                raise
            return {}
        return dict(found.since_unix_s) if found.job_name == self.measuring_job else {}

    def _write(self, since: Mapping[str, float]) -> None:
        wanted = WantedGraphs(job_name=self.measuring_job, since_unix_s=since)
        self.client.put_object(
            Bucket=self.bucket,
            Key=WANTED_KEY,
            Body=dump_record(wanted),
            ContentType="application/json",
        )
