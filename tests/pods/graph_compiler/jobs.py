"""A compile Job's pod: the program as a process, the image's modules by a stand-in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from draftworth.records.codec import dump_record, load_record
from draftworth.records.files import StoredFile
from draftworth.records.staging import FAILURES_VARIABLE, READY_MARKER, ReadyModel
from draftworth.records.unproven_graphs import (
    CompileReport,
    UnprovenManifest,
    compile_report_key,
    unproven_key,
)
from tests.conftest import ROOT
from tests.pods.compiled_graphs.pods import BUCKET, FOLDER_FLAGS, INPUTS, KEY, RESULTS
from tests.support.processes import end_family
from tests.support.waiting import HANGS_AFTER_SECONDS

STAND_IN = Path(__file__).with_name("stand_in")
SERVE = ("vllm", "serve", "/models/target", "--max-num-seqs=4", '--speculative-config={"k": 7}')
COMMIT = "c" * 40
DEVICE = {"NEURON_PLATFORM_TARGET_OVERRIDE": "trn2", "NEURON_LOGICAL_NC_CONFIG": "2"}

R = TypeVar("R")


@dataclass
class CompilePod:
    """One pod of a Job, with a scratch volume of its own."""

    root: Path
    endpoint: str
    flags: tuple[str, ...] = FOLDER_FLAGS

    def __post_init__(self) -> None:
        self.scratch = self.root / "scratch"
        self.target = self.root / "target"
        self.cgroup = self.root / "cgroup"
        for folder in (self.scratch, self.target, self.cgroup):
            folder.mkdir(parents=True)
        file = StoredFile(path="config.json", size_bytes=2, sha256="0" * 64)
        ready = ReadyModel(
            model="a/b",
            revision="main",
            commit=COMMIT,
            files=(file,),
            tokenizer_fingerprint=None,
            staged_at_unix_s=1.0,
            staging_seconds=1.0,
        )
        (self.target / READY_MARKER).write_bytes(dump_record(ready))
        self.log = self.root / "log"

    @contextmanager
    def running(
        self, *, serve: tuple[str, ...] = SERVE, workers: int = 4, **environment: str
    ) -> Iterator[subprocess.Popen[str]]:
        command = [
            *(sys.executable, "-m", "pods.graph_compiler", "--job=compile-1"),
            *(f"--artifacts={BUCKET}", f"--results={RESULTS}", "--region=us-east-2"),
            *(f"--scratch={self.scratch}", *self.flags),
            *(f"--workers={workers}", f"--checkpoint=target={self.target}"),
            *(f"--cgroup={self.cgroup}", "--", *serve),
        ]
        with self.log.open("w") as log:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={
                    "PATH": os.environ["PATH"],
                    "PYTHONPATH": str(STAND_IN),
                    "AWS_ENDPOINT_URL": self.endpoint,
                    "AWS_ACCESS_KEY_ID": "testing",
                    "AWS_SECRET_ACCESS_KEY": "testing",
                    "ARTIFACT_KEY": KEY,
                    "ARTIFACT_INPUTS": json.dumps(INPUTS),
                    **DEVICE,
                    **environment,
                },
                stdout=log,
                stderr=log,
                text=True,
            )
            try:
                yield process
            finally:
                end_family(process)

    def run(
        self,
        trouble: str = "",
        *,
        failures: int = 0,
        serve: tuple[str, ...] = SERVE,
        workers: int = 4,
        **environment: str,
    ) -> int:
        """The program to its end; its exit code."""
        environment |= {"TROUBLE": trouble, FAILURES_VARIABLE: str(failures)}
        with self.running(serve=serve, workers=workers, **environment) as process:
            return process.wait(timeout=HANGS_AFTER_SECONDS)

    def configuration(self) -> dict[str, Any]:
        """What the stand-in was told, and wrote down."""
        path = self.scratch / "graphs" / KEY / "neuron_config.json"
        return dict(json.loads(path.read_text()))


def report(s3: Any) -> CompileReport | None:
    return _read(s3, RESULTS, compile_report_key(KEY), CompileReport)


def unproven(s3: Any) -> UnprovenManifest | None:
    return _read(s3, BUCKET, unproven_key(KEY), UnprovenManifest)


def _read(s3: Any, bucket: str, key: str, kind: type[R]) -> R | None:
    try:
        return load_record(kind, s3.get_object(Bucket=bucket, Key=key)["Body"].read())
    except s3.exceptions.NoSuchKey:
        return None
