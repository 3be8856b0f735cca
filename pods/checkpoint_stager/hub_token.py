"""Reads the access token for Hugging Face from AWS Secrets Manager."""

from __future__ import annotations

from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from draftworth.errors import DraftworthError, UserInputError
from draftworth.records.hub_secret import token_in

if TYPE_CHECKING:
    from mypy_boto3_secretsmanager import SecretsManagerClient

_NEXT = (
    "next: aws secretsmanager put-secret-value (or create-secret --name) with --secret-string and "
    "your Hugging Face token, in the experiment's region"
)


def read_token(client: SecretsManagerClient, secret: str) -> str:
    """Return the token that a secret holds, alone or as the only value of a JSON object.

    The AWS console writes such an object. Another try may succeed after any error except
    UserInputError. secret: the secret's name.
    """
    try:
        text = client.get_secret_value(SecretId=secret).get("SecretString", "")
    except (ClientError, BotoCoreError) as error:
        raise _refusal(secret, error) from error
    token = token_in(text)
    if not token:
        raise UserInputError(
            f"aws.hub_token_secret: {secret} holds no token; allowed: the token alone, or a JSON "
            f"object with it as the only value; {_NEXT}"
        )
    return token


def _refusal(secret: str, error: Exception) -> DraftworthError:
    code = error.response["Error"]["Code"] if isinstance(error, ClientError) else None
    if code in ("ResourceNotFoundException", "InvalidRequestException"):
        return UserInputError(
            f"aws.hub_token_secret: {secret} is not there, or marked for deletion; {_NEXT}"
        )
    if code in ("AccessDeniedException", "DecryptionFailure"):
        # Not a UserInputError, after which no pod tries again: AWS refuses a role for some seconds
        # after its creation, so another try may succeed.
        return DraftworthError(
            f"aws.hub_token_secret: {secret} may not be read by the stager's role: {error}; next: "
            "deploy with this secret's name in the experiment; a secret with a KMS key of your "
            "own also needs that key's policy to let the role decrypt"
        )
    return DraftworthError(f"secret {secret}: cannot be read: {error}")
