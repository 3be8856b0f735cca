"""Botocore's errors, each with what to do next."""

from __future__ import annotations

import pytest
from botocore import exceptions as boto
from botocore.exceptions import BotoCoreError, ClientError

from account.clients import (
    AwsError,
    CredentialsError,
    DeniedError,
    UnreachableError,
    client,
    explained,
    explanation,
)

REGION = "us-east-2"


def answer(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "because"}}, "ListThings")


@pytest.mark.parametrize(
    ("error", "kind", "next_step"),
    [
        (boto.NoCredentialsError(), CredentialsError, "aws sso login"),
        (boto.ProfileNotFound(profile="mine"), CredentialsError, "AWS_PROFILE"),
        (answer("ExpiredToken"), CredentialsError, "aws sso login"),
        (answer("AccessDenied"), DeniedError, "allow ListThings"),
        (answer("UnauthorizedOperation"), DeniedError, "allow ListThings"),
        (
            boto.EndpointConnectionError(endpoint_url="https://x"),
            UnreachableError,
            "check the network",
        ),
        (answer("Throttling"), AwsError, "try again"),
        (boto.DataNotFoundError(data_path="x"), AwsError, "try again"),
    ],
)
def test_an_error_says_what_was_tried_where_and_what_to_do(
    error: ClientError | BotoCoreError, kind: type[AwsError], next_step: str
) -> None:
    told = explanation(error, "list the things", region=REGION)
    assert type(told) is kind
    assert "could not list the things in us-east-2" in str(told)
    assert next_step in told.next_step
    assert f"next: {told.next_step}" in str(told)
    assert told.exit_code == 1


def test_an_answers_code_and_message_are_repeated() -> None:
    told = explanation(answer("Throttling"), "list", region=REGION)
    assert told.code == "Throttling"
    assert "Throttling: because" in told.reason


def test_the_first_error_stays_attached_for_who_debugs() -> None:
    with pytest.raises(DeniedError) as caught, explained("list", region=REGION):
        raise answer("AccessDenied")
    assert isinstance(caught.value.__cause__, ClientError)


def test_what_is_no_error_of_botocore_passes_through() -> None:
    with pytest.raises(KeyError), explained("list", region=REGION):
        raise KeyError("a mistake of ours is not AWS's")


def test_a_profile_that_does_not_exist_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(CredentialsError, match="nobody"):
        client("s3", REGION)
