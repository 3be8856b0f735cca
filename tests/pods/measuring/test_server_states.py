"""States of servers, read from a bucket that may contain anything."""

from dataclasses import replace
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from draftworth.records.codec import dump_record
from draftworth.records.servers import ServerState, server_state_key
from pods.measuring.server_states import ServerStates

BUCKET = "results"
SERVER = "slot1-vllm-k7"
STATE = ServerState(
    server=SERVER, variant="k7", pod=f"{SERVER}-1", start=1, phase="starting", since_unix_s=1.0
)


def put(s3: Any, data: bytes) -> None:
    s3.put_object(Bucket=BUCKET, Key=server_state_key(SERVER), Body=data)


def test_only_this_servers_state_is_read(s3: Any) -> None:
    log: list[str] = []
    states = ServerStates(s3, BUCKET, log.append)
    assert states.read(SERVER) is None
    put(s3, dump_record(STATE))
    assert states.read(SERVER) == STATE
    put(s3, dump_record(replace(STATE, server="vllm-k7")))
    assert states.read(SERVER) is None
    assert log == []


@pytest.mark.parametrize(("code", "log_lines"), [("AccessDenied", 0), ("SlowDown", 1)])
def test_a_bucket_that_refuses_ends_nothing(code: str, log_lines: int) -> None:
    """S3 answers `AccessDenied` for a missing object if the role may not list its folder."""
    log: list[str] = []
    client = boto3.client("s3", region_name="us-east-1")
    with Stubber(client) as stub:
        stub.add_client_error("get_object", code, http_status_code=403)
        assert ServerStates(client, BUCKET, log.append).read(SERVER) is None
    assert [code in line for line in log] == [True] * log_lines


UNREADABLE = (
    b"\xff",
    b" " * (2**20 + 1),
    dump_record(STATE).replace(b'"starting"', b'"given_up"'),
)


def test_an_unreadable_state_is_logged_once(s3: Any) -> None:
    for data in UNREADABLE:
        log: list[str] = []
        put(s3, data)
        states = ServerStates(s3, BUCKET, log.append)
        assert [states.read(SERVER), states.read(SERVER)] == [None, None]
        assert len(log) == 1
