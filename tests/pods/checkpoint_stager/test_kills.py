"""The stager is killed between any two steps, and the next one finishes its work.

A step is a request to S3 or to the hub before it is sent, and one that made an object after it was
answered. From the kill on nothing more reaches either of them, no clean-up either, as after
SIGKILL. A process that really gets that signal is in `test_program`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

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
class Stager:
    """A process that is killed at its n-th step (never: None)."""

    killed_at: int | None
    steps: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def step(self, *_: Any, **__: Any) -> None:
        with self.lock:
            self.steps += 1
            if self.killed_at is not None and self.steps >= self.killed_at:
                raise KilledError

    @contextmanager
    def counting(self, s3: S3Client) -> Iterator[None]:
        """Requests of the client are steps of this process."""
        calls = (
            "before-call.s3",
            "after-call.s3.PutObject",
            "after-call.s3.CompleteMultipartUpload",
        )
        for call in calls:
            s3.meta.events.register(call, self.step)
        try:
            yield
        finally:
            for call in calls:
                s3.meta.events.unregister(call, self.step)

    def hub_session(self) -> httpx2.Client:
        hooks = {"request": [self.step]}
        return httpx2.Client(event_hooks=hooks, follow_redirects=True, timeout=10, verify=False)


@pytest.fixture(autouse=True)
def _own_hub_session() -> Iterator[None]:
    yield
    set_client_factory(hub_http.default_client_factory)


def run_stager(bench: Bench, killed_at: int | None, *, parallel_files: int = 1) -> Stager:
    """One stager from its start to its end, or to its kill."""
    stager = Stager(killed_at)
    set_client_factory(stager.hub_session)
    staging = bench.staging(parallel_files=parallel_files, scratch_bytes=2**26)
    killed = nullcontext() if killed_at is None else pytest.raises(KilledError)
    with stager.counting(bench.s3), killed:
        staging.run()
    return stager


def whole(objects: dict[str, bytes]) -> set[str]:
    """Files that are in the bucket as they are at the hub."""
    files = model_files()
    return {name for name in SERVED if objects.get(name) == files[name]}


def what_is_wrong_after_a_kill(objects: dict[str, bytes]) -> list[str]:
    there = whole(objects)
    halves = [name for name in SERVED if name in objects and name not in there]
    early = ["READY before it is"] if "_READY.json" in objects and there != {*SERVED} else []
    return [*halves, *early]


def fresh_bucket(bench: Bench, name: str) -> None:
    bench.bucket = name
    bench.s3.create_bucket(Bucket=name)


def kill_and_resume(bench: Bench, step: int, *, parallel_files: int = 1) -> list[str]:
    """A stager that is killed and another one; what is wrong after the one and after the other."""
    fresh_bucket(bench, f"killed-at-{step}")
    run_stager(bench, step, parallel_files=parallel_files)
    killed = bench.objects()
    bench.hub.asked.clear()
    run_stager(bench, None, parallel_files=parallel_files)
    objects = bench.objects()
    again = [name for name in whole(killed) if bench.hub.downloads(name)]
    missing = {*SERVED} - whole(objects)
    unready = [] if "_READY.json" in objects else ["not READY"]
    return [*what_is_wrong_after_a_kill(killed), *again, *missing, *unready]


def test_a_kill_at_any_step_is_made_good_by_the_next_stager(bench: Bench) -> None:
    steps = run_stager(bench, None).steps
    assert steps > 30, "the steps of fewer requests than it takes: the test would prove little"
    found = {step: kill_and_resume(bench, step) for step in range(1, steps + 1)}
    assert {step: wrong for step, wrong in found.items() if wrong} == {}


def test_kills_of_files_in_parallel_are_made_good(bench: Bench) -> None:
    steps = run_stager(bench, None, parallel_files=4).steps
    for step in range(3, steps, 5):
        assert kill_and_resume(bench, step, parallel_files=4) == [], f"killed at step {step}"


def test_a_stager_that_is_killed_again_and_again_gets_there(bench: Bench) -> None:
    """Each is killed late enough for one file more."""
    fresh_bucket(bench, "killed-often")
    stagers = 0
    while bench.ready() is None and stagers < 20:
        stagers += 1
        stager = Stager(15 + 3 * stagers)
        set_client_factory(stager.hub_session)
        with stager.counting(bench.s3), suppress(KilledError):
            bench.staging().run()
        if bench.ready() is None:
            assert what_is_wrong_after_a_kill(bench.objects()) == []
    assert 1 < stagers < 20
    assert what_is_wrong_after_a_kill(bench.objects()) == []


def test_ready_before_its_files_would_be_noticed(bench: Bench) -> None:
    run_stager(bench, None)
    bench.put("config.json", b"half")
    assert what_is_wrong_after_a_kill(bench.objects()) == ["config.json", "READY before it is"]
