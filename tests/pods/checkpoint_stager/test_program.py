"""The Job's program as a process, from the files that the image has, against AWS in a server."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from huggingface_hub import constants

from charts.checkpoint_stager import HUB_ENVIRONMENT
from draftworth.records.codec import load_record
from draftworth.records.staging import ReadyModel, ready_key
from rehearsal.emulator import empty_account
from tests.conftest import ROOT
from tests.pods.checkpoint_stager.conftest import MODEL, REVISION, SERVED, model_files
from tests.support.local_hub import LocalHub

pytestmark = pytest.mark.emulator
DOCKERFILE = ROOT / "pods" / "llmperf" / "Dockerfile"
LARGE = "model-00001-of-00002.safetensors"
SECRET, TOKEN = "draftworth/hub", "hf_very_secret"
NOT_IN_THE_POD = ("pydantic", "rich", "aws_cdk", "cdk8s", "moto", "ray", "transformers")


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the Dockerfile copies, and nothing else of the project."""
    root = tmp_path_factory.mktemp("app")
    for line in re.findall(r"^COPY (.+)$", DOCKERFILE.read_text(), re.MULTILINE):
        *sources, destination = line.split()
        for source in sources:
            target = root / destination
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, target)
                continue
            target = target / Path(source).name if destination.endswith("/") else target
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / source, target)
    return root


@pytest.fixture(scope="module")
def aws() -> Iterator[str]:
    with empty_account() as url:
        yield url


class Pods:
    """Starts stagers with one hub and one bucket."""

    def __init__(self, image: Path, aws: str, hub: LocalHub, scratch: Path) -> None:
        self.image, self.aws, self.hub, self.scratch = image, aws, hub, scratch
        self.bucket = f"checkpoints-{time.monotonic_ns()}"
        self.s3 = boto3.client("s3", endpoint_url=aws, region_name="us-east-2")
        self.s3.create_bucket(
            Bucket=self.bucket, CreateBucketConfiguration={"LocationConstraint": "us-east-2"}
        )

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        given = {"--model": MODEL, "--revision": REVISION, "--bucket": self.bucket}
        given["--scratch"] = str(self.scratch)
        return subprocess.Popen(
            [sys.executable, "-m", "pods.checkpoint_stager"]
            + [part for pair in given.items() for part in pair]
            + list(arguments),
            cwd=self.image,
            env={
                **{k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
                "AWS_ENDPOINT_URL": self.aws,
                "HF_ENDPOINT": self.hub.url,
                **HUB_ENVIRONMENT,
                "HOME": str(self.scratch),
                **environment,
            },
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, **environment: str) -> tuple[int, str]:
        process = self.start(*arguments, **environment)
        log = process.communicate(timeout=60)[1]
        return process.returncode, log

    def objects(self) -> dict[str, bytes]:
        prefix = f"{MODEL}/{REVISION}/"
        listed = self.s3.list_objects_v2(Bucket=self.bucket).get("Contents", [])
        return {
            item["Key"].removeprefix(prefix): self.s3.get_object(
                Bucket=self.bucket, Key=item["Key"]
            )["Body"].read()
            for item in listed
        }


@pytest.fixture
def pods(image: Path, aws: str, hub: LocalHub, tmp_path: Path) -> Pods:
    return Pods(image, aws, hub, tmp_path)


def test_the_image_stages_a_model_and_the_next_pod_has_nothing_to_do(pods: Pods) -> None:
    status, log = pods.run()
    assert status == 0, log
    ready = load_record(ReadyModel, pods.objects()[ready_key(MODEL, REVISION).rpartition("/")[2]])
    assert tuple(file.path for file in ready.files) == SERVED

    pods.hub.asked.clear()
    status, log = pods.run()
    assert (status, pods.hub.asked) == (0, [])
    assert "nothing to do" in log


def test_a_pod_that_gets_sigkill_leaves_no_half_and_the_next_goes_on(pods: Pods) -> None:
    pods.hub.trouble.held[LARGE] = threading.Event()
    process = pods.start("--parallel-files", "4")
    small = [name for name in SERVED if name != LARGE]
    _wait_for(lambda: set(small) <= set(pods.objects()) and pods.hub.downloads(LARGE) == 1)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=10)
    assert process.returncode == -signal.SIGKILL
    objects = pods.objects()
    assert set(objects) == {*small, "_STAGING.json"}

    pods.hub.trouble.held.pop(LARGE).set()
    pods.hub.asked.clear()
    status, log = pods.run()
    assert status == 0, log
    assert [pods.hub.downloads(name) for name in small] == [0] * len(small)
    files, objects = model_files(), pods.objects()
    assert {name: objects[name] for name in SERVED} == {name: files[name] for name in SERVED}
    assert "_READY.json" in objects


