"""The canary against an emulated S3: in this process, and as a process from the image."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import boto3
import pytest

from charts.shipped import MEASURING_IMAGE
from draftworth.records.checkpoints import READY_MARKER, ReadyModel, StoredFile, ready_key
from draftworth.records.codec import dump_record, load_record
from draftworth.records.deployment import CanaryReport, ModelRef, canary_key
from draftworth.records.graph_manifests import manifest_key
from pods.canary import program
from tests.lambdas.capacity_controller.plans import make_ready
from tests.pods.compiled_graphs.pods import KEY, put_graphs
from tests.support.emulator import emulated_account
from tests.support.registry import DIGEST, NO_REGISTRY, registry
from tests.support.shipped import block, lay_out
from tests.support.waiting import HANGS_AFTER_SECONDS

pytestmark = pytest.mark.emulator
CHECKPOINTS, RESULTS = "checkpoints", "results"
JOB, VARIANT = "llmperf-test-0123abcd", "k7"
MODEL, REVISION = "acme/tiny", "main"
IMAGE = "neuron/server:1.0"
GRAPHS = {"model.pt": b"graph"}
INPUTS = {"window": 7}
WEIGHTS = b"w" * (2**21 + 1)
NOT_IN_THE_POD = ("pydantic", "rich", "aws_cdk", "cdk8s", "moto", "ray", "huggingface_hub")


def staged(model: str = MODEL, revision: str = REVISION) -> ReadyModel:
    files = {"config.json": b"{}", "model.safetensors": WEIGHTS}
    stored = tuple(
        StoredFile(path=name, size_bytes=len(data), sha256=sha256(data).hexdigest())
        for name, data in files.items()
    )
    return replace(make_ready(ModelRef(model=model, revision=revision)), files=stored)


@dataclass
class Place:
    """Folders that stand for the mounts, emulated buckets, and functions that run the canary."""

    root: Path
    endpoint: str
    s3: Any
    patch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]
    registry: str = NO_REGISTRY
    model: Path = field(init=False)
    artifacts: Path = field(init=False)

    def __post_init__(self) -> None:
        self.model, self.artifacts = self.root / "target", self.root / "artifacts"
        self.model.mkdir()
        self.artifacts.mkdir()

    def stage(self, ready: ReadyModel | None = None) -> None:
        """Write the checkpoint's marker into the bucket, and all its files into the mount."""
        marker = dump_record(ready or staged())
        (self.model / READY_MARKER).write_bytes(marker)
        (self.model / "config.json").write_bytes(b"{}")
        (self.model / "model.safetensors").write_bytes(WEIGHTS)
        self.s3.put_object(Bucket=CHECKPOINTS, Key=ready_key(MODEL, REVISION), Body=marker)

    def start(self, *more: str) -> subprocess.Popen[str]:
        """Start the program as a process, from the image's files."""
        lay_out(MEASURING_IMAGE, self.root / "app")
        block(NOT_IN_THE_POD, self.root / "app")
        return subprocess.Popen(
            [sys.executable, "-m", "pods.canary", *self._arguments(*more)],
            cwd=self.root / "app",
            env={**{k: v for k, v in os.environ.items() if k != "PYTHONPATH"}, **self._environment},
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *more: str, **environment: str) -> tuple[int, str]:
        """Run the program in this process; return its exit code and its log."""
        with self.patch.context() as patch:
            patch.setattr(boto3, "DEFAULT_SESSION", None)
            patch.setattr(program, "end_at_sigterm", lambda: None)
            for name, value in {**self._environment, **environment}.items():
                patch.setenv(name, value)
            self.capsys.readouterr()
            code = program.main(self._arguments(*more))
        return code, self.capsys.readouterr().err

    def _arguments(self, *more: str) -> list[str]:
        return [
            *("--job", JOB, "--variant", VARIANT, "--checkpoints", CHECKPOINTS),
            *("--serving-image", f"{self.registry}/{IMAGE}"),
            *("--results", RESULTS, "--artifacts-folder", str(self.artifacts)),
            *("--target", f"{self.model}={MODEL}@{REVISION}"),
            *("--poll-seconds", "0.05", "--patience-seconds", "0.2", *more),
        ]

    @property
    def _environment(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "ARTIFACT_KEY": KEY,
            "ARTIFACT_INPUTS": json.dumps(INPUTS),
        }

    def report(self) -> CanaryReport | None:
        try:
            body = self.s3.get_object(Bucket=RESULTS, Key=canary_key(JOB, VARIANT))["Body"]
        except self.s3.exceptions.NoSuchKey:
            return None
        return load_record(CanaryReport, body.read())

    def failure(self, *more: str) -> str:
        """Run the program, which must fail; return the text of its report."""
        code, log = self.run(*more)
        report = self.report()
        assert code == 1, log
        assert report
        assert not report.ok
        assert report.last_lines
        return report.text


@pytest.fixture
def place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Place]:
    endpoint = emulated_account()
    client: Any = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-2")
    for name in (CHECKPOINTS, RESULTS):
        where = {"LocationConstraint": "us-east-2"}
        client.create_bucket(Bucket=name, CreateBucketConfiguration=where)
    yield Place(root=tmp_path, endpoint=endpoint, s3=client, patch=monkeypatch, capsys=capsys)
    client.close()


