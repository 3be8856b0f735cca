"""Bootstrap, stacks of an earlier deploy, the hub token; and the tools of this machine."""

import dataclasses
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from moto import mock_aws

from draftworth.account.checks import deployment
from draftworth.account.checks.check import CheckResult, Situation
from draftworth.experiment.variants import HubModel
from tests.draftworth.account.stubs import NOW, ROOT, Answer, experiment, situation
from tests.support.experiments import changed

pytestmark = [pytest.mark.emulator]
REGION = "us-east-2"
PARAMETER = "/cdk-bootstrap/hnb659fds/version"


@pytest.fixture
def account() -> Iterator[None]:
    with mock_aws():
        yield


def stack(name: str, status: str, experiment_name: str = "") -> dict[str, object]:
    tags = [{"Key": "draftworth:experiment", "Value": experiment_name}] if experiment_name else []
    return {"StackName": name, "StackStatus": status, "CreationTime": NOW, "Tags": tags}


def judged(*stacks: dict[str, object]) -> CheckResult:
    answer = Answer(method="describe_stacks", response={"Stacks": list(stacks)})
    return deployment.existing_stacks(situation(cloudformation=[answer]))


def test_bootstrap_is_judged_by_its_version(account: None) -> None:
    result = deployment.bootstrap(situation())
    assert result.status == "fail"
    assert result.next_step == "npx aws-cdk@2.1148.1 bootstrap aws://ACCOUNT/us-east-2"
    ssm = boto3.client("ssm", region_name=REGION)
    for version, status in (("6", "pass"), ("28", "pass"), ("5", "fail")):
        ssm.put_parameter(Name=PARAMETER, Value=version, Type="String", Overwrite=True)
        assert deployment.bootstrap(situation()).status == status


def test_a_qualifier_of_ones_own_has_a_parameter_of_its_own(account: None, tmp_path: Path) -> None:
    default = f"/cdk-bootstrap/{deployment.DEFAULT_QUALIFIER}/version"
    assert default in deployment.bootstrap(situation(root=tmp_path)).found, "no checkout"
    context = {"@aws-cdk/core:bootstrapQualifier": "mine"}
    (tmp_path / "cdk.json").write_text(json.dumps({"context": context}))
    shutil.copy(ROOT / "package.json", tmp_path)
    assert "/cdk-bootstrap/mine/version" in deployment.bootstrap(situation(root=tmp_path)).found


@pytest.mark.parametrize(
    ("state", "status", "step"),
    [
        ("CREATE_COMPLETE", "pass", ""),
        ("UPDATE_ROLLBACK_COMPLETE", "pass", ""),
        ("ROLLBACK_COMPLETE", "warn", "deletes it and creates it again"),
        ("REVIEW_IN_PROGRESS", "pass", ""),
        ("DELETE_IN_PROGRESS", "fail", "wait"),
        ("DELETE_FAILED", "fail", "make destroy"),
        ("UPDATE_ROLLBACK_FAILED", "fail", "cdk rollback"),
        ("CREATE_FAILED", "warn", "goes on where it stopped"),
        ("UPDATE_FAILED", "warn", "goes on where it stopped"),
    ],
)
def test_a_stack_is_judged_by_what_a_deploy_makes_of_its_state(
    state: str, status: str, step: str
) -> None:
    result = judged(stack("draftworth-qwen3-32b", state, "qwen3-32b"))
    assert result.status == status
    assert step in result.next_step


@pytest.mark.parametrize(
    ("name", "experiment_name", "status", "found"),
    [
        # An earlier version made several stacks.
        ("draftworth-qwen3-32b-cluster", "qwen3-32b", "fail", "draftworth-qwen3-32b-cluster"),
        ("draftworth-qwen3-32b-x", "qwen3-32b-x", "pass", "no stack"),
        ("something-else", "", "pass", "no stack"),
        # Tags are not set yet.
        ("draftworth-qwen3-32b", "", "fail", "is DELETE_FAILED"),
    ],
)
def test_a_stack_is_the_experiments_by_its_tag_or_else_its_name(
    name: str, experiment_name: str, status: str, found: str
) -> None:
    result = judged(stack(name, "DELETE_FAILED", experiment_name))
    assert result.status == status
    assert found in result.found


