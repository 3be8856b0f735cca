"""Bootstrap, the Hugging Face token, the CDK CLI; `test_checks.py` has other checks of a deploy."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from moto import mock_aws

from draftworth.account import model_hub
from draftworth.account.checks import deploy_prerequisites
from draftworth.experiment.variants import HubModel
from tests.draftworth.account.stubs import ROOT, experiment, situation
from tests.support.experiments import changed

pytestmark = [pytest.mark.emulator]
REGION = "us-east-2"
PARAMETER = "/cdk-bootstrap/hnb659fds/version"


@pytest.fixture
def account() -> Iterator[None]:
    with mock_aws():
        yield


def test_bootstrap_is_judged_by_its_version(account: None) -> None:
    result = deploy_prerequisites.bootstrap(situation())
    assert result.status == "fail"
    command = "npx aws-cdk@2.1148.1 bootstrap aws://ACCOUNT/us-east-2"
    assert result.next_step == f'PATH="$PWD/.venv/bin:$PATH" {command}'
    ssm = boto3.client("ssm", region_name=REGION)
    for version, status in (("6", "pass"), ("28", "pass"), ("5", "fail")):
        ssm.put_parameter(Name=PARAMETER, Value=version, Type="String", Overwrite=True)
        assert deploy_prerequisites.bootstrap(situation()).status == status


def test_another_qualifier_has_another_parameter(account: None, tmp_path: Path) -> None:
    default = f"/cdk-bootstrap/{deploy_prerequisites.DEFAULT_QUALIFIER}/version"
    assert default in deploy_prerequisites.bootstrap(situation(root=tmp_path)).observation, (
        "no checkout"
    )
    context = {"@aws-cdk/core:bootstrapQualifier": "mine"}
    (tmp_path / "cdk.json").write_text(json.dumps({"context": context}))
    shutil.copy(ROOT / "package.json", tmp_path)
    assert (
        "/cdk-bootstrap/mine/version"
        in deploy_prerequisites.bootstrap(situation(root=tmp_path)).observation
    )


def test_a_secret_is_read_but_never_printed(account: None, monkeypatch: pytest.MonkeyPatch) -> None:
    checked = situation(experiment(hub_token_secret="hub"))
    tokens: list[str] = []

    def access_status(_: str, token: str) -> int:
        tokens.append(token)
        return 200

    monkeypatch.setattr(model_hub, "access_status", access_status)
    secrets = boto3.client("secretsmanager", region_name=REGION)

    def fails_with(command: str) -> bool:
        result = deploy_prerequisites.hub_token(checked)
        return result.status == "fail" and command in result.next_step

    assert fails_with("create-secret")
    secrets.create_secret(Name="hub", SecretString=" ")
    assert fails_with("put-secret-value")
    secrets.put_secret_value(SecretId="hub", SecretString="hf_very_secret")
    result = deploy_prerequisites.hub_token(checked)
    assert result.status == "pass"
    assert "hf_very_secret" not in str(result)
    secrets.put_secret_value(SecretId="hub", SecretString='{"token": "hf_very_secret"}')
    deploy_prerequisites.hub_token(checked)
    assert {*tokens} == {"hf_very_secret"}
    secrets.delete_secret(SecretId="hub")
    assert fails_with("restore-secret")


def test_a_model_of_unknown_access_is_a_warning() -> None:
    unknown = HubModel(model="acme/private", tokenizer_family="qwen3")
    result = deploy_prerequisites.gated_models(situation(changed(experiment(), target=unknown)))
    assert result.status == "warn"
    assert "whether acme/private is gated" in result.observation


@pytest.mark.parametrize(
    ("installed", "status"), [("2.1148.1", "pass"), ("3.0.0", "fail"), (None, "warn")]
)
def test_the_cdk_cli_is_the_pinned_one(tmp_path: Path, installed: str | None, status: str) -> None:
    assert deploy_prerequisites.cdk_cli(situation(root=tmp_path)).status == "skip", "no checkout"
    for name in ("package.json", "cdk.json"):
        shutil.copy(ROOT / name, tmp_path)
    if installed:
        package = tmp_path / "node_modules/aws-cdk/package.json"
        package.parent.mkdir(parents=True)
        package.write_text(json.dumps({"version": installed}))
    assert deploy_prerequisites.cdk_cli(situation(root=tmp_path)).status == status
