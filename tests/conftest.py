"""Isolates every test from the credentials, clusters and proxies of this machine."""

import gc
import math
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import hypothesis
import jsii._type_checking
import pytest
from moto import mock_aws

from tests.support import shared
from tests.support.emulator import service_models_read_once

# A property test tries a few examples, always the same; `make fuzz` tries many random examples.
# No test fails because an example, or the generation of an example, is slow on this machine.
for name, examples, derandomize in (("test", 25, True), ("fuzz", 1_000, False)):
    hypothesis.settings.register_profile(
        name,
        max_examples=examples,
        derandomize=derandomize,
        database=None,
        deadline=None,
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
    )
hypothesis.settings.load_profile("fuzz" if os.environ.get("DRAFTWORTH_FUZZ") else "test")

# Modules and tests exist until the end, so the garbage collector need not search them.
gc.disable()

# Otherwise moto makes thousands of AMIs for each account, and no test needs them. Set here, because
# a fixture of a session begins before those of a test.
os.environ["MOTO_EC2_LOAD_DEFAULT_AMIS"] = "false"
# As in `app.py`: one helper thread saves CPU time of the CDK's Node.js.
os.environ.setdefault("NODE_OPTIONS", "--v8-pool-size=1")
# mypy checks the types of every call of the CDK; jsii checks them again, which takes a tenth of a
# synthesis.
pytest.MonkeyPatch().setattr(jsii._type_checking, "_resolved_check", lambda **_: None)
# Otherwise argparse looks for a translation of each of its texts, in files that do not exist.
os.environ["LANGUAGE"] = "C"

# A background job of a shell ignores both signals, and processes that tests start would inherit it.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

ROOT = Path(__file__).resolve().parents[1]
# The folders of the product's Python.
PACKAGES = ("draftworth", "charts", "stacks", "lambdas", "pods", "rehearsal")
_STRIPPED_PREFIXES = ("AWS_", "CDK_", "DRAFTWORTH_")
_STRIPPED = ("KUBECONFIG", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
# Set by the person who runs the tests, for the tests.
_KEPT = (
    "DRAFTWORTH_UPDATE_SNAPSHOTS",
    "DRAFTWORTH_CHECKOV",
    "DRAFTWORTH_ENGINE_PYTHON",
    "DRAFTWORTH_LLMPERF_PYTHON",
    "DRAFTWORTH_LLAMA_SERVER",
    "DRAFTWORTH_LLAMA_MODEL",
)


def pytest_collection_finish() -> None:
    """From here on, collect garbage rarely, and only among the objects that tests make."""
    gc.freeze()
    gc.set_threshold(100_000)
    gc.enable()


@contextmanager
def every_request_counts() -> Iterator[None]:
    """Exclude no request: on a busy machine the client waits for a core."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("draftworth.measuring.clock.MAX_WAIT_SHARE", math.inf)
        patched.setattr("draftworth.measuring.connections._MAX_AGE_NS", math.inf)
        yield


@pytest.fixture
def _every_request_counts() -> Iterator[None]:
    with every_request_counts():
        yield


@pytest.fixture(autouse=True)
def _hermetic_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove this machine's credentials, cluster and proxy: a missing stub reaches no account.

    Secrets that an earlier test hid in this process are forgotten.
    """
    monkeypatch.setattr("draftworth.untrusted._secrets", {})
    for name in list(os.environ):
        stripped = name.startswith(_STRIPPED_PREFIXES) or name.upper() in _STRIPPED
        if stripped and name not in _KEPT:
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-2")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)


@pytest.fixture(autouse=True, scope="session")
def _cheap_aws_clients() -> Iterator[None]:
    with service_models_read_once():
        yield


@pytest.fixture(scope="session", autouse=True)
def _folder_of_the_run(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Choose the folder through which the processes of a test run share results."""
    shared.begin(tmp_path_factory)


@pytest.fixture
def experiments() -> Path:
    """Return the folder of the shipped experiment files."""
    return ROOT / "experiments"


@pytest.fixture
def s3() -> Iterator[Any]:
    """Return a client of an emulated S3 with one bucket, `results`."""
    with mock_aws():
        client = boto3.client("s3", region_name="us-east-1")
        client.create_bucket(Bucket="results")
        yield client


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a report's plots empty files, because drawing them takes most of the report's time."""
    monkeypatch.setattr("draftworth.report.writing.render", lambda plot: b"")
