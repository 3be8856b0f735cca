"""The canary Job's program tries one variant's mounts and rights before capacity is asked for.

It waits until its checkpoints are staged, and asks S3 itself, because the mount may keep what it
saw. Then a step may fail for some minutes, because a role that was just made is refused at first.
Each result replaces the report before (`draftworth/records/deployment.py`).

Exit codes: 0 everything was read and reached, 1 something was not; the report says what.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from draftworth.errors import DraftworthError
from draftworth.records.artifacts import RefusedGraphsError
from draftworth.records.checkpoints import ready_key
from draftworth.records.codec import dump_record
from draftworth.records.deployment import CanaryReport, canary_key
from draftworth.records.servers import last_lines
from draftworth.untrusted import one_line
from pods.canary.mounts import Mounts
from pods.log import log_line
from pods.termination import end_at_sigterm

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

EXIT_OK = 0
EXIT_FAILED = 1
ROLES = ("target", "draft")
WAIT_HOURS = 24
PATIENCE_SECONDS = 120
POLL_SECONDS = 10
_TEXT_CHARACTERS = 1000
_RETRIES = Config(retries={"mode": "standard", "max_attempts": 4})
_NOT_THERE = frozenset(("404", "NoSuchKey", "NotFound"))
_NEXT = (
    "next: compare the pod's events, the log of the S3 CSI driver and the Pod Identity "
    "association of the variant's service account, then deploy again with a raised `rerun`"
)

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Canary:
    """One try.

    wait_seconds: how long the checkpoints may take to be staged.
    patience_seconds: how long a step may fail.
    """

    client: S3Client
    checkpoints_bucket: str
    results_bucket: str
    job_name: str
    variant: str
    mounts: Mounts
    wait_seconds: float
    patience_seconds: float
    poll_seconds: float
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    log: list[str] = field(default_factory=list)

    def run(self) -> bool:
        """Wait, read and report; return whether all is well. Raise errors of S3 in a report."""
        try:
            self._wait_until_staged()
            self._patiently(self._read)
        except (BotoCoreError, ClientError, DraftworthError) as error:
            self._say(f"failed: {error}")
            reason = f"{error}"
            if not isinstance(error, RefusedGraphsError):
                reason = f"{reason}; {_NEXT}"
            self._report(ok=False, text=reason)
            return False
        self._report(ok=True, text="checkpoints and artifacts were read, the results reached")
        return True

    def _wait_until_staged(self) -> None:
        give_up_at = self.clock() + self.wait_seconds
        for model, revision in self.mounts.models.values():
            key = ready_key(model, revision)
            self._say(f"waiting for {key}")
            while not self._patiently(partial(self._is_there, key)):
                if self.clock() >= give_up_at:
                    raise DraftworthError(f"{key} was not staged within {self.wait_seconds:g} s")
                self.sleep(self.poll_seconds)

    def _patiently(self, step: Callable[[], T]) -> T:
        """Repeat the step until it succeeds, or has failed for too long."""
        give_up_at = self.clock() + self.patience_seconds
        while True:
            try:
                return step()
            except RefusedGraphsError:
                raise
            except (BotoCoreError, ClientError, DraftworthError) as error:
                if self.clock() >= give_up_at:
                    raise
                self._say(f"not yet: {error}")
                self.sleep(self.poll_seconds)

    def _is_there(self, key: str) -> bool:
        try:
            self.client.head_object(Bucket=self.checkpoints_bucket, Key=key)
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") in _NOT_THERE:
                return False
            raise
        return True

    def _read(self) -> None:
        for line in self.mounts.read():
            self._say(line)

    def _report(self, *, ok: bool, text: str) -> None:
        report = CanaryReport(
            job_name=self.job_name,
            variant=self.variant,
            ok=ok,
            text=one_line(text, characters=_TEXT_CHARACTERS),
            last_lines=last_lines(tuple(self.log)),
            reported_at_unix_s=time.time(),
        )
        self.client.put_object(
            Bucket=self.results_bucket,
            Key=canary_key(self.job_name, self.variant),
            Body=dump_record(report),
            ContentType="application/json",
        )

    def _say(self, line: str) -> None:
        self.log.append(line)
        log_line(line)


def main(argv: Sequence[str]) -> int:
    """Try the mounts and rights once."""
    arguments = _parser().parse_args(argv)
    end_at_sigterm()
    try:
        is_well = _canary(arguments).run()
    except (BotoCoreError, ClientError) as error:
        log_line(f"the results bucket cannot be reached: {error}")
        return EXIT_FAILED
    return EXIT_OK if is_well else EXIT_FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m pods.canary", description=__doc__)
    parser.add_argument("--job", required=True, help="the measuring Job that this belongs to")
    parser.add_argument("--variant", required=True, help="whose server this stands for")
    parser.add_argument("--checkpoints", required=True, help="the bucket with the checkpoints")
    parser.add_argument("--results", required=True, help="the bucket for the report")
    parser.add_argument("--artifacts-folder", required=True, type=Path, help="where it is mounted")
    for role in ROLES:
        parser.add_argument(
            f"--{role}",
            required=role == ROLES[0],
            metavar="FOLDER=MODEL@REVISION",
            help="where the checkpoint is mounted, and what it must be",
        )
    for name, default, text in (
        ("--wait-seconds", WAIT_HOURS * 3600, "for the checkpoints to be staged"),
        ("--patience-seconds", PATIENCE_SECONDS, "for what fails to be mended"),
        ("--poll-seconds", POLL_SECONDS, "between two looks"),
    ):
        parser.add_argument(name, type=float, default=default, help=f"{text} (%(default)s)")
    return parser


def _canary(arguments: argparse.Namespace) -> Canary:
    given = {role: value for role in ROLES if (value := getattr(arguments, role))}
    folders = {role: value.partition("=")[0] for role, value in given.items()}
    models = {role: value.partition("=")[2].partition("@") for role, value in given.items()}
    return Canary(
        client=boto3.client("s3", config=_RETRIES),
        checkpoints_bucket=arguments.checkpoints,
        results_bucket=arguments.results,
        job_name=arguments.job,
        variant=arguments.variant,
        mounts=Mounts(
            checkpoints={role: Path(folder) for role, folder in folders.items()},
            models={role: (model, revision) for role, (model, _, revision) in models.items()},
            artifacts=arguments.artifacts_folder,
            key=os.environ["ARTIFACT_KEY"],
            inputs=json.loads(os.environ["ARTIFACT_INPUTS"]),
        ),
        wait_seconds=arguments.wait_seconds,
        patience_seconds=arguments.patience_seconds,
        poll_seconds=arguments.poll_seconds,
    )
