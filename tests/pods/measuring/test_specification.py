"""The run specification is read from S3 or a file: bounded, its hash checked, then decoded."""

import gzip
import hashlib
import re
from pathlib import Path
from typing import Any

import boto3
import pytest

from draftworth.errors import DraftworthError, UserInputError
from draftworth.measuring import run_specification
from draftworth.measuring.result_files import SinkError
from draftworth.records.codec import dump_record
from pods.measuring import read_specification
from pods.measuring.read_specification import read_spec
from tests.support.emulator import emulated_account
from tests.support.measuring_job import (
    IN_A_JOB,
    Program,
    healthy,
    result_of_the_job,
    spec_for,
)
from tests.support.stream_server import stream_server

pytestmark = [pytest.mark.emulator, pytest.mark.usefixtures("undrawn")]

BUCKET, KEY = "assets", "draftworth-x/0a.json"
ADDRESS = f"s3://{BUCKET}/{KEY}"
DATA = dump_record(spec_for("http://127.0.0.1:9"))
OTHER_HASH = "0" * 64
# Lets botocore try only once, because nothing listens at the endpoint of the test.
ONE_TRY = {"AWS_MAX_ATTEMPTS": "1"}


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("AWS_ENDPOINT_URL", emulated_account())
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    client = boto3.client("s3")
    client.create_bucket(Bucket=BUCKET)
    return client


def read(address: str = ADDRESS, digest: str | None = None) -> Any:
    return read_spec(address, digest, lambda: boto3.client("s3"))


def test_s3_and_files_are_read_alike(s3: Any, tmp_path: Path) -> None:
    s3.put_object(Bucket=BUCKET, Key=KEY, Body=DATA)
    (tmp_path / "spec.json").write_bytes(DATA)
    assert read(digest=sha256(DATA)) == spec_for("http://127.0.0.1:9")
    assert read(str(tmp_path / "spec.json"), sha256(DATA)) == read()


# Contents of the file whose SHA-256 is not the one on the command line.
CHANGED = {
    "one byte more": DATA + b"\n",
    "another model": DATA.replace(b'"tiny"', b'"other"'),
    "nothing": b"",
}
# Contents of the file that have the wanted SHA-256 but are no run specification.
HOSTILE = {
    "nothing": b"",
    "cut off": DATA[:-20],
    "compressed": gzip.compress(DATA, mtime=0),
    "a case that is none": DATA.replace(b'"cases":[', b'"cases":[null,'),
}


def refusal(s3: Any, folder: Path, stored: bytes, announced: str) -> str:
    """Return why `stored` is refused, without the address; S3 and file must give one reason."""
    s3.put_object(Bucket=BUCKET, Key=KEY, Body=stored)
    (folder / "spec.json").write_bytes(stored)
    words = set()
    for address in (ADDRESS, str(folder / "spec.json")):
        with pytest.raises(UserInputError) as refused:
            read(address, announced)
        assert str(refused.value).startswith(f"{address}: ")
        words.add(str(refused.value).removeprefix(address))
    (reason,) = words
    assert len(reason) < 500
    return reason


def test_bytes_with_another_hash_are_refused(s3: Any, tmp_path: Path) -> None:
    for data in CHANGED.values():
        reason = refusal(s3, tmp_path, data, sha256(DATA))
        assert "given bytes with the SHA-256" in reason
        assert f"allowed: {sha256(DATA)}" in reason


def test_what_is_no_run_specification_is_refused(s3: Any, tmp_path: Path) -> None:
    for name, data in HOSTILE.items():
        assert "not a run specification" in refusal(s3, tmp_path, data, sha256(data)), name


def test_reading_stops_at_the_largest_specification(
    s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_specification.LIMIT_BYTES > 100_000_000
    monkeypatch.setattr(read_specification, "LIMIT_BYTES", len(DATA))
    s3.put_object(Bucket=BUCKET, Key=KEY, Body=DATA)
    assert read()
    s3.put_object(Bucket=BUCKET, Key=KEY, Body=DATA + b" ")
    (tmp_path / "spec.json").write_bytes(DATA + b" ")
    for address in (ADDRESS, str(tmp_path / "spec.json"), "/dev/zero"):
        with pytest.raises(UserInputError, match=f"more than {len(DATA):,} bytes"):
            read(address)


UNREADABLE: dict[str, type[DraftworthError]] = {
    f"s3://{BUCKET}/nothing": SinkError,
    "s3://nowhere/nothing": SinkError,
    f"s3://{BUCKET}": SinkError,
    "s3:///nothing": UserInputError,
    "https://example.com/spec.json": UserInputError,
    "no/such/file.json": UserInputError,
    ".": UserInputError,
}


def test_an_unreadable_specification_is_named_by_address(s3: Any) -> None:
    """S3 or the role may be usable later, so another pod tries again."""
    for address, error in UNREADABLE.items():
        with pytest.raises(error, match=re.escape(address)):
            read(address)


def test_the_image_measures_what_lies_in_the_bucket(s3: Any, program: Program) -> None:
    with stream_server(healthy) as server:
        data = dump_record(spec_for(server.base_url))
        s3.put_object(Bucket=BUCKET, Key=KEY, Body=data)
        code, log = program(
            "", "--run-spec", ADDRESS, "--run-spec-sha256", sha256(data), **IN_A_JOB
        )
    assert code == run_specification.EXIT_COMPLETE, log


def test_a_changed_specification_fails_the_job_with_reason(
    s3: Any, program: Program, tmp_path: Path
) -> None:
    s3.put_object(Bucket=BUCKET, Key=KEY, Body=DATA)
    code, log = program("", "--run-spec", ADDRESS, "--run-spec-sha256", OTHER_HASH, **IN_A_JOB)
    assert code == run_specification.EXIT_WRONG_INPUT, log
    assert "Traceback" not in log
    run = result_of_the_job(tmp_path)
    assert (run.status, OTHER_HASH in run.reason) == ("failed", True)


def test_a_failed_s3_read_is_left_to_retries(s3: Any, program: Program, tmp_path: Path) -> None:
    code, log = program("", "--run-spec", "s3://nowhere/nothing", **IN_A_JOB, **ONE_TRY)
    assert code == run_specification.EXIT_NOT_RECORDED, log
    assert "Traceback" not in log
    assert not (tmp_path / "out").exists()
