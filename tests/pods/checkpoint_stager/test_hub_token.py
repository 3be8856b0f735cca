"""The token for the Hugging Face hub is read from Secrets Manager."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import boto3
import pytest
from botocore.exceptions import EndpointConnectionError
from botocore.stub import Stubber
from moto import mock_aws

from draftworth.errors import DraftworthError, UserInputError
from pods.checkpoint_stager.hub_token import read_token
from tests.conftest import ROOT

if TYPE_CHECKING:
    from mypy_boto3_secretsmanager import SecretsManagerClient

pytestmark = pytest.mark.emulator


@pytest.fixture
def client() -> Iterator[SecretsManagerClient]:
    with mock_aws():
        yield boto3.client("secretsmanager")


@pytest.mark.parametrize(
    "text", ["hf_token", " hf_token\n", '{"token": "hf_token"}', '{"HF_TOKEN": "hf_token\\n"}']
)
def test_a_token_is_plain_or_the_consoles_json(client: SecretsManagerClient, text: str) -> None:
    client.create_secret(Name="draftworth/hub", SecretString=text)
    assert read_token(client, "draftworth/hub") == "hf_token"


@pytest.mark.parametrize(
    "text",
    [" ", "{}", '{"user": "me", "token": "hf_a"}', '{"a": 1}', "{broken", "two words", "{" * 9999],
)
def test_a_secret_without_a_token_is_not_quoted(client: SecretsManagerClient, text: str) -> None:
    client.create_secret(Name="hub", SecretString=text)
    with pytest.raises(UserInputError, match=r"hub holds no token; allowed: .*; next: ") as refused:
        read_token(client, "hub")
    assert "hf_a" not in str(refused.value)


def test_git_ignores_the_documented_token_file() -> None:
    text = (ROOT / "docs" / "operations.md").read_text()
    (name,) = re.findall(r"--secret-string file://(\S+)", text)
    assert name in (ROOT / ".gitignore").read_text().splitlines()


def test_a_missing_secret_is_reported_with_its_remedy(
    client: SecretsManagerClient,
) -> None:
    with pytest.raises(UserInputError, match=r"hub is not there.*put-secret-value"):
        read_token(client, "hub")
    client.create_secret(Name="hub", SecretBinary=b"hf_token")
    with pytest.raises(UserInputError, match="holds no token"):
        read_token(client, "hub")
    client.delete_secret(SecretId="hub")
    with pytest.raises(UserInputError, match="marked for deletion"):
        read_token(client, "hub")


@pytest.mark.parametrize("code", ["AccessDeniedException", "InternalServiceError"])
def test_a_refusal_may_be_tried_again(client: SecretsManagerClient, code: str) -> None:
    """AWS refuses a role for some seconds after its creation."""
    with Stubber(client) as stubber:
        stubber.add_client_error("get_secret_value", service_error_code=code)
        with pytest.raises(DraftworthError, match=code) as failed:
            read_token(client, "hub")
    assert failed.value.exit_code == 1


def test_an_unreachable_secrets_manager_is_reported(client: SecretsManagerClient) -> None:
    def unreachable(**_: object) -> None:
        raise EndpointConnectionError(endpoint_url="https://secretsmanager.example.com")

    client.meta.events.register("before-call", unreachable)
    with pytest.raises(DraftworthError, match="secret hub: cannot be read: Could not connect"):
        read_token(client, "hub")
