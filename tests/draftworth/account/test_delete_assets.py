"""What deploys uploaded is deleted in every version, once nothing reads it any more."""

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from draftworth.account import clients, delete_assets
from draftworth.account.clients import client
from draftworth.account.delete_assets import is_asset_bucket
from tests.draftworth.account import emulated_resources
from tests.draftworth.account.emulated_resources import ASSETS, REGION, STACK
from tests.draftworth.account.stubs import QWEN, RefusingClient
from tests.draftworth.conftest import Ran

pytestmark = [pytest.mark.emulator]


@pytest.fixture(autouse=True)
def s3() -> Iterator[Any]:
    with mock_aws():
        yield boto3.client("s3", region_name=REGION)


def versions(s3: Any, bucket: str = ASSETS) -> list[str]:
    """Keys of all that is there, versions and delete markers."""
    listed = s3.list_object_versions(Bucket=bucket)
    return sorted(v["Key"] for kind in ("Versions", "DeleteMarkers") for v in listed.get(kind, ()))


def test_every_version_of_only_our_files_goes(s3: Any, ran: Ran) -> None:
    emulated_resources.upload_folder()
    foreign_keys = ["a.zip", f"{STACK}-x/prompts.json", STACK]
    for key in foreign_keys:
        s3.put_object(Bucket=ASSETS, Key=key, Body=b"x")
    output = ran("delete-assets", QWEN)
    assert versions(s3) == sorted(foreign_keys)
    assert output == f"deleted 5 versions of files in s3://{ASSETS}/{STACK}/\n"
    assert "no file in a folder draftworth-qwen3-32b/" in ran("delete-assets", QWEN)


def test_unversioned_buckets_and_other_qualifiers_are_emptied(s3: Any, ran: Ran) -> None:
    name = f"cdk-team-1-assets-123456789012-{REGION}"
    emulated_resources.asset_bucket(name, versioned=False)
    s3.put_object(Bucket=name, Key=f"{STACK}/prompts.json", Body=b"x")
    ran("delete-assets", QWEN)
    assert versions(s3, name) == []


def test_more_than_one_batch_is_deleted(s3: Any, ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "_DELETE_BATCH", 2)
    emulated_resources.upload_folder()
    ran("delete-assets", QWEN)
    assert versions(s3) == []


def test_nothing_is_deleted_while_its_stack_exists(s3: Any, ran: Ran) -> None:
    emulated_resources.upload_folder()
    emulated_resources.stack(STACK)
    before = versions(s3)
    output = ran("delete-assets", QWEN, code=1)
    assert f"the stack {STACK} in us-east-2 still exists" in output
    assert versions(s3) == before
    boto3.client("cloudformation", region_name=REGION).delete_stack(StackName=STACK)
    ran("delete-assets", QWEN)
    assert versions(s3) == []


def test_what_s3_does_not_delete_is_told(monkeypatch: pytest.MonkeyPatch, ran: Ran) -> None:
    emulated_resources.upload_folder()
    error = {"Key": f"{STACK}/a", "VersionId": "1", "Code": "AccessDenied", "Message": "locked"}

    class Locked:
        """S3 with an object that must stay."""

        def __getattr__(self, name: str) -> Any:
            return getattr(boto3.client("s3", region_name=REGION), name)

        def delete_objects(self, **_: Any) -> Any:
            return {"Errors": [error]}

    made = client
    monkeypatch.setattr(delete_assets, "client", lambda s, r: Locked() if s == "s3" else made(s, r))
    message = f"s3://{ASSETS}/{STACK}/a: not deleted: AccessDenied: locked"
    assert message in ran("delete-assets", QWEN, code=1)


@pytest.mark.parametrize("refusing", ["s3", "cloudformation"])
def test_a_refused_call_is_reported_and_deletes_nothing(
    monkeypatch: pytest.MonkeyPatch, ran: Ran, s3: Any, refusing: str
) -> None:
    emulated_resources.upload_folder()
    before, made = versions(s3), client
    monkeypatch.setattr(
        delete_assets, "client", lambda s, r: RefusingClient() if s == refusing else made(s, r)
    )
    assert "AccessDenied" in ran("delete-assets", QWEN, code=1)
    assert versions(s3) == before


def test_cdks_bucket_is_known_by_its_name() -> None:
    for name in (ASSETS, f"cdk-team-1-assets-123456789012-{REGION}"):
        assert is_asset_bucket(name, REGION)
    for name in (
        "cdk-hnb659fds-assets-123456789012-us-east-1",
        f"cdk-hnb659fds-assets-12345678901-{REGION}",
        f"my-cdk-hnb659fds-assets-123456789012-{REGION}",
        f"{ASSETS}-old",
    ):
        assert not is_asset_bucket(name, REGION)