def test_what_a_server_needs_is_read_and_reported(place: Place) -> None:
    place.stage()
    before = time.time()
    code, log = place.run()
    assert code == 0, log
    report = place.report()
    assert report
    assert (report.ok, report.job_name, report.variant) == (True, JOB, VARIANT)
    assert before - 1 <= report.reported_at_unix_s <= time.time() + 1
    last_lines = "\n".join(report.last_lines)
    assert "both ends of model.safetensors" in last_lines
    assert "no graphs of this variant yet" in last_lines


def test_it_reports_nothing_before_staging(place: Place) -> None:
    process = place.start()
    assert process.stderr
    assert f"waiting for {ready_key(MODEL, REVISION)}" in process.stderr.readline()
    assert place.report() is None
    place.stage()
    process.communicate(timeout=HANGS_AFTER_SECONDS)
    assert process.returncode == 0
    assert (report := place.report())
    assert report.ok


def test_staging_that_never_ends_is_a_failure(place: Place) -> None:
    text = place.failure("--wait-seconds", "0.1")
    assert f"{ready_key(MODEL, REVISION)} was not staged" in text


def test_an_empty_mount_fails_with_the_next_step(place: Place) -> None:
    place.stage()
    (place.model / READY_MARKER).unlink()
    text = place.failure()
    assert f"{place.model} (target) cannot be read" in text
    assert "next: " in text


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (
            lambda place: place.stage(staged(model="acme/another")),
            "shows acme/another at main, asked for acme/tiny at main",
        ),
        (
            lambda place: (place.model / "model.safetensors").write_bytes(WEIGHTS[:100]),
            f"{len(WEIGHTS)} bytes were staged, 100 there",
        ),
        (lambda place: place.artifacts.rmdir(), "(compiled graphs) cannot be read"),
    ],
    ids=["another prefix", "a file that is cut off", "artifacts that are not mounted"],
)
def test_a_mount_with_other_content_fails(
    place: Place, damage: Callable[[Place], object], reason: str
) -> None:
    place.stage()
    damage(place)
    assert reason in place.failure()


def test_a_missing_serving_image_fails_at_once(place: Place) -> None:
    place.stage()
    with registry() as place.registry:
        text = place.failure("--patience-seconds", "1e9")
    assert f"has no {IMAGE}; no server could start" in text
    assert "next: correct `release`" in text
    assert "CSI" not in text


def test_an_existing_serving_image_is_named(place: Place) -> None:
    place.stage()
    with registry(IMAGE) as place.registry:
        assert place.run()[0] == 0
    assert (report := place.report())
    assert f"{place.registry}/{IMAGE}: {DIGEST}" in "\n".join(report.last_lines)


def test_an_unreachable_registry_fails_nothing(place: Place) -> None:
    place.stage()
    assert place.run()[0] == 0
    assert (report := place.report())
    assert "whether the serving image exists is not known" in "\n".join(report.last_lines)


def test_graphs_that_the_server_would_take_are_named(place: Place) -> None:
    place.stage()
    put_graphs(place.artifacts, GRAPHS, inputs=INPUTS)
    assert place.run()[0] == 0
    assert (report := place.report())
    assert any(manifest_key(KEY) in line for line in report.last_lines)


def test_unusable_graphs_are_refused_at_once(place: Place) -> None:
    place.stage()
    put_graphs(place.artifacts, GRAPHS, inputs={"window": 5})
    text = place.failure("--patience-seconds", "1e9")
    assert "window: compiled for 5, asked for 7" in text
    assert "draftworth artifacts EXPERIMENT --run" in text


def test_a_later_try_writes_over_the_one_before(place: Place) -> None:
    place.stage()
    marker = (place.model / READY_MARKER).read_bytes()
    (place.model / READY_MARKER).write_bytes(b"[" * 100_000)
    assert "not JSON" in place.failure()
    (place.model / READY_MARKER).write_bytes(marker)
    assert place.run()[0] == 0
    assert (report := place.report())
    assert report.ok


def test_early_failures_have_time_to_be_repaired(place: Place) -> None:
    """AWS refuses a role for some time after its creation, so the canary tries again."""
    place.stage()
    hidden = place.model.rename(place.root / "hidden")
    place.patch.setattr("pods.canary.program.time.sleep", lambda _: hidden.rename(place.model))
    code, log = place.run("--patience-seconds", "1e9")
    assert (code, log.count("not yet: ")) == (0, 1)


def test_an_unreachable_results_bucket_is_logged(place: Place) -> None:
    place.stage()
    place.s3.delete_bucket(Bucket=RESULTS)
    code, log = place.run()
    assert code == 1
    assert "the results bucket cannot be reached" in log


def test_missing_credentials_are_no_traceback(place: Place) -> None:
    code, log = place.run(AWS_ACCESS_KEY_ID="", AWS_SECRET_ACCESS_KEY="")
    assert code == 1
    assert "Traceback" not in log
    assert "Unable to locate credentials" in log


def test_what_a_damaged_mount_says_is_printable(place: Place) -> None:
    place.stage(replace(staged(), commit="\x1b[31m"))
    assert place.run()[0] == 0
    assert (report := place.report())
    assert all(line.isprintable() for line in report.last_lines)
