"""How a canary tries a step again, and reports what came of it."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from draftworth.errors import DraftworthError
from draftworth.records import codec, deployment, servers
from draftworth.untrusted import one_line
from pods.log import log_line

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

T = TypeVar("T")
EXIT_OK = 0
EXIT_FAILED = 1
RETRIES = Config(retries={"mode": "standard", "max_attempts": 4})
POLL_SECONDS = 10
_TEXT_CHARACTERS = 1000


@dataclass(frozen=True, kw_only=True)
class Attempts:
    """The tries of one canary, its log and its report.

    client: writes the report. arguments: the parsed command line (`add_options`).
    name: the variant's name, or `deployment.PATHS`. log: the lines of the report.
    """

    client: S3Client
    arguments: argparse.Namespace
    name: str
    log: list[str] = field(default_factory=list)

    def patiently(
        self, step: Callable[[], T], *, final: tuple[type[DraftworthError], ...] = ()
    ) -> T:
        """Return the step's result; repeat it if it fails, as long as the arguments allow.

        final: errors that the next minutes do not mend, after which the step is not repeated.
        """
        give_up_at = time.monotonic() + self.arguments.patience_seconds
        while True:
            try:
                return step()
            except final:
                raise
            except (BotoCoreError, ClientError, DraftworthError) as error:
                if time.monotonic() >= give_up_at:
                    raise
                self.say(f"not yet: {error}")
                time.sleep(self.arguments.poll_seconds)

    def report(self, *, ok: bool, text: str) -> None:
        """Replace the canary's report in the results bucket; raise boto3's error if S3 refuses."""
        report = deployment.CanaryReport(
            job_name=self.arguments.job,
            variant=self.name,
            ok=ok,
            text=one_line(text, characters=_TEXT_CHARACTERS),
            last_lines=servers.last_lines(tuple(self.log)),
            reported_at_unix_s=time.time(),
        )
        self.client.put_object(
            Bucket=self.arguments.results,
            Key=deployment.canary_key(self.arguments.job, self.name),
            Body=codec.dump_record(report),
            ContentType="application/json",
        )

    def say(self, line: str) -> None:
        self.log.append(line)
        log_line(line)


def add_options(parser: argparse.ArgumentParser, *, patience_seconds: float) -> None:
    """Add the options that all canaries have. patience_seconds: the default of its option."""
    parser.add_argument("--job", required=True, help="the measuring Job that this belongs to")
    parser.add_argument("--results", required=True, help="the bucket for the report")
    for name, default, text in (
        ("--patience-seconds", patience_seconds, "how long a failing step is tried again"),
        ("--poll-seconds", POLL_SECONDS, "time between two tries"),
    ):
        parser.add_argument(name, type=float, default=default, help=f"{text} (%(default)s)")


def exit_code(run: Callable[[], bool]) -> int:
    """Run a canary and return the program's exit code; log why no report could be written."""
    try:
        is_well = run()
    except (BotoCoreError, ClientError) as error:
        log_line(f"the results bucket cannot be reached: {error}")
        return EXIT_FAILED
    return EXIT_OK if is_well else EXIT_FAILED
