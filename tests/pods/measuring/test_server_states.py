"""What servers say of themselves, read from a bucket that may hold anything."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from moto import mock_aws

from draftworth.records.codec import dump_record
from draftworth.records.servers import ServerState, server_state_key
from pods.measuring.kubernetes_servers import ServerStates

BUCKET = "results"
SERVER = "slot1-vllm-k7"
STATE = ServerState(
    server=SERVER, variant="k7", pod=f"{SERVER}-1", start=1, phase="starting", since_unix_s=1.0
)


@pytest.fixture
def s3() -> Iterator[Any]:
    with mock_aws():
        client = boto3.client("s3", region_name="us-east-1")
        client.create_bucket(Bucket=BUCKET)
        yield client


def put(s3: Any, data: bytes) -> None:
    s3.put_object(Bucket=BUCKET, Key=server_state_key(SERVER), Body=data)


def test_a_state_is_read(s3: Any) -> None:
    put(s3, dump_record(STATE))
    assert ServerStates(s3, BUCKET, print).read(SERVER) == STATE


def test_no_state_is_none_and_not_a_word(s3: Any) -> None:
    log: list[str] = []
    assert ServerStates(s3, BUCKET, log.append).read(SERVER) is None
    assert log == []


def test_a_folder_that_may_not_be_listed_is_none_and_not_a_word() -> None:
    log: list[str] = []
    client = boto3.client("s3", region_name="us-east-1")
    with Stubber(client) as stub:
        stub.add_client_error("get_object", "AccessDenied", http_status_code=403)
        assert ServerStates(client, BUCKET, log.append).read(SERVER) is None
    assert log == []


@pytest.mark.parametrize(
    "data",
    [
        b"{}",
        b"[" * 100_000,
        b"\xff",
        b" " * (2**20 + 1),
        dump_record(STATE).replace(b'"starting"', b'"given_up"'),
        dump_record(STATE).replace(b":1.0", b":1e400"),
    ],
)
def test_what_cannot_be_read_is_said_once(s3: Any, data: bytes) -> None:
    log: list[str] = []
    put(s3, data)
    states = ServerStates(s3, BUCKET, log.append)
    assert [states.read(SERVER), states.read(SERVER)] == [None, None]
    assert len(log) == 1


def test_another_s_state_is_none(s3: Any) -> None:
    put(s3, dump_record(replace(STATE, server="vllm-k7")))
    assert ServerStates(s3, BUCKET, print).read(SERVER) is None


def test_a_bucket_that_fails_ends_nothing() -> None:
    log: list[str] = []
    client = boto3.client("s3", region_name="us-east-1")
    with Stubber(client) as stub:
        stub.add_client_error("get_object", "SlowDown", http_status_code=503)
        assert ServerStates(client, BUCKET, log.append).read(SERVER) is None
    assert "SlowDown" in log[0]
