"""A serving pod as two processes: `start`, which runs a stand-in for vLLM, and `upload`."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from draftworth.records.checkpoints import StoredFile
from draftworth.records.codec import dump_record, load_record
from draftworth.records.graph_manifests import ArtifactManifest, manifest_key
from draftworth.records.servers import ServerState, server_state_key
from pods.compiled_graphs.prepare_graphs import Order
from tests.conftest import ROOT
from tests.support.neuron import put_node
from tests.support.processes import end_family
from tests.support.waiting import HANGS_AFTER_SECONDS

BUCKET = "artifacts"
RESULTS = "results"
VARIANT = "k7"
SERVER = f"slot1-vllm-{VARIANT}"
KEY = "0123456789abcdef01234567"
INPUTS = {"image": "neuron:1", "window": 7, "target": {"model": "a/b", "revision": "main"}}
HERE = Path(__file__).parent
COMMAND = ("serve", "--speculative-config={}", "--port")


def make_order(root: Path, **overrides: Any) -> Order:
    """Return an order of a server whose engine has no cache and whose checkpoints have no commits.

    overrides: values of the order's fields.
    """
    order = Order(
        key=KEY,
        inputs=INPUTS,
        variable="GRAPHS",
        artifacts=root / "mounted",
        scratch=root / "scratch",
        checkpoints={},
    )
    return replace(order, **overrides)


@dataclass
class Pod:
    """Files and processes of one pod.

    mounted: the folder that stands for the mounted artifacts bucket.
    aws: environment variables with which the programs reach S3; by default a stand-in for boto3
        writes objects as files.
    port: where vLLM answers.
    """

    root: Path
    aws: Mapping[str, str] = field(default_factory=dict)
    port: int = field(default_factory=lambda: free_port())

    def __post_init__(self) -> None:
        self.mounted = self.root / "mounted"
        self.scratch = self.root / "scratch"
        self.start_notes = self.root / "start_notes"
        self.log = self.root / "log"
        self.vllm = self.root / "bin" / "vllm"
        self.target = self.root / "target"
        for folder in (self.mounted, self.scratch, self.vllm.parent, self.target):
            folder.mkdir(parents=True)
        (self.target / "model.safetensors").write_bytes(b"weights")
        self.node = put_node(self.root / "node", devices=1)
        self.aws = self.aws or {
            "PYTHONPATH": str(HERE / "stand_in_aws"),
            "OBJECTS": str(self.root / "objects"),
        }

    @contextmanager
    def server(self, **environment: str) -> Iterator[subprocess.Popen[str]]:
        """Run vLLM's container once. The variable `TROUBLE` says how vLLM fails."""
        stand_in = HERE / "stand_in_vllm.py"
        self.vllm.write_text(f'#!/bin/sh\nexec {sys.executable} -PS {stand_in} "$@"\n')
        self.vllm.chmod(0o755)
        command = [
            *(
                "start",
                f"--artifacts={self.mounted}",
                "--artifact-folder=NEURON_COMPILED_ARTIFACTS",
            ),
            *(f"--checkpoint=target={self.target}", "--slot-devices=1", f"--root={self.node}"),
            *(f"--results={RESULTS}", "--region=us-east-2", *self._flags),
            *("--", "vllm", *COMMAND, str(self.port)),
        ]
        order = {"ARTIFACT_KEY": KEY, "ARTIFACT_INPUTS": json.dumps(INPUTS)}
        order |= {"DRAFTWORTH_VARIANT": VARIANT, "DRAFTWORTH_SERVER": SERVER}
        order |= {"DRAFTWORTH_POD": self.root.name, "START_NOTES": str(self.start_notes)}
        order |= {"LD_LIBRARY_PATH": str(self.node / "lib")}
        self.start_notes.unlink(missing_ok=True)
        with self._process(command, {**order, **environment}) as process:
            yield process

    @contextmanager
    def uploader(self) -> Iterator[subprocess.Popen[str]]:
        with self._process(["upload", f"--bucket={BUCKET}", *self._flags], {}) as process:
            yield process

    @property
    def _flags(self) -> tuple[str, ...]:
        health = f"--health-url=http://127.0.0.1:{self.port}/health"
        return f"--scratch={self.scratch}", health, "--health-period-seconds=0.05"

    @contextmanager
    def _process(
        self, arguments: list[str], environment: Mapping[str, str]
    ) -> Iterator[subprocess.Popen[str]]:
        # -S leaves out installed packages, so that the stand-in for boto3 is imported.
        python = [sys.executable, *(["-S"] if "PYTHONPATH" in self.aws else [])]
        path = {"PATH": f"{self.vllm.parent}:{os.environ['PATH']}"}
        with self.log.open("a") as log:
            process = subprocess.Popen(
                [*python, "-m", "pods.compiled_graphs", *arguments],
                cwd=ROOT,
                env={**path, **self.aws, **environment},
                stdout=log,
                stderr=log,
                text=True,
            )
        try:
            yield process
        finally:
            end_family(process)

    def healthy(self) -> bool:
        url = f"http://127.0.0.1:{self.port}/health"
        try:
            with urllib.request.urlopen(url, timeout=HANGS_AFTER_SECONDS):
                return True
        except OSError:
            return False

    def says(self, text: str) -> None:
        """Wait until a text is in the log of the pod's containers."""
        eventually(lambda: text in self.log.read_text())

    def what_vllm_did(self) -> str:
        """Wait until vLLM is healthy; return `compiled FOLDER` or `loaded FOLDER`."""
        eventually(self.healthy)
        return self.start_notes.read_text().splitlines()[0]

    def state(self) -> ServerState | None:
        path = self.root / "objects" / RESULTS / server_state_key(SERVER)
        return load_record(ServerState, path.read_bytes()) if path.exists() else None

    def phase(self, wanted: str) -> ServerState:
        """Wait until the server reports a state of the wanted phase, and return that state."""
        state = eventually(lambda: (now := self.state()) and now.phase == wanted and now)
        assert isinstance(state, ServerState)
        return state


