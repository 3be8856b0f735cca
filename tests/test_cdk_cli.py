"""The pinned CDK command line as a CDK user types it, against an emulated account.

Emulated is everything but what a change set would make: moto has no EKS worth deploying.
"""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest

from draftworth.account.checks.deploy_prerequisites import BOOTSTRAP_VERSION, DEFAULT_QUALIFIER
from draftworth.experiment.naming import EXPERIMENT_TAG
from tests.support.emulator import emulated_account

ROOT = Path(__file__).resolve().parents[1]
CLI = ROOT / "node_modules/.bin/cdk"
REGION = "us-east-2"
ASSETS = f"cdk-{DEFAULT_QUALIFIER}-assets-123456789012-{REGION}"
STACK = "draftworth-qwen3-32b"
# The endpoint is a closed port of loopback.
NOBODY = {
    "AWS_ACCESS_KEY_ID": "",
    "AWS_SECRET_ACCESS_KEY": "",
    "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
}
# It is an error of the CLI, not of the test, when it hangs.
SECONDS = 300
pytestmark = [
    pytest.mark.scenarios,
    pytest.mark.skipif(not CLI.exists(), reason="no CDK CLI: `make synth` or `npm install`"),
]


@dataclass(frozen=True, kw_only=True)
class Done:
    """How the CLI ended, and what it said in both streams."""

    exit_code: int
    said: str


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Done, Path]:
    """`cdk ls` without credentials, and what it wrote for the other tests to deploy."""
    folder = tmp_path_factory.mktemp("listed")
    engine, called = folder / "engine", folder / "called"
    engine.write_text(f"#!/bin/sh\ntouch {called}\nexit 1\n")
    engine.chmod(0o755)
    given = ("-c", "experiment=experiments/qwen3-32b.yaml")
    done = cdk("ls", *given, folder=folder, CDK_DOCKER=str(engine), **NOBODY)
    assert not called.exists(), "the measuring Job's image is built by a deploy alone"
    assets = folder / "cdk.out" / f"{STACK}.assets.json"
    (image,) = json.loads(assets.read_text())["dockerImages"].values()
    assert image["source"]["dockerFile"] == "pods/measuring/Dockerfile"
    # The tests have no container engine to deploy it with.
    assets.write_text(json.dumps(json.loads(assets.read_text()) | {"dockerImages": {}}))
    # Each deploy uploads CDK's own layers, of 40 MB, and nothing runs kubectl here.
    for layer in assets.parent.glob("*.zip"):
        layer.write_bytes(b"no kubectl")
    return done, assets.parent


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The change sets that were executed, by their request; their stacks exist afterwards."""
    # Not at the top: both take a second, and every worker imports the modules of all tests.
    from moto.cloudformation.responses import CloudFormationResponse
    from moto.core.responses import EmptyResult

    requests: list[dict[str, Any]] = []

    def execute_change_set(response: CloudFormationResponse) -> EmptyResult:
        asked = {k: response._get_param(k) for k in ("StackName", "DisableRollback")}
        requests.append(asked)
        (stack,) = response.cloudformation_backend.describe_stacks(asked["StackName"])
        stack._add_stack_event("CREATE_COMPLETE")
        stack.status = "CREATE_COMPLETE"
        return EmptyResult()

    monkeypatch.setattr(CloudFormationResponse, "execute_change_set", execute_change_set)
    return requests


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> str:
    """A bootstrapped account; moto reads templates of a host of this name only."""
    url = emulated_account().replace("127.0.0.1", "localhost")
    monkeypatch.setenv("AWS_ENDPOINT_URL", url)
    where: Any = {"LocationConstraint": REGION}
    client("s3").create_bucket(Bucket=ASSETS, CreateBucketConfiguration=where)
    parameter = f"/cdk-bootstrap/{DEFAULT_QUALIFIER}/version"
    client("ssm").put_parameter(Name=parameter, Value=str(BOOTSTRAP_VERSION), Type="String")
    return url


def client(service: str) -> Any:
    return boto3.client(service, region_name=REGION)  # type: ignore[call-overload]


def cdk(*words: str, folder: Path, **environment: str) -> Done:
    """The CLI without a terminal; nothing but the emulated account can be reached.

    Into a file: Node.js writes to a pipe when it has time, and a CLI that fails does not wait.
    """
    log = folder / "said"
    with log.open("wb") as stream:
        done = subprocess.run(
            [str(CLI), *words, "--output", str(folder / "cdk.out"), "--no-notices"],
            cwd=ROOT,
            # A narrow table breaks names; without a terminal the CLI takes its width from here.
            env={**os.environ, "COLUMNS": "1000", "CDK_DISABLE_VERSION_CHECK": "1", **environment},
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            timeout=SECONDS,
            check=False,
        )
    return Done(exit_code=done.returncode, said=log.read_text())


def test_an_experiment_is_one_stack_to_the_cli(listed: tuple[Done, Path]) -> None:
    done, _ = listed
    assert (done.exit_code, done.said) == (0, f"{STACK}\n")


def test_without_credentials_only_the_account_is_missing(
    listed: tuple[Done, Path], tmp_path: Path
) -> None:
    """And not the name of a stack."""
    done = cdk("deploy", "--app", str(listed[1]), folder=tmp_path, **NOBODY)
    assert done.exit_code == 1
    assert "Unable to resolve AWS account" in done.said


def test_deploy_asks_once_and_shows_the_roles(
    listed: tuple[Done, Path], account: str, executed: list[dict[str, Any]], tmp_path: Path
) -> None:
    done = cdk("deploy", "--app", str(listed[1]), folder=tmp_path)
    assert done.exit_code == 1
    assert "security-sensitive updates" in done.said
    assert "WorkloadRoles" in done.said
    assert executed == []


def test_deploy_and_destroy_take_no_name(
    listed: tuple[Done, Path], account: str, executed: list[dict[str, Any]], tmp_path: Path
) -> None:
    words = ("--app", str(listed[1]))
    done = cdk("deploy", *words, "--require-approval", "never", folder=tmp_path)
    assert done.exit_code == 0, done.said
    # What `plan` notes is told, and does not keep from deploying.
    assert "Qwen/Qwen3-32B@main is not pinned to a commit" in done.said
    # What a failed deploy has made stays.
    assert [request["DisableRollback"] for request in executed] == [True]
    (stack,) = client("cloudformation").describe_stacks()["Stacks"]
    assert stack["StackName"] == STACK
    assert {t["Key"]: t["Value"] for t in stack["Tags"]} == {EXPERIMENT_TAG: "qwen3-32b"}
    files = [entry["Key"] for entry in client("s3").list_objects_v2(Bucket=ASSETS)["Contents"]]
    assert files
    assert all(file.startswith(f"{STACK}/") for file in files)

    gone = cdk("destroy", *words, "--force", folder=tmp_path)
    assert gone.exit_code == 0, gone.said
    assert client("cloudformation").describe_stacks()["Stacks"] == []
