"""An emulated S3 with the buckets."""

from __future__ import annotations

from typing import Any

import boto3
import pytest

from tests.pods.compiled_graphs.pods import make_buckets
from tests.support.emulator import emulated_account


@pytest.fixture
def endpoint() -> str:
    return emulated_account()


@pytest.fixture
def s3(endpoint: str) -> Any:
    client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-2")
    make_buckets(client)
    return client
