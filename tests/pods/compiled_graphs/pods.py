"""A serving pod as two processes: `start`, the parent of a stand-in for vLLM, and `upload`."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from draftworth.records.artifacts import ArtifactManifest, manifest_key
from draftworth.records.codec import load_record
from tests.conftest import ROOT
from tests.support.processes import end_family
from tests.support.waiting import HANGS_AFTER_SECONDS

BUCKET = "artifacts"
RESULTS = "results"
VARIANT = "k7"
SERVER = f"slot1-vllm-{VARIANT}"
KEY = "0123456789abcdef01234567"
INPUTS = {"image": "neuron:1", "window": 7, "target": {"model": "a/b", "revision": "main"}}
FOLDER_FLAGS = ("--artifact-folder=NEURON_COMPILED_ARTIFACTS",)
PROOF = "VLLM_NEURON_DISABLE_WARMUP_COMPILE"
CACHE_FLAGS = ("--compiler-cache", "VLLM_CACHE_ROOT", "neuron/compile_cache", "--proof", PROOF)
STAND_IN = Path(__file__).with_name("stand_in_vllm.py")


@dataclass
class Pod:
    """Files and processes of one pod. The mounted bucket is a copy, made by `mount`."""

    root: Path
    endpoint: str
    flags: tuple[str, ...] = FOLDER_FLAGS
    inputs: Mapping[str, Any] = field(default_factory=lambda: INPUTS)
    port: int = field(default_factory=lambda: free_port())

    def __post_init__(self) -> None:
        self.mounted = self.root / "mounted"
        self.scratch = self.root / "scratch"
        self.said = self.root / "said"
        self.uploader_log = self.root / "uploader.log"
        self.log = self.root / "server.log"
        self.mounted.mkdir(parents=True)
        self.scratch.mkdir()
        program = self.root / "bin" / "vllm"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -P {STAND_IN} "$@"\n')
        program.chmod(0o755)

    def mount(self, client: Any) -> None:
        """What Mountpoint shows of the bucket now."""
        for item in client.list_objects_v2(Bucket=BUCKET).get("Contents", []):
            path = self.mounted / item["Key"]
            path.parent.mkdir(parents=True, exist_ok=True)
            client.download_file(BUCKET, item["Key"], str(path))

    @contextmanager
    def server(self, *limits: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
        """One container of the pod. A process group of its own, as a container is apart."""
        command = [
            *("start", f"--artifacts={self.mounted}", f"--scratch={self.scratch}", *self.flags),
            *(f"--results={RESULTS}", "--region=us-east-2", "--health-period-seconds=0.05"),
            *(f"--health-url=http://127.0.0.1:{self.port}/health", *limits),
            *("--", "vllm", "serve", "--port", str(self.port), "--speculative-config={}"),
        ]
        order = {"ARTIFACT_KEY": KEY, "ARTIFACT_INPUTS": json.dumps(self.inputs)}
        order |= {"DRAFTWORTH_VARIANT": VARIANT, "DRAFTWORTH_SERVER": SERVER}
        order |= {"DRAFTWORTH_POD": self.root.name}
        self.said.unlink(missing_ok=True)
        with (
            self.log.open("a") as log,
            self._process(command, {**order, **environment}, log) as process,
        ):
            yield process

    @contextmanager
    def uploader(self, **environment: str) -> Iterator[subprocess.Popen[str]]:
        command = [
            *("upload", f"--scratch={self.scratch}", f"--bucket={BUCKET}"),
            f"--health-url=http://127.0.0.1:{self.port}/health",
            "--health-period-seconds=0.05",
        ]
        with (
            self.uploader_log.open("w") as log,
            self._process(command, environment, log) as process,
        ):
            yield process

    @contextmanager
    def _process(
        self, arguments: list[str], environment: Mapping[str, str], log: IO[str]
    ) -> Iterator[subprocess.Popen[str]]:
        process = subprocess.Popen(
            [sys.executable, "-m", "pods.compiled_graphs", *arguments],
            cwd=ROOT,
            env={
                "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}",
                "AWS_ENDPOINT_URL": self.endpoint,
                "AWS_ACCESS_KEY_ID": "testing",
                "AWS_SECRET_ACCESS_KEY": "testing",
                "AWS_DEFAULT_REGION": "us-east-2",
                "SAID": str(self.said),
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

    def healthy(self) -> bool:
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self.port}/health", timeout=HANGS_AFTER_SECONDS
            ):
                return True
        except OSError:
            return False

    def what_vllm_did(self) -> str:
        """`compiled FOLDER` or `loaded FOLDER`."""
        eventually(self.healthy)
        return self.said.read_text().splitlines()[0]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def eventually(
    condition: Callable[[], Any],
    *,
    seconds: float = HANGS_AFTER_SECONDS,
    every_seconds: float = 0.05,
) -> Any:
    """The first true answer; fails the test when there is none in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if answer := condition():
            return answer
        time.sleep(every_seconds)
    raise AssertionError("it did not happen in time")


def make_buckets(client: Any) -> None:
    for name in (BUCKET, RESULTS):
        where = {"LocationConstraint": "us-east-2"}
        client.create_bucket(Bucket=name, CreateBucketConfiguration=where)


def keys(client: Any) -> set[str]:
    return {o["Key"] for o in client.list_objects_v2(Bucket=BUCKET).get("Contents", [])}


def stored_manifest(client: Any) -> ArtifactManifest | None:
    if manifest_key(KEY) not in keys(client):
        return None
    body = client.get_object(Bucket=BUCKET, Key=manifest_key(KEY))["Body"]
    return load_record(ArtifactManifest, body.read())


def what_is_not_whole(client: Any) -> list[str]:
    """Files that a manifest promises and the bucket does not have as promised."""
    manifest = stored_manifest(client)
    if manifest is None:
        return []
    sizes = {o["Key"]: o["Size"] for o in client.list_objects_v2(Bucket=BUCKET).get("Contents", [])}
    return [
        file.path
        for file in manifest.files
        if sizes.get(f"{manifest.folder}/{file.path}") != file.size_bytes
    ]