def test_sigterm_ends_a_pod_at_once(pods: Pods) -> None:
    pods.hub.trouble.held[LARGE] = threading.Event()
    process = pods.start()
    _wait_for(lambda: pods.hub.downloads(LARGE) == 1)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=5)
    assert process.returncode == 128 + signal.SIGTERM
    assert "_READY.json" not in pods.objects()


def _wait_for(condition: object) -> None:
    assert callable(condition)
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.05)


def test_a_gated_model_is_staged_with_the_token_of_a_secret_that_no_log_shows(pods: Pods) -> None:
    pods.hub.repos[MODEL].gated = True
    pods.hub.tokens[TOKEN] = {MODEL}
    secrets = boto3.client("secretsmanager", endpoint_url=pods.aws, region_name="us-east-2")
    secrets.create_secret(Name=SECRET, SecretString=TOKEN)

    status, log = pods.run("--token-secret", SECRET)

    assert status == 0, log
    assert TOKEN not in log
    assert "Signature" not in log


def test_a_model_that_needs_a_token_ends_with_two(pods: Pods) -> None:
    pods.hub.repos[MODEL].gated = True
    status, log = pods.run()
    assert status == 2
    assert "a gated model, and no token was given" in log
    assert "Traceback" not in log


def test_a_secret_that_is_not_there_ends_with_two_unless_there_is_nothing_to_do(pods: Pods) -> None:
    status, log = pods.run("--token-secret", "nowhere")
    assert status == 2
    pods.run()
    assert pods.run("--token-secret", "nowhere")[0] == 0
    assert "aws.hub_token_secret: nowhere is not there" in log
    assert "Traceback" not in log


@pytest.mark.parametrize(("argument", "value"), [("--scratch-gib", "0"), ("--parallel-files", "0")])
def test_arguments_that_leave_no_room_end_with_two(pods: Pods, argument: str, value: str) -> None:
    status, log = pods.run(argument, value)
    assert (status, "allowed: numbers above 0" in log) == (2, True)


def test_missing_credentials_end_with_one(pods: Pods) -> None:
    status, log = pods.run(
        AWS_ACCESS_KEY_ID="", AWS_SECRET_ACCESS_KEY="", AWS_EC2_METADATA_DISABLED="true"
    )
    assert status == 1
    assert "Unable to locate credentials" in log
    assert "Traceback" not in log


def test_the_program_needs_nothing_that_the_pod_lacks(image: Path) -> None:
    code = (
        "import sys, pods.checkpoint_stager.program; "
        f"print([n for n in {NOT_IN_THE_POD!r} if n in sys.modules])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], cwd=image, capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "[]"


def test_settings_of_the_hubs_client_are_ones_that_it_reads() -> None:
    """A misspelt one would be ignored, and a test never notice."""
    folder = Path(constants.__file__).parent
    source = "".join(p.read_text() for p in (folder / "constants.py", *folder.glob("utils/*.py")))
    names = set(re.findall(r"\bHF_[A-Z_]+\b", source))
    assert HUB_ENVIRONMENT.keys() - names == set()
    assert "HF_HUB_DISABLE_XETS" not in names


def test_tests_and_image_use_the_same_version_of_the_hubs_client() -> None:
    pins = [
        line
        for file in (DOCKERFILE.parent / "requirements.txt", ROOT / "requirements.txt")
        for line in file.read_text().splitlines()
        if line.startswith("huggingface_hub==")
    ]
    assert len(pins) == 2
    assert len(set(pins)) == 1
