"""The compile Job's program: one server's graphs, compiled without a device, into the bucket.

It runs in the serving image, with the server's own command line after `--`. What it uploads is
unproven: a server copies it, and only a server that answers on the devices makes it proven. Whoever
waits for the graphs reads the report in the results bucket, and waits no longer than its own limit:
a pod that the kernel kills reports nothing.

Exit codes: 0 the graphs are in the bucket, or none are needed; 1 or 137 (memory ran out) another
pod may do better, which has half of the workers; 2 no pod will.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import boto3
from boto3.exceptions import Boto3Error
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from draftworth.errors import DraftworthError, UserInputError
from draftworth.records.artifact_manifest import ArtifactManifest, manifest_key, upload_folder
from draftworth.records.codec import RecordError, dump_record
from draftworth.records.mounted_graphs import mounted_commits
from draftworth.records.staging import FAILURES_VARIABLE
from draftworth.records.unproven_graphs import (
    CompileHost,
    CompileOutcome,
    CompileReport,
    Rejection,
    UnprovenManifest,
    compile_report_key,
    rejected_key,
    unproven_key,
)
from pods.compiled_graphs.engine_folders import add_folder_flags, folders_of
from pods.compiled_graphs.graph_bucket import (
    GraphBucket,
    UnfinishedError,
    inventory,
    last_written_unix_s,
)
from pods.compiled_graphs.health import HEALTH_PERIOD_SECONDS
from pods.compiled_graphs.log_tail import LogTail
from pods.compiled_graphs.server_process import adopt_orphans, end_family
from pods.graph_compiler.compilation import (
    LOGICAL_CORES_VARIABLE,
    TARGET_VARIABLE,
    Compilation,
    Compiled,
    StoppedBeforeLoading,
    usable_cpus,
)
from pods.graph_compiler.cpu_mode import CpuMode
from pods.graph_compiler.memory import CGROUP, PodMemory
from pods.log import log_line
from pods.termination import end_at_sigterm

# Pods that the Job starts for one that failed.
RETRIES = 1
# Of EC2's machines: the instance type.
PRODUCT_NAME = Path("/sys/devices/virtual/dmi/id/product_name")
_CONFIG = Config(connect_timeout=10, retries={"mode": "standard", "max_attempts": 8})


@dataclass(frozen=True, kw_only=True)
class Job:
    """One pod's work.

    inputs: what the key is the address of. checkpoints: folders with configurations, by role.
    attempt: from 1. workers: of this attempt.
    """

    key: str
    inputs: Mapping[str, Any]
    checkpoints: Mapping[str, Path]
    bucket: GraphBucket
    compilation: Compilation
    attempt: int
    memory: PodMemory
    upload_id: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    tail: LogTail = field(default_factory=LogTail)

    def run(self) -> tuple[CompileOutcome, str, float | None]:
        """Compile and upload, unless it is done: the outcome, in words, and the seconds it took.

        Raises:
            DraftworthError, OSError, and what boto3 raises.
        """
        if there := self._there():
            return "not_needed", there, None
        with self.memory:
            compiled = self.compilation.run(self.tail, self.memory)
        unproven = self._unproven(compiled)
        seconds = unproven.graphs.compile_seconds
        self.bucket.put_files(compiled.graphs, unproven.graphs)
        if not self._there():
            self.bucket.put_once(unproven_key(self.key), unproven)
        if self._is_own():
            size_gib = unproven.graphs.size_bytes / 2**30
            return "compiled", f"{unproven.graphs.folder}: {size_gib:.2f} GiB, unproven", seconds
        self.bucket.remove(unproven.graphs.folder)
        return "not_needed", f"{self._there()}; what was compiled here is removed", seconds

    def _there(self) -> str:
        """What the bucket has of the key, in words; empty: nothing."""
        if proven := self.bucket.read(ArtifactManifest, manifest_key(self.key)):
            return f"{proven.folder} is in the bucket, proven"
        if rejected := self.bucket.read(Rejection, rejected_key(self.key)):
            return f"{rejected.folder} was rejected by a server: {rejected.reason}"
        if unproven := self.bucket.read(UnprovenManifest, unproven_key(self.key)):
            return f"{unproven.graphs.folder} is in the bucket, unproven"
        return ""

    def _is_own(self) -> bool:
        stored = self.bucket.read(UnprovenManifest, unproven_key(self.key))
        return stored is not None and stored.graphs.folder == upload_folder(
            self.key, self.upload_id
        )

    def _unproven(self, compiled: Compiled) -> UnprovenManifest:
        last = last_written_unix_s(compiled.graphs)
        graphs = ArtifactManifest(
            key=self.key,
            inputs=self.inputs,
            checkpoints=mounted_commits(self.checkpoints),
            folder=upload_folder(self.key, self.upload_id),
            files=tuple(inventory(compiled.graphs)),
            compile_seconds=max(0.0, last - compiled.started_at_unix_s),
            uploaded_at_unix_s=time.time(),
        )
        return UnprovenManifest(graphs=graphs, compiled_on=self._host(compiled.packages))

    def _host(self, packages: Mapping[str, str]) -> CompileHost:
        told = (TARGET_VARIABLE, LOGICAL_CORES_VARIABLE)
        environment = self.compilation.environment
        return CompileHost(
            instance_type=_instance_type(),
            vcpus=self.compilation.cpus,
            memory_bytes=self.memory.limit_bytes,
            attempt=self.attempt,
            workers=self.compilation.workers,
            peak_memory_bytes=self.memory.peak_bytes,
            environment={name: environment[name] for name in told if name in environment},
            packages=packages,
        )


def main(argv: Sequence[str]) -> int:
    """Compile once, and say what became of it."""
    split = argv.index("--")
    arguments = _parser().parse_args(argv[:split])
    adopt_orphans()
    end_at_sigterm(end_family)
    try:
        job = _job(arguments, argv[split + 1 :], os.environ)
    except UserInputError as error:
        log_line(str(error))
        return error.exit_code
    text, code, outcome, seconds = _outcome(job)
    log_line(f"attempt {job.attempt} with {job.compilation.workers} workers: {outcome}: {text}")
    # Nobody is told that none will come while another pod will try.
    if outcome != "failed" or code == UserInputError.exit_code or job.attempt > arguments.retries:
        _report(arguments, job, outcome, text, seconds)
    return code


def _outcome(job: Job) -> tuple[str, int, CompileOutcome, float | None]:
    try:
        outcome, text, seconds = job.run()
    except DraftworthError as error:
        code = UserInputError.exit_code if isinstance(error, RecordError) else error.exit_code
        return str(error), code, "failed", None
    except (BotoCoreError, Boto3Error, ClientError, OSError, UnfinishedError) as error:
        return f"{type(error).__name__}: {error}", DraftworthError.exit_code, "failed", None
    return text, 0, outcome, seconds


def _report(
    arguments: argparse.Namespace,
    job: Job,
    outcome: CompileOutcome,
    text: str,
    seconds: float | None,
) -> None:
    report = CompileReport(
        key=job.key,
        job_name=arguments.job,
        outcome=outcome,
        text=text,
        attempt=job.attempt,
        workers=job.compilation.workers,
        compile_seconds=seconds,
        peak_memory_bytes=job.memory.peak_bytes,
        last_lines=job.tail.lines(),
        reported_at_unix_s=time.time(),
    )
    try:
        boto3.client("s3", region_name=arguments.region, config=_CONFIG).put_object(
            Bucket=arguments.results,
            Key=compile_report_key(job.key),
            Body=dump_record(report),
            ContentType="application/json",
        )
    except (BotoCoreError, ClientError) as error:
        log_line(f"it cannot be reported: {error}")


def _job(
    arguments: argparse.Namespace, command: Sequence[str], environment: Mapping[str, str]
) -> Job:
    if list(command[:2]) != ["vllm", "serve"] or arguments.workers < 1:
        raise UserInputError(
            f"given {' '.join(command[:2])!r} and --workers {arguments.workers}; allowed: `vllm "
            "serve ...` after `--`, and 1 worker or more"
        )
    failures = environment.get(FAILURES_VARIABLE, "")
    attempt = 1 + (int(failures) if failures.isdecimal() else 0)
    key = environment["ARTIFACT_KEY"]
    # Engines with a cache have a CPU mode; the others are stopped before they load.
    way: Callable[..., Compilation] = StoppedBeforeLoading
    if arguments.compiler_cache:
        way = partial(CpuMode, health_period_seconds=arguments.health_period_seconds)
    pairs = (pair.partition("=") for pair in arguments.checkpoint)
    client = boto3.client("s3", region_name=arguments.region, config=_CONFIG)
    return Job(
        key=key,
        inputs=json.loads(environment["ARTIFACT_INPUTS"]),
        checkpoints={role: Path(folder) for role, _, folder in pairs},
        bucket=GraphBucket(client=client, name=arguments.artifacts),
        compilation=way(
            command=command,
            environment=environment,
            folders=folders_of(arguments),
            root=arguments.scratch / "graphs" / key,
            scratch=arguments.scratch,
            workers=_halved(arguments.workers, attempt),
            cpus=_halved(usable_cpus(), attempt),
        ),
        attempt=attempt,
        memory=PodMemory(arguments.cgroup),
    )


def _halved(first: int, attempt: int) -> int:
    """Half of it a further attempt, at least 1."""
    return max(1, first >> (attempt - 1))


def _instance_type() -> str:
    try:
        return PRODUCT_NAME.read_text(encoding="utf-8").strip() or "not known"
    except (OSError, UnicodeError):
        return "not known"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m pods.graph_compiler", description=__doc__)
    parser.add_argument("--job", required=True, help="name of the compile Job, for its report")
    parser.add_argument("--artifacts", required=True, help="the artifacts bucket")
    parser.add_argument("--results", required=True, help="the results bucket, for its report")
    parser.add_argument("--region", required=True, help="of both")
    parser.add_argument("--scratch", required=True, type=Path, help="the server's path of it")
    add_folder_flags(parser)
    parser.add_argument(
        "--workers", required=True, type=int, help="compilers at once in the first attempt"
    )
    parser.add_argument(
        "--checkpoint",
        action="append",
        default=[],
        metavar="ROLE=FOLDER",
        help="a folder with a configuration, whose commit is written down where it says one",
    )
    parser.add_argument(
        "--retries",
        type=int,
        default=RETRIES,
        help="pods that the Job starts for those that failed (%(default)s)",
    )
    parser.add_argument(
        "--health-period-seconds",
        type=float,
        default=HEALTH_PERIOD_SECONDS,
        help="between two looks at a server in its CPU mode (%(default)s)",
    )
    parser.add_argument(
        "--cgroup", type=Path, default=CGROUP, help="where the kernel tells of memory (%(default)s)"
    )
    return parser
