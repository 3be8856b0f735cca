"""An emulated S3 with an empty artifacts bucket, over HTTP: the processes are real ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import boto3
import pytest
from moto.moto_api._internal.models import moto_api_backend

from rehearsal.emulator import empty_account
from tests.pods.compiled_graphs.pods import BUCKET, FOLDER_FLAGS, Pod


class PodFactory(Protocol):
    def __call__(self, name: str, flags: tuple[str, ...] = FOLDER_FLAGS) -> Pod: ...


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    with empty_account() as url:
        yield url


@pytest.fixture
def s3(endpoint: str) -> Iterator[Any]:
    moto_api_backend.reset()
    client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-2")
    client.create_bucket(
        Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "us-east-2"}
    )
    yield client
    client.close()


@pytest.fixture
def pod(tmp_path: Path, endpoint: str) -> PodFactory:
    def make(name: str, flags: tuple[str, ...] = FOLDER_FLAGS) -> Pod:
        return Pod(root=tmp_path / name, endpoint=endpoint, flags=flags)

    return make
