"""The stager Job's program: in this process, and as a process from the image's files."""

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

from charts.checkpoint_staging import HUB_ENVIRONMENT
from charts.shipped import MEASURING_IMAGE
from draftworth.records import checkpoints
from draftworth.records.codec import load_record
from pods.checkpoint_stager import program
from pods.checkpoint_stager.checkpoints_bucket import Store, StoreError
from pods.checkpoint_stager.stager import Staging
from tests.conftest import ROOT
from tests.pods.checkpoint_stager import conftest
from tests.pods.checkpoint_stager.conftest import BUCKET, COMMIT, MODEL, SERVED, Bench
from tests.pods.compiled_graphs.pods import eventually, stored
from tests.support.emulator import emulated_account
from tests.support.local_hub import LocalHub
from tests.support.shipped import block, lay_out
from tests.support.waiting import HANGS_AFTER_SECONDS

pytestmark = pytest.mark.emulator
LARGE = "model-00001-of-00002.safetensors"
SMALL = [name for name in SERVED if name != LARGE]
SECRET, TOKEN = "draftworth/hub", "hf_very_secret"
NOT_IN_THE_POD = ("pydantic", "rich", "aws_cdk", "cdk8s", "moto", "ray", "transformers")


def command(scratch: Path, *arguments: str) -> list[str]:
    options = {"--model": MODEL, "--revision": conftest.REVISION, "--bucket": BUCKET}
    options |= {"--scratch": str(scratch), "--scratch-gib": "24", "--retries": "8"}
    return [*(part for pair in options.items() for part in pair), *arguments]


class Pods:
    """Starts stager processes with one hub and one bucket, from a folder with the image's files."""

    def __init__(self, hub: LocalHub, folder: Path) -> None:
        self.hub, self.scratch, self.image = hub, folder / "scratch", folder / "app"
        self.scratch.mkdir()
        lay_out(MEASURING_IMAGE, self.image)
        block(NOT_IN_THE_POD, self.image)
        self.aws = emulated_account()
        self.s3 = boto3.client("s3", endpoint_url=self.aws)
        where = {"LocationConstraint": "us-east-2"}
        self.s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration=where)  # type: ignore[arg-type]

    def start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "pods.checkpoint_stager", *command(self.scratch)],
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

    def objects(self) -> dict[str, bytes]:
        prefix = f"{MODEL}/{conftest.REVISION}/"
        return {key.removeprefix(prefix): data for key, data in stored(self.s3, BUCKET).items()}


@pytest.fixture
def pods(hub: LocalHub, tmp_path: Path) -> Pods:
    return Pods(hub, tmp_path)


def test_sigterm_ends_a_pod_and_the_next_continues(pods: Pods) -> None:
    pods.hub.trouble.held[LARGE] = threading.Event()
    process = pods.start()
    eventually(lambda: pods.hub.downloads(LARGE) == 1 and {*SMALL} <= pods.objects().keys())
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=HANGS_AFTER_SECONDS)
    assert process.returncode == 128 + signal.SIGTERM
    assert pods.objects().keys() == {*SMALL, "_STAGING.json"}

    pods.hub.trouble.held.pop(LARGE).set()
    pods.hub.requests.clear()
    process = pods.start()
    log = process.communicate(timeout=HANGS_AFTER_SECONDS)[1]
    assert process.returncode == 0, log
    assert [pods.hub.downloads(name) for name in SMALL] == [0] * len(SMALL)
    files, objects = conftest.model_files(), pods.objects()
    assert {name: objects[name] for name in SERVED} == {name: files[name] for name in SERVED}
    ready = load_record(checkpoints.ReadyModel, objects["_READY.json"])
    assert tuple(file.path for file in ready.files) == SERVED


Main = Callable[..., tuple[int, str]]


