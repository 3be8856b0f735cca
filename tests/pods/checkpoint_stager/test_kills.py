"""The stager is killed between any two steps, and the next one finishes its work.

A step is a request to S3 or to the hub before it is sent, and one that made an object after it was
answered. From the kill on nothing more reaches either of them, no clean-up either, as after
SIGKILL. A process that really gets that signal is in `test_program`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import boto3
import httpx2
import pytest
from huggingface_hub import set_client_factory
from huggingface_hub.utils import _http as hub_http

from tests.pods.checkpoint_stager.conftest import SERVED, Bench, model_files

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

pytestmark = pytest.mark.emulator


class KilledError(Exception):
    """The process is gone."""


@dataclass
class Life:
    """A process that is killed at its n-th step (never: None)."""

    killed_at: int | None
    steps: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def step(self, *_: Any, **__: Any) -> None:
        with self.lock:
            self.steps += 1
            if self.killed_at is not None and self.steps >= self.killed_at:
                raise KilledError

    def s3(self) -> S3Client:
        client = boto3.client("s3", region_name="us-east-1")
        client.meta.events.register("before-call.s3", self.step)
        for call in ("PutObject", "CompleteMultipartUpload"):
            client.meta.events.register(f"after-call.s3.{call}", self.step)
        return client

    def hub_session(self) -> httpx2.Client:
        hooks = {"request": [self.step]}
        return httpx2.Client(event_hooks=hooks, follow_redirects=True, timeout=10, verify=False)


@pytest.fixture(autouse=True)
def _own_hub_session() -> Iterator[None]:
    yield
    set_client_factory(hub_http.default_client_factory)


def live(bench: Bench, killed_at: int | None, *, parallel_files: int = 1) -> Life:
    """One stager from its start to its end, or to its kill."""
    life = Life(killed_at)
    set_client_factory(life.hub_session)
    staging = bench.staging(s3=life.s3(), parallel_files=parallel_files, scratch_bytes=2**26)
    if killed_at is None:
        staging.run()
    else:
        with pytest.raises(KilledError):
            staging.run()
    return life


def whole(bench: Bench) -> set[str]:
    """Files that are in the bucket as they are at the hub."""
    objects, files = bench.objects(), model_files()
    return {name for name in SERVED if objects.get(name) == files[name]}


def what_is_wrong_after_a_kill(bench: Bench) -> list[str]:
    objects, files = bench.objects(), model_files()
    halves = [n for n in SERVED if n in objects and objects[n] != files[n]]
    lie = ["READY before it is"] if "_READY.json" in objects and whole(bench) != {*SERVED} else []
    return [*halves, *lie]


def fresh_bucket(bench: Bench, name: str) -> None:
    bench.bucket = name
    bench.s3.create_bucket(Bucket=name)


def resume(bench: Bench, *, parallel_files: int = 1) -> list[str]:
    """Another stager; what it did that it should not have done."""
    there = whole(bench)
    bench.hub.asked.clear()
    live(bench, None, parallel_files=parallel_files)
    again = [name for name in there if bench.hub.downloads(name)]
    missing = {*SERVED} - whole(bench)
    return [*again, *missing, *([] if bench.ready() else ["not READY"])]


def test_a_kill_at_any_step_is_made_good_by_the_next_stager(bench: Bench) -> None:
    steps = live(bench, None).steps
    assert steps > 30, "the steps of fewer requests than it takes: the test would prove little"
    wrong = {}
    for step in range(1, steps + 1):
        fresh_bucket(bench, f"killed-at-{step}")
        live(bench, step)
        found = what_is_wrong_after_a_kill(bench) + resume(bench)
        if found:
            wrong[step] = found
    assert wrong == {}


def test_kills_of_files_in_parallel_are_made_good(bench: Bench) -> None:
    steps = live(bench, None, parallel_files=4).steps
    for step in range(3, steps, 5):
        fresh_bucket(bench, f"killed-at-{step}")
        live(bench, step, parallel_files=4)
        found = what_is_wrong_after_a_kill(bench) + resume(bench, parallel_files=4)
        assert found == [], f"killed at step {step}"


def test_a_stager_that_is_killed_again_and_again_gets_there(bench: Bench) -> None:
    """Each life is long enough for one file more."""
    fresh_bucket(bench, "killed-often")
    lives = 0
    while bench.ready() is None and lives < 20:
        lives += 1
        life = Life(15 + 3 * lives)
        set_client_factory(life.hub_session)
        staging = bench.staging(s3=life.s3())
        try:
            staging.run()
        except KilledError:
            assert what_is_wrong_after_a_kill(bench) == []
    assert 1 < lives < 20
    assert what_is_wrong_after_a_kill(bench) == []


def test_ready_before_its_files_would_be_noticed(bench: Bench) -> None:
    live(bench, None)
    bench.put("config.json", b"half")
    assert what_is_wrong_after_a_kill(bench) == ["config.json", "READY before it is"]
