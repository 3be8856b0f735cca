"""The stager is killed between any two requests to S3, and the next one finishes its work.

The bucket changes only by these requests, so all moments of a kill are covered. As after SIGKILL, a
killed stager sends no further request, not even to clean up. `test_program` kills a real process.
"""

import threading
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.pods.checkpoint_stager.conftest import COMMIT, MODEL, Bench, model_files

pytestmark = pytest.mark.emulator
# Few files, of which one is uploaded in parts.
FILES = {
    name: model_files()[name]
    for name in ("config.json", "model-00001-of-00002.safetensors", "tokenizer.json")
}


class KilledError(Exception):
    """Stands for a process that dies: no code may catch this."""


@dataclass
class Stager:
    """Kills a stager before its request number `killed_at`; None: it is not killed."""

    killed_at: int | None
    requests: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, **_: Any) -> None:
        with self.lock:
            self.requests += 1
            if self.killed_at is not None and self.requests >= self.killed_at:
                raise KilledError


def run_stager(bench: Bench, killed_at: int | None, *, parallel_files: int = 1) -> int:
    """Run one stager to its end or its kill; return its number of requests."""
    stager = Stager(killed_at)
    killed = nullcontext() if killed_at is None else pytest.raises(KilledError)
    bench.hub.repos[MODEL].commits[COMMIT] = FILES
    bench.s3.meta.events.register("before-call.s3", stager.count)
    with killed:
        bench.staging(parallel_files=parallel_files).run()
    bench.s3.meta.events.unregister("before-call.s3", stager.count)
    return stager.requests


def whole(objects: dict[str, bytes]) -> set[str]:
    """Return the names of the files that the bucket has with the right content."""
    return {name for name in FILES if objects.get(name) == FILES[name]}


def what_is_wrong_after_a_kill(objects: dict[str, bytes]) -> list[str]:
    there = whole(objects)
    halves = [name for name in FILES if name in objects and name not in there]
    early = ["READY before it is"] if "_READY.json" in objects and there != {*FILES} else []
    return [*halves, *early]


def kill_and_resume(bench: Bench, number: int, *, parallel_files: int = 1) -> list[str]:
    """Kill a stager and run another; return what is wrong after each of them."""
    bench.bucket = f"killed-at-{number}"
    bench.s3.create_bucket(Bucket=bench.bucket)
    run_stager(bench, number, parallel_files=parallel_files)
    killed = bench.objects()
    bench.hub.requests.clear()
    run_stager(bench, None, parallel_files=parallel_files)
    objects = bench.objects()
    again = [name for name in whole(killed) if bench.hub.downloads(name)]
    missing = {*FILES} - whole(objects)
    unready = [] if "_READY.json" in objects else ["not READY"]
    return [*what_is_wrong_after_a_kill(killed), *again, *missing, *unready]


def test_a_later_stager_repairs_any_kill(bench: Bench) -> None:
    requests = run_stager(bench, None)
    assert requests > 12, "fewer than it takes: the test would prove little"
    damage = {number: kill_and_resume(bench, number) for number in range(1, requests + 1)}
    assert {number: wrong for number, wrong in damage.items() if wrong} == {}


@pytest.mark.parametrize("number", [5, 8, 11])
def test_kills_of_files_in_parallel_are_made_good(bench: Bench, number: int) -> None:
    assert kill_and_resume(bench, number, parallel_files=3) == []


def test_ready_before_its_files_would_be_noticed() -> None:
    objects = {**FILES, "_READY.json": b"{}"}
    assert what_is_wrong_after_a_kill(objects) == []
    objects["config.json"] = b"half"
    assert what_is_wrong_after_a_kill(objects) == ["config.json", "READY before it is"]
