"""Botocore's errors, each with what to do next."""

from typing import Any

import pytest
import yaml
from botocore import exceptions as boto
from botocore import parsers
from botocore.exceptions import BotoCoreError, ClientError

from draftworth.account import clients, proxy_pages
from tests.conftest import ROOT

REGION = "us-east-2"


def answer(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "because"}}, "ListThings")


@pytest.mark.parametrize(
    ("error", "kind", "next_step"),
    [
        (answer("ExpiredToken"), clients.AwsError, "aws sso login"),
        (answer("AccessDenied"), clients.DeniedError, "allow ListThings"),
        (answer("UnauthorizedOperation"), clients.DeniedError, "allow ListThings"),
        (
            boto.EndpointConnectionError(endpoint_url="https://x"),
            clients.AwsError,
            "check the network",
        ),
        (answer("Throttling"), clients.AwsError, "try again"),
        (boto.DataNotFoundError(data_path="x"), clients.AwsError, "try again"),
        (boto.NoCredentialsError(), clients.AwsError, "aws sso login"),
        (boto.ProfileNotFound(profile="mine"), clients.AwsError, "aws configure list-profiles"),
    ],
)
def test_an_error_states_attempt_place_and_remedy(
    error: ClientError | BotoCoreError, kind: type[clients.AwsError], next_step: str
) -> None:
    explained = clients.explanation(error, "list the things", region=REGION)
    assert type(explained) is kind
    # Without credentials no region was asked, so none is named.
    names_region = not isinstance(error, boto.NoCredentialsError | boto.ProfileNotFound)
    where = f" in {REGION}" if names_region else ""
    assert explained.reason.startswith(f"could not list the things{where}: ")
    assert REGION not in clients.explanation(error, "list the things").reason
    if isinstance(error, ClientError):
        assert explained.reason.endswith(": because")
    assert next_step in explained.next_step
    assert f"next: {explained.next_step}" in str(explained)
    assert explained.exit_code == 1


def test_the_advice_names_errors_that_botocore_has() -> None:
    rows = yaml.safe_load((ROOT / "draftworth/account/error_advice.yaml").read_text())
    names = [name for row in rows for name in row["errors"] if name.endswith(("Error", "NotFound"))]
    assert len(names) > 5
    modules = (boto, parsers, proxy_pages)
    assert [name for name in names if not any(hasattr(m, name) for m in modules)] == []


def test_a_missing_thing_is_none_other_errors_raise() -> None:
    def call(code: str) -> None:
        raise answer(code)

    assert clients.or_none(call, "NoSuchThing", "Gone", code="NoSuchThing.NotFound") is None
    with pytest.raises(ClientError):
        clients.or_none(call, "NoSuchThing", code="AccessDenied")


@pytest.mark.emulator
def test_a_listing_has_the_entries_of_every_page(s3: Any) -> None:
    for key in "abc":
        s3.put_object(Bucket="results", Key=key)

    def keys(**parameters: object) -> list[str]:
        entries = clients.listed(s3, "list_objects_v2", "Contents[].Key", **parameters)
        return list(entries)

    assert keys(Bucket="results", MaxKeys=1) == ["a", "b", "c"]
    assert keys(Bucket="results", Prefix="nothing") == []
    unpaged = ("get_bucket_location", "[LocationConstraint]")
    assert list(clients.listed(s3, *unpaged, Bucket="results"))


def test_tags_are_read_in_every_services_shape() -> None:
    pairs = [{"Key": "a", "Value": "b"}]
    for carrier in ({"Tags": pairs}, {"TagSet": pairs}, {"tags": {"a": "b"}}, {"Tags": {"a": "b"}}):
        assert clients.tags_of(carrier) == {"a": "b"}
    assert clients.tags_of({}) == {}