def put_graphs(mounted: Path, files: Mapping[str, bytes], **more: Any) -> ArtifactManifest:
    """Write graphs and their manifest into the mounted bucket."""
    fields: dict[str, Any] = {"inputs": INPUTS, "checkpoints": {}, **more}
    for name, content in files.items():
        path = mounted / KEY / "one" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    manifest = ArtifactManifest(
        key=KEY,
        folder=f"{KEY}/one",
        files=tuple(
            StoredFile(path=name, size_bytes=len(data), sha256=sha256(data).hexdigest())
            for name, data in files.items()
        ),
        compile_seconds=1.0,
        uploaded_at_unix_s=1.0,
        **fields,
    )
    (mounted / manifest_key(KEY)).write_bytes(dump_record(manifest))
    return manifest


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
    """Call `condition` until its answer is true, and return that; raise AssertionError if late."""
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


def stored(client: Any, bucket: str = BUCKET) -> dict[str, bytes]:
    """Return the objects of a bucket, by key."""
    listed = client.list_objects_v2(Bucket=bucket).get("Contents", [])
    keys = [item["Key"] for item in listed]
    return {key: client.get_object(Bucket=bucket, Key=key)["Body"].read() for key in keys}


def manifest_in(objects: Mapping[str, bytes]) -> ArtifactManifest | None:
    data = objects.get(manifest_key(KEY))
    return load_record(ArtifactManifest, data) if data is not None else None


def what_is_not_whole(objects: Mapping[str, bytes]) -> list[str]:
    """Return the manifest's files that the bucket lacks or has with another size.

    objects: the objects of the bucket, by key.
    """
    manifest = manifest_in(objects)
    if manifest is None:
        return []
    there = {key.removeprefix(f"{manifest.folder}/"): len(data) for key, data in objects.items()}
    return [file.path for file in manifest.files if there.get(file.path) != file.size_bytes]