@pytest.fixture
def main(bench: Bench, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Main:
    """Run the program in this process; return its exit code and its log."""
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    monkeypatch.setattr(program, "HfApi", functools.partial(HfApi, endpoint=bench.hub.url))
    monkeypatch.setattr(program, "end_at_sigterm", lambda: None)

    def run(*arguments: str) -> tuple[int, str]:
        return program.main(command(bench.scratch, *arguments)), capsys.readouterr().err

    return run


def test_a_gated_model_needs_a_token_never_logged(bench: Bench, main: Main) -> None:
    bench.hub.repos[MODEL].gated = True
    bench.hub.tokens[TOKEN] = {MODEL}
    boto3.client("secretsmanager").create_secret(Name=SECRET, SecretString=TOKEN)
    status, log = main("--token-secret", SECRET)
    assert status == 0, log
    assert TOKEN not in log
    assert "Signature" not in log


def failed(bench: Bench) -> checkpoints.FailedModel | None:
    data = bench.objects().get(checkpoints.FAILED_MARKER)
    return load_record(checkpoints.FailedModel, data) if data is not None else None


def test_a_wrong_input_is_recorded_in_the_bucket(bench: Bench, main: Main) -> None:
    bench.hub.repos[MODEL].gated = True
    before = time.time()
    status, log = main()
    assert status == 2
    assert "a gated model, and no token was given; next: " in log
    marker = failed(bench)
    assert marker
    assert (marker.model, marker.revision) == (MODEL, conftest.REVISION)
    assert "a gated model, and no token was given; next: " in marker.reason
    assert marker.reason.endswith("raise `rerun` in the experiment and deploy again")
    assert before <= marker.failed_at_unix_s <= time.time()


@pytest.mark.parametrize(("earlier", "is_last"), [("", False), ("1", False), ("2", True)])
def test_the_jobs_last_pod_records_its_failure(
    bench: Bench, main: Main, monkeypatch: pytest.MonkeyPatch, earlier: str, is_last: bool
) -> None:
    monkeypatch.setenv(checkpoints.FAILURES_VARIABLE, earlier)
    bench.hub.trouble.statuses[:] = [500] * 100
    monkeypatch.setattr("pods.checkpoint_stager.hub.RETRY_WAITS_SECONDS", ())
    assert main("--retries", "2")[0] == 1
    marker = failed(bench)
    assert (marker is not None) == is_last
    if marker:
        assert "3 tries failed" in marker.reason


def test_an_endless_small_file_fails_in_one_sentence(
    bench: Bench, main: Main, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pods.checkpoint_stager.download_limits.ANSWER_LIMIT_BYTES", 2**20)
    bench.hub.trouble.endless["config.json"] = b"{" * 2**16
    status, log = main("--retries", "0")
    assert status == 1
    (line,) = (line for line in log.splitlines() if "has more than 1,048,576 bytes" in line)
    assert f"{MODEL} at {COMMIT}: config.json: the answer of http://127.0.0.1:" in line
    assert (reported := failed(bench))
    assert "1,048,576 bytes; next: " in reported.reason
    assert "config.json" not in bench.objects()


def test_a_defect_of_the_last_pod_is_recorded(
    bench: Bench, main: Main, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(checkpoints.FAILURES_VARIABLE, "8")

    def fail(_: Staging) -> None:
        raise KeyError("a defect")

    monkeypatch.setattr(Staging, "run", fail)
    with pytest.raises(KeyError):
        main()
    assert (marker := failed(bench))
    assert "KeyError" in marker.reason


def test_a_failure_that_cannot_be_reported_is_logged(
    bench: Bench, main: Main, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise StoreError("access denied")

    bench.hub.repos[MODEL].gated = True
    monkeypatch.setattr(Store, "put_failed", refuse)
    status, log = main()
    assert status == 2
    assert "the failure cannot be reported: access denied" in log


def test_pickled_weights_need_permission(bench: Bench, main: Main) -> None:
    files = bench.hub.repos[MODEL].commits[COMMIT]
    pickled = {k: v for k, v in files.items() if not k.endswith(".safetensors")}
    bench.hub.repos[MODEL].commits[COMMIT] = pickled
    status, log = main()
    assert status == 2
    assert "given pytorch_model.bin; allowed: *.safetensors" in log
    assert "pytorch_model.bin" not in bench.objects()
    assert failed(bench)

    bench.s3.delete_object(Bucket=BUCKET, Key=f"{MODEL}/{conftest.REVISION}/_FAILED.json")
    assert main("--pickle-weights", "allowed")[0] == 0
    assert {"pytorch_model.bin", "_READY.json"} <= bench.objects().keys()

    status, log = main()
    assert status == 2, "what another experiment has staged is not believed either"
    assert "pytorch_model.bin" in log
    assert failed(bench) is None, "what waits for READY has it"


def test_a_missing_secret_fails_unless_nothing_is_missing(main: Main) -> None:
    status, log = main("--token-secret", "nowhere")
    assert status == 2
    assert "aws.hub_token_secret: nowhere is not there" in log
    main()
    status, log = main("--token-secret", "nowhere")
    assert status == 0
    assert "nothing to do" in log


def test_missing_credentials_end_with_one(main: Main, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    status, log = main()
    assert status == 1
    assert "Unable to locate credentials" in log


def test_the_hubs_client_reads_the_jobs_settings() -> None:
    """The client ignores a misspelt variable, and no other test would notice."""
    folder = Path(constants.__file__).parent
    source = "".join(p.read_text() for p in (folder / "constants.py", *folder.glob("utils/*.py")))
    names = set(re.findall(r"\bHF_[A-Z_]+\b", source))
    assert HUB_ENVIRONMENT.keys() - names == set()
    assert "HF_HUB_DISABLE_XETS" not in names


def test_tests_and_image_have_one_client_version() -> None:
    pins = [
        line.split()[0]
        for file in (ROOT / "pods/measuring/requirements.txt", ROOT / "requirements/rehearsal.txt")
        for line in file.read_text().splitlines()
        if line.startswith("huggingface_hub==")
    ]
    assert len(pins) == 2
    assert len(set(pins)) == 1
