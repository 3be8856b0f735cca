"""Fixtures for staging: a local Hugging Face hub, a bucket and a model."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
import pytest
from boto3.s3.transfer import TransferConfig
from huggingface_hub import HfApi, constants
from moto import mock_aws
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends

from draftworth.records.checkpoints import ReadyModel
from draftworth.records.codec import load_record
from pods.checkpoint_stager.checkpoints_bucket import Store
from pods.checkpoint_stager.hub import Hub
from pods.checkpoint_stager.stager import ScratchSpace, Staging
from tests.support.emulator import small_parts
from tests.support.local_hub import LocalHub, Repo, local_hub

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

MODEL = "acme/tiny"
REVISION = "main"
COMMIT = "a" * 40
NEWER_COMMIT = "b" * 40
BUCKET = "checkpoints"
PART_BYTES = 2**17
TRANSFER = TransferConfig(
    multipart_threshold=PART_BYTES, multipart_chunksize=PART_BYTES, use_threads=False
)


def tokenizer_json(*tokens: str) -> bytes:
    vocabulary = {token: number for number, token in enumerate(tokens)}
    return json.dumps({"model": {"type": "BPE", "vocab": vocabulary}, "added_tokens": []}).encode()


@cache
def weights(size_bytes: int, seed: int) -> bytes:
    return random.Random(seed).randbytes(size_bytes)


def model_files() -> dict[str, bytes]:
    """Return files that serving needs, one of them larger than an upload part, and other files."""
    return {
        ".gitattributes": b"*.safetensors filter=lfs",
        "config.json": b'{"architectures": ["Qwen3ForCausalLM"]}',
        "model-00001-of-00002.safetensors": weights(PART_BYTES + 1000, 1),
        "model-00002-of-00002.safetensors": weights(2000, 2),
        "original/model.safetensors": weights(3000, 3),
        "pytorch_model.bin": weights(3000, 4),
        "tokenizer.json": tokenizer_json("a", "b", "c"),
    }


SERVED = (
    "config.json",
    "model-00001-of-00002.safetensors",
    "model-00002-of-00002.safetensors",
    "tokenizer.json",
)


@pytest.fixture(autouse=True)
def _hub_client_as_in_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", True)


@pytest.fixture
def hub() -> Iterator[LocalHub]:
    repo = Repo(commits={COMMIT: model_files()}, refs={REVISION: COMMIT})
    with local_hub({MODEL: repo}) as running:
        yield running


@pytest.fixture
def s3() -> Iterator[S3Client]:
    with mock_aws(), small_parts():
        client = _client()
        client.create_bucket(Bucket=BUCKET)
        yield client


@cache
def _client() -> S3Client:
    return boto3.client("s3", region_name="us-east-1")


@dataclass
class Bench:
    """One bucket and one hub. `staging` makes a new stager at each call, as each pod does."""

    hub: LocalHub
    s3: S3Client
    scratch: Path
    log: list[str]
    bucket: str = BUCKET

    def hub_client(self, token: str | None = None) -> Hub:
        return Hub(
            HfApi(endpoint=self.hub.url, token=token or False),
            MODEL,
            token_source="secret hub-token" if token else "",
        )

    def store(self) -> Store:
        return Store(
            client=self.s3, bucket=self.bucket, model=MODEL, revision=REVISION, transfer=TRANSFER
        )

    def staging(self, *, parallel_files: int = 1, scratch_bytes: int = 2 * PART_BYTES) -> Staging:
        return Staging(
            open_hub=self.hub_client,
            store=self.store(),
            scratch=ScratchSpace(self.scratch, scratch_bytes),
            parallel_files=parallel_files,
            progress=self.log.append,
        )

    def objects(self) -> dict[str, bytes]:
        """Return the objects in the model's folder of the bucket, by path."""
        prefix = f"{MODEL}/{REVISION}/"
        stored = s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets[self.bucket].keys
        return {key.removeprefix(prefix): item.value for key, item in stored.items()}

    def ready(self) -> ReadyModel | None:
        data = self.objects().get("_READY.json")
        return load_record(ReadyModel, data) if data is not None else None

    def put(self, name: str, data: bytes) -> None:
        self.s3.put_object(Bucket=self.bucket, Key=f"{MODEL}/{REVISION}/{name}", Body=data)


@pytest.fixture
def bench(hub: LocalHub, s3: S3Client, tmp_path: Path) -> Bench:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    return Bench(hub=hub, s3=s3, scratch=scratch, log=[])
