"""An emulated S3 with an empty artifacts bucket, over HTTP: the processes are real ones."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import boto3
import pytest

from tests.pods.compiled_graphs.pods import FOLDER_FLAGS, Pod, make_buckets
from tests.support.emulator import emulated_account


class PodFactory(Protocol):
    def __call__(self, name: str, flags: tuple[str, ...] = FOLDER_FLAGS) -> Pod: ...


@pytest.fixture
def endpoint() -> str:
    return emulated_account()


@pytest.fixture
def s3(endpoint: str) -> Iterator[Any]:
    client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-2")
    make_buckets(client)
    yield client
    client.close()


@pytest.fixture
def pod(tmp_path: Path, endpoint: str) -> PodFactory:
    def make(name: str, flags: tuple[str, ...] = FOLDER_FLAGS) -> Pod:
        return Pod(root=tmp_path / name, endpoint=endpoint, flags=flags)

    return make
