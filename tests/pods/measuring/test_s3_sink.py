"""Result files are written to S3: real boto3 calls against an emulated S3."""

from typing import Any

import boto3
import pytest

from draftworth.errors import UserInputError
from draftworth.measuring.result_files import SinkError
from draftworth.records.results import RESULT_LIMIT_BYTES
from draftworth.records.run_folder import parse_s3_url
from pods.measuring.s3_sink import S3Sink

pytestmark = pytest.mark.emulator


@pytest.fixture
def sink(s3: Any) -> S3Sink:
    return S3Sink(s3, bucket="results", prefix="/runs/")


def test_a_file_is_never_overwritten(sink: S3Sink) -> None:
    sink.write("r1/run.json", b"first")
    # As if the answer to a PUT was lost: the second PUT finds the object of the first.
    sink.write("r1/run.json", b"first")

    with pytest.raises(SinkError, match="PreconditionFailed"):
        sink.write("r1/run.json", b"second")

    stored = boto3.client("s3").get_object(Bucket="results", Key="runs/r1/run.json")
    assert stored["Body"].read() == b"first"


@pytest.mark.parametrize("prefix", ["/runs/", ""])
def test_a_run_is_read_back_by_its_names(s3: Any, prefix: str) -> None:
    sink = S3Sink(s3, bucket="results", prefix=prefix)
    files = [f"r1/blocks/{index:04d}.json" for index in range(3)]
    for name in [*files, "r10/run.json"]:
        sink.write(name, name.encode())

    assert sink.names("r1") == files
    assert sink.read(files[1]) == files[1].encode()
    assert sink.names("nothing") == []


def test_failed_reads_and_writes_name_the_address(sink: S3Sink) -> None:
    with pytest.raises(SinkError, match=r"s3://results/runs/a: cannot be read.*NoSuchKey"):
        sink.read("a")
    missing = S3Sink(boto3.client("s3"), bucket="nowhere", prefix="runs")
    with pytest.raises(SinkError, match=r"s3://nowhere/runs/r1/: cannot be listed.*NoSuchBucket"):
        missing.names("r1")
    with pytest.raises(SinkError, match=r"s3://nowhere/runs/a.*NoSuchBucket"):
        missing.write("a", b"")


def test_s3_addresses() -> None:
    assert parse_s3_url("s3://bucket/some/runs") == ("bucket", "some/runs")
    for wrong in ("bucket/runs", "s3://", "s3:///runs"):
        with pytest.raises(UserInputError, match="allowed: s3://BUCKET/PREFIX"):
            parse_s3_url(wrong)


def test_an_object_larger_than_results_is_not_read(sink: S3Sink) -> None:
    sink.write("r1/run.json", bytes(RESULT_LIMIT_BYTES + 1))
    with pytest.raises(SinkError, match=r"runs/r1/run\.json: cannot be read: more than 11,796,480"):
        sink.read("r1/run.json")
