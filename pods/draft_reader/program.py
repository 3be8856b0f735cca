"""The draft reader's program: waits for a search's outputs, has each draft read them, tells.

It runs in the serving image, which has torch, transformers and boto3. The load generator puts the
baseline's outputs into the folder of its run and looks there for the readings now and then
(`pods/measuring/draft_outputs.py`); it never waits for them. So whatever goes wrong here costs no
answer.

Exit codes: 0 the readings are there, or nobody needs them any more, 1 no draft could read, or the
wait was too long, 2 the outputs are wrong.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from draftworth.errors import DraftworthError, UserInputError
from draftworth.records.codec import dump_record, load_record
from draftworth.records.readings import (
    OUTPUTS_FILE,
    OUTPUTS_LIMIT_BYTES,
    READINGS_FILE,
    READINGS_LIMIT_BYTES,
    DraftReadings,
    Output,
    Reading,
    reading_memory_gib,
)
from draftworth.untrusted import read_at_most
from pods.log import log_line
from pods.teacher_forcing.memory import weights_bytes
from pods.teacher_forcing.reader import Reader
from pods.termination import end_at_sigterm

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

EXIT_OK = 0
EXIT_FAILED = 1
END_OF_RUN = "run.json"
WAIT_HOURS = 23
POLL_SECONDS = 15
_GIB = 2**30
_RETRIES = Config(retries={"mode": "standard", "max_attempts": 8})

# What a draft's folder says of outputs.
ReadWith = Callable[[Path, Sequence[Output]], Sequence[Reading]]


@dataclass(kw_only=True)
class DraftReader:
    """One Job's work.

    runs: `RUNS_FOLDER/JOB-`, with which the keys of the measuring Job's runs begin.
    drafts: where each is mounted, by `Candidate.draft`. memory_gib: what this container may use.
    wait_seconds: for outputs.
    """

    client: S3Client
    bucket: str
    runs: str
    drafts: Mapping[str, Path]
    read_with: ReadWith
    memory_gib: float
    wait_seconds: float
    poll_seconds: float
    log: Callable[[str], None] = log_line
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _told: set[str] = field(default_factory=set)

    def run(self) -> int:
        """Wait, read, tell; the exit code. Raises UserInputError for outputs that are none."""
        give_up_at_seconds = self.clock() + self.wait_seconds
        while self.clock() < give_up_at_seconds:
            try:
                if (code := self._look()) is not None:
                    return code
            except (BotoCoreError, ClientError) as error:
                # A role that was just made is refused at first.
                self._say_once(f"s3://{self.bucket}/{self.runs}*: not yet: {error}")
            self.sleep(self.poll_seconds)
        self.log(f"no outputs were there within {self.wait_seconds:g} s")
        return EXIT_FAILED

    def _look(self) -> int | None:
        """Do what is due; None: it is not time yet."""
        keys = {*self._keys()}
        runs = {"/".join(key.split("/")[:2]) for key in keys}
        is_over = {run for run in runs if {f"{run}/{END_OF_RUN}", f"{run}/{READINGS_FILE}"} & keys}
        for run in sorted(runs - is_over):
            if f"{run}/{OUTPUTS_FILE}" in keys:
                return self._read(run)
        if is_over and is_over == runs:
            self.log("the readings are there, or the run is over")
            return EXIT_OK
        self._say_once(f"waiting for {OUTPUTS_FILE} of a run {self.runs}*")
        return None

    def _read(self, run: str) -> int:
        outputs = self._outputs(f"{run}/{OUTPUTS_FILE}")
        self.log(f"{run}: {len(outputs)} outputs")
        found = dict(self._readings(outputs))
        if not found:
            return EXIT_FAILED
        readings = dump_record(DraftReadings(run_id=run.partition("/")[2], drafts=found))
        if len(readings) > READINGS_LIMIT_BYTES:
            self.log(f"{len(readings):,} bytes of readings, allowed: {READINGS_LIMIT_BYTES:,}")
            return EXIT_FAILED
        self._put(f"{run}/{READINGS_FILE}", readings)
        self.log(f"{run}: read by {', '.join(found)}")
        return EXIT_OK

    def _outputs(self, key: str) -> list[Output]:
        body = self.client.get_object(Bucket=self.bucket, Key=key)["Body"]
        try:
            lines = read_at_most(body, OUTPUTS_LIMIT_BYTES).splitlines()
            return [load_record(Output, line) for line in lines]
        except DraftworthError as error:
            raise UserInputError(f"{key}: not a file of outputs: {error}") from error

    def _readings(self, outputs: Sequence[Output]) -> Iterator[tuple[str, tuple[Reading, ...]]]:
        """Of each draft that can read; why another one cannot is in the log."""
        for draft, folder in self.drafts.items():
            try:
                self._check_memory(folder)
                yield draft, tuple(self.read_with(folder, outputs))
            except (DraftworthError, OSError) as error:
                self.log(f"{draft} does not read: {error}")

    def _check_memory(self, folder: Path) -> None:
        """Before Kubernetes ends the container for it, and with it the drafts that fit."""
        weights_gib = weights_bytes(folder) / _GIB
        needed_gib = reading_memory_gib(weights_gib)
        if needed_gib > self.memory_gib:
            raise DraftworthError(
                f"{weights_gib:.1f} GiB of weights take {needed_gib:.1f} GiB of memory, allowed: "
                f"{self.memory_gib:g} GiB"
            )

    def _put(self, key: str, data: bytes) -> None:
        """Once: what a pod before this one has put there is as good."""
        try:
            self.client.put_object(
                Bucket=self.bucket,
                Key=key,
                Body=data,
                IfNoneMatch="*",
                ContentType="application/json",
            )
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") != "PreconditionFailed":
                raise

    def _keys(self) -> Iterator[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(
            Bucket=self.bucket, Prefix=self.runs
        )
        return (entry["Key"] for page in pages for entry in page.get("Contents", ()))

    def _say_once(self, line: str) -> None:
        if line not in self._told:
            self._told.add(line)
            self.log(line)


def main(argv: Sequence[str]) -> int:
    """Read once."""
    arguments = _parser().parse_args(argv)
    end_at_sigterm()
    try:
        return _draft_reader(arguments).run()
    except DraftworthError as error:
        log_line(str(error))
        return error.exit_code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m pods.draft_reader", description=__doc__)
    parser.add_argument("--results", required=True, help="the bucket with the runs")
    parser.add_argument("--runs", required=True, help="with what the keys of the runs begin")
    parser.add_argument("--target", required=True, type=Path, help="where the target is mounted")
    parser.add_argument(
        "--draft",
        required=True,
        action="append",
        metavar="FOLDER=MODEL",
        help="where a draft is mounted, and which one it is; once for each",
    )
    parser.add_argument("--scratch", required=True, type=Path, help="a folder to write to")
    parser.add_argument("--memory-gib", required=True, type=float, help="what it may use")
    parser.add_argument("--enable-thinking", action="store_true")
    for name, default, text in (
        ("--wait-seconds", WAIT_HOURS * 3600, "for the outputs"),
        ("--poll-seconds", POLL_SECONDS, "between two looks"),
    ):
        parser.add_argument(name, type=float, default=default, help=f"{text} (%(default)s)")
    return parser


def _draft_reader(arguments: argparse.Namespace) -> DraftReader:
    drafts = (draft.partition("=") for draft in arguments.draft)
    reader = Reader(
        python=Path(sys.executable),
        target=arguments.target,
        folder=arguments.scratch,
        enable_thinking=arguments.enable_thinking,
    )
    return DraftReader(
        client=boto3.client("s3", config=_RETRIES),
        bucket=arguments.results,
        runs=arguments.runs,
        drafts={model: Path(folder) for folder, _, model in drafts},
        read_with=reader.readings,
        memory_gib=arguments.memory_gib,
        wait_seconds=arguments.wait_seconds,
        poll_seconds=arguments.poll_seconds,
    )