def test_a_secret_is_judged_by_whether_it_can_be_read_and_its_text_is_not_shown(
    account: None,
) -> None:
    given = situation(experiment(hub_token_secret="hub"))
    secrets = boto3.client("secretsmanager", region_name=REGION)

    def fails_with(command: str) -> bool:
        result = deployment.hub_token(given)
        return result.status == "fail" and command in result.next_step

    assert fails_with("create-secret")
    secrets.create_secret(Name="hub", SecretString=" ")
    assert fails_with("put-secret-value")
    secrets.put_secret_value(SecretId="hub", SecretString="hf_very_secret")
    result = deployment.hub_token(given)
    assert result.status == "pass"
    assert "hf_very_secret" not in str(result)
    secrets.delete_secret(SecretId="hub")
    assert fails_with("restore-secret")


def test_a_secret_that_only_the_stager_may_read_is_a_warning() -> None:
    answers = [
        Answer(method="describe_secret", response={"Name": "hub"}),
        Answer(method="get_secret_value", error="AccessDeniedException"),
    ]
    result = deployment.hub_token(
        situation(experiment(hub_token_secret="hub"), secretsmanager=answers)
    )
    assert result.status == "warn"


def test_a_gated_model_without_a_token_fails_with_the_steps_to_one() -> None:
    assert deployment.gated_models(situation()).status == "pass"
    assert deployment.hub_token(situation()).status == "skip"
    result = deployment.gated_models(situation(experiment("llama-3.1-8b-eagle3")))
    assert result.status == "fail"
    assert "meta-llama/Llama-3.1-8B-Instruct is gated" in result.found
    assert "aws secretsmanager create-secret --region" in result.next_step
    assert "set aws.hub_token_secret to draftworth/hub" in result.next_step
    named = experiment("llama-3.1-8b-eagle3", hub_token_secret="hub")
    assert deployment.gated_models(situation(named)).status == "pass"


def test_a_model_of_unknown_access_is_a_warning() -> None:
    unknown = HubModel(model="acme/private", tokenizer_family="qwen3")
    result = deployment.gated_models(situation(changed(experiment(), target=unknown)))
    assert result.status == "warn"
    assert "whether acme/private is gated" in result.found


def machine(**programs: tuple[int, str]) -> Situation:
    return dataclasses.replace(situation(), run=lambda command: programs.get(command[0]))


def test_node_is_judged_by_its_major_version() -> None:
    said = {"v24.19.0\n": "pass", "v20.1.0\n": "warn", "v16.0.0\n": "fail", "bun": "fail"}
    for text, status in said.items():
        assert deployment.node(machine(node=(0, text))).status == status
    for none in (machine(), machine(node=(1, ""))):
        assert deployment.node(none).status == "fail"


@pytest.mark.parametrize(
    ("installed", "status"), [("2.1148.1", "pass"), ("3.0.0", "fail"), (None, "warn")]
)
def test_the_cdk_cli_is_the_pinned_one(tmp_path: Path, installed: str | None, status: str) -> None:
    assert deployment.cdk_cli(situation(root=tmp_path)).status == "skip", "no checkout"
    for name in ("package.json", "cdk.json"):
        shutil.copy(ROOT / name, tmp_path)
    if installed:
        package = tmp_path / "node_modules/aws-cdk/package.json"
        package.parent.mkdir(parents=True)
        package.write_text(json.dumps({"version": installed}))
    assert deployment.cdk_cli(situation(root=tmp_path)).status == status


def test_the_engine_that_cdk_would_call_passes_if_it_answers_or_is_not_needed() -> None:
    assert deployment.container_engine(machine(docker=(0, "Server: fine"))).status == "pass"
    finch = dataclasses.replace(machine(finch=(0, "fine")), container_engine="finch")
    assert "finch" in deployment.container_engine(finch).found
    given = experiment(load_generator_image=f"registry.example.com/llmperf@sha256:{'0' * 64}")
    assert deployment.container_engine(situation(given)).status == "pass"


def test_no_engine_fails_with_the_alternatives() -> None:
    for given in (machine(), machine(docker=(1, "cannot connect"))):
        result = deployment.container_engine(given)
        assert result.status == "fail"
        assert "CDK_DOCKER=finch" in result.next_step
        assert "aws.load_generator_image" in result.next_step
