"""The Job's program as a process, from the files that the image has, against AWS in a server."""

import functools
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import boto3
import pytest
from huggingface_hub import HfApi, constants

from charts.checkpoint_stager import HUB_ENVIRONMENT
from charts.shipped import MEASURING_IMAGE
from draftworth.records import checkpoints
from draftworth.records.codec import load_record
from pods.checkpoint_stager import hub as hub_module
from pods.checkpoint_stager import program
from pods.checkpoint_stager.stager import Staging
from pods.checkpoint_stager.store import Store, StoreError
from tests.conftest import ROOT
from tests.pods.checkpoint_stager.conftest import (
    BUCKET,
    COMMIT,
    MODEL,
    REVISION,
    SERVED,
    model_files,
)
from tests.support.emulator import emulated_account
from tests.support.local_hub import LocalHub
from tests.support.shipped import lay_out
from tests.support.waiting import HANGS_AFTER_SECONDS

pytestmark = pytest.mark.emulator
DOCKERFILE = ROOT / "pods" / "measuring" / "Dockerfile"
LARGE = "model-00001-of-00002.safetensors"
SECRET, TOKEN = "draftworth/hub", "hf_very_secret"
NOT_IN_THE_POD = ("pydantic", "rich", "aws_cdk", "cdk8s", "moto", "ray", "transformers")


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what goes into the image, and nothing else of the project."""
    root = tmp_path_factory.mktemp("app")
    lay_out(MEASURING_IMAGE, root)
    return root


@pytest.fixture
def aws() -> str:
    return emulated_account()


class Pods:
    """Starts stagers with one hub and one bucket."""

    def __init__(self, image: Path, aws: str, hub: LocalHub, scratch: Path) -> None:
        self.image, self.aws, self.hub, self.scratch = image, aws, hub, scratch
        self.bucket = BUCKET
        self.s3 = boto3.client("s3", endpoint_url=aws, region_name="us-east-2")
        self.s3.create_bucket(
            Bucket=self.bucket, CreateBucketConfiguration={"LocationConstraint": "us-east-2"}
        )

    def command(self, *arguments: str) -> list[str]:
        given = {"--model": MODEL, "--revision": REVISION, "--bucket": self.bucket}
        given |= {"--scratch": str(self.scratch), "--scratch-gib": "24", "--retries": "8"}
        return [*(part for pair in given.items() for part in pair), *arguments]

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "pods.checkpoint_stager", *self.command(*arguments)],
            cwd=self.image,
            env={
                **{k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
                "AWS_ENDPOINT_URL": self.aws,
                "HF_ENDPOINT": self.hub.url,
                **HUB_ENVIRONMENT,
                "HOME": str(self.scratch),
            },
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str) -> tuple[int, str]:
        process = self.start(*arguments)
        log = process.communicate(timeout=HANGS_AFTER_SECONDS)[1]
        return process.returncode, log

    def names(self) -> set[str]:
        listed = self.s3.list_objects_v2(Bucket=self.bucket).get("Contents", [])
        return {item["Key"].removeprefix(f"{MODEL}/{REVISION}/") for item in listed}

    def objects(self) -> dict[str, bytes]:
        return {
            name: self.s3.get_object(Bucket=self.bucket, Key=f"{MODEL}/{REVISION}/{name}")[
                "Body"
            ].read()
            for name in self.names()
        }


Main = Callable[..., tuple[int, str]]


@pytest.fixture
def main(pods: Pods, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Main:
    """The program in this process: its exit code and its log."""
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    monkeypatch.setattr(program, "HfApi", functools.partial(HfApi, endpoint=pods.hub.url))
    monkeypatch.setattr(program, "end_at_sigterm", lambda: None)
    monkeypatch.setenv("AWS_ENDPOINT_URL", pods.aws)

    def run(*arguments: str) -> tuple[int, str]:
        return program.main(pods.command(*arguments)), capsys.readouterr().err

    return run


@pytest.fixture
def pods(image: Path, aws: str, hub: LocalHub, tmp_path: Path) -> Pods:
    return Pods(image, aws, hub, tmp_path)


def test_the_image_stages_a_model_and_the_next_pod_has_nothing_to_do(pods: Pods) -> None:
    status, log = pods.run()
    assert status == 0, log
    ready = load_record(
        checkpoints.ReadyModel,
        pods.objects()[checkpoints.ready_key(MODEL, REVISION).rpartition("/")[2]],
    )
    assert tuple(file.path for file in ready.files) == SERVED

    pods.hub.asked.clear()
    status, log = pods.run()
    assert (status, pods.hub.asked) == (0, [])
    assert "nothing to do" in log


def test_a_pod_that_gets_sigkill_leaves_no_half_and_the_next_goes_on(pods: Pods) -> None:
    pods.hub.trouble.held[LARGE] = threading.Event()
    process = pods.start()
    small = [name for name in SERVED if name != LARGE]
    _wait_for(lambda: {*small} <= pods.names() and pods.hub.downloads(LARGE) == 1)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=HANGS_AFTER_SECONDS)
    assert process.returncode == -signal.SIGKILL
    assert pods.names() == {*small, "_STAGING.json"}

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
    process.communicate(timeout=HANGS_AFTER_SECONDS)
    assert process.returncode == 128 + signal.SIGTERM
    assert "_READY.json" not in pods.names()


def _wait_for(condition: object) -> None:
    assert callable(condition)
    deadline = time.monotonic() + HANGS_AFTER_SECONDS
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


def test_a_model_that_needs_a_token_ends_with_two(pods: Pods, main: Main) -> None:
    pods.hub.repos[MODEL].gated = True
    status, log = main()
    assert status == 2
    assert "a gated model, and no token was given" in log


def failed(pods: Pods) -> checkpoints.FailedModel | None:
    data = pods.objects().get(checkpoints.FAILED_MARKER)
    return load_record(checkpoints.FailedModel, data) if data is not None else None


def test_a_wrong_input_is_said_in_the_bucket_at_once(pods: Pods, main: Main) -> None:
    pods.hub.repos[MODEL].gated = True
    before = time.time()
    assert main()[0] == 2
    said = failed(pods)
    assert said
    assert (said.model, said.revision) == (MODEL, REVISION)
    assert "a gated model, and no token was given; next: " in said.reason
    assert said.reason.endswith("raise `rerun` in the experiment and deploy again")
    assert before <= said.failed_at_unix_s <= time.time()


@pytest.mark.parametrize(("earlier", "is_last"), [("", False), ("1", False), ("2", True)])
def test_trouble_on_the_way_is_said_by_the_jobs_last_pod(
    pods: Pods, main: Main, monkeypatch: pytest.MonkeyPatch, earlier: str, is_last: bool
) -> None:
    monkeypatch.setenv(checkpoints.FAILURES_VARIABLE, earlier)
    pods.hub.trouble.statuses[:] = [500] * 100
    monkeypatch.setattr(hub_module, "RETRY_WAITS_SECONDS", ())
    assert main("--retries", "2")[0] == 1
    said = failed(pods)
    assert (said is not None) == is_last
    if said:
        assert "3 tries failed" in said.reason


def test_a_defect_of_the_last_pod_is_said_too(
    pods: Pods, main: Main, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(checkpoints.FAILURES_VARIABLE, "8")

    def fail(_: Staging) -> None:
        raise KeyError("a defect")

    monkeypatch.setattr(Staging, "run", fail)
    with pytest.raises(KeyError):
        main()
    assert (said := failed(pods))
    assert "KeyError" in said.reason


def test_a_model_that_is_there_is_never_said_to_have_failed(pods: Pods, main: Main) -> None:
    """As where this experiment refuses what another one staged: what waits for READY has it."""
    files = pods.hub.repos[MODEL].commits[COMMIT]
    pickled = {k: v for k, v in files.items() if not k.endswith(".safetensors")}
    pods.hub.repos[MODEL].commits[COMMIT] = pickled
    assert main("--pickle-weights", "allowed")[0] == 0
    assert main()[0] == 2
    assert failed(pods) is None


def test_a_failure_that_cannot_be_reported_is_logged(
    pods: Pods, main: Main, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise StoreError("access denied")

    pods.hub.repos[MODEL].gated = True
    monkeypatch.setattr(Store, "put_failed", refuse)
    status, log = main()
    assert status == 2
    assert "the failure cannot be reported: access denied" in log


def test_pickled_weights_end_with_two_unless_they_are_allowed(pods: Pods, main: Main) -> None:
    files = pods.hub.repos[MODEL].commits[COMMIT]
    pickled = {k: v for k, v in files.items() if not k.endswith(".safetensors")}
    pods.hub.repos[MODEL].commits[COMMIT] = pickled
    status, log = main()
    assert status == 2
    assert "given pytorch_model.bin; allowed: *.safetensors" in log
    assert "pytorch_model.bin" not in pods.names()

    assert main("--pickle-weights", "allowed")[0] == 0
    assert {"pytorch_model.bin", "_READY.json"} <= pods.names()

    status, log = main()
    assert status == 2, "what another experiment has staged is not believed either"
    assert "pytorch_model.bin" in log


def test_a_missing_secret_ends_with_two_unless_there_is_nothing_to_do(main: Main) -> None:
    status, log = main("--token-secret", "nowhere")
    assert status == 2
    main()
    assert main("--token-secret", "nowhere")[0] == 0
    assert "aws.hub_token_secret: nowhere is not there" in log


def test_missing_credentials_end_with_one(main: Main, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "")
    status, log = main()
    assert status == 1
    assert "Unable to locate credentials" in log


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
        line.split()[0]
        for file in (DOCKERFILE.parent / "requirements.txt", ROOT / "requirements/dev.txt")
        for line in file.read_text().splitlines()
        if line.startswith("huggingface_hub==")
    ]
    assert len(pins) == 2
    assert len(set(pins)) == 1
