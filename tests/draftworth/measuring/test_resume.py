"""A run that is interrupted anywhere and continued gives what an uninterrupted one gives.

The figures come from a fake engine, as a function of the request. So two runs measure the same
figures, and must make the same decisions.
"""

import asyncio
import errno
import itertools
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from draftworth.measuring.clock import WallClock, unix_clock
from draftworth.measuring.journal import (
    UNRECORDED_END,
    Journal,
)
from draftworth.measuring.result_files import FolderSink, Sink, SinkError, StorageFullError
from draftworth.measuring.run_specification import RunSpec
from draftworth.measuring.runner import TERMINATED, Runner
from draftworth.records import results
from draftworth.records.codec import dump_record
from draftworth.records.findings import VERDICT_FILE
from draftworth.records.load_shapes import ConcurrencyLoad
from draftworth.records.run_folder import Run, read_run
from draftworth.safe_writing import write_file
from tests.draftworth.measuring.fake_engine import (
    RUN_ID,
    SPREAD,
    FakeEngine,
    KilledError,
    history,
    run_pod,
    terminate,
)
from tests.support.runners import make_runner
from tests.support.specifications import case, endpoint, sampling, specification
from tests.support.stream_server import StreamServer, plain, stream_server

# There are more prompts than requests per round, so each round sends other prompts.
REQUESTS, PROMPTS, MAX_ROUNDS = 4, 12, 4
LADDER = tuple(ConcurrencyLoad(concurrency=n) for n in (2, 4))
ONE = LADDER[:1]


LLMPERF_SUFFIXES = (results.LLMPERF_RESPONSES_SUFFIX, results.LLMPERF_SUMMARY_SUFFIX)


def spec(url: str, **overrides: Any) -> RunSpec:
    fields: dict[str, Any] = {
        "cases": tuple(case(name, prompts=PROMPTS) for name in SPREAD),
        "loads": ONE,
        "sampling": sampling(
            min_requests=REQUESTS, max_requests=REQUESTS * MAX_ROUNDS, warmup_requests=1
        ),
        "class_weights": dict.fromkeys(SPREAD, 0.5),
    }
    endpoints = tuple(endpoint(name, 0, base_url=f"{url}/{name}/..") for name in ("baseline", "k7"))
    return specification(endpoints, **{**fields, **overrides})


class DyingSink:
    """Writes files, and kills its process after write number `at`: nothing is written later."""

    def __init__(self, folder: Path, *, at: int) -> None:
        self._inner = FolderSink(folder)
        self._left = at
        self.last = ""

    def write(self, name: str, data: bytes) -> None:
        if self._left:
            self._left -= 1
            self._inner.write(name, data)
            self.last = name
        if not self._left:
            raise KilledError

    def kill(self) -> None:
        """Kill the process now, whatever it has written."""
        self._left = 0
        raise KilledError


def runner(
    url: str,
    folder: Path,
    *,
    sink: Sink | None = None,
    engine: FakeEngine | None = None,
    deadline_seconds: Callable[[], float | None] = lambda: None,
    wall_clock: WallClock = unix_clock,
    **shape: Any,
) -> Runner:
    return make_runner(
        spec(url, **shape),
        sink or FolderSink(folder),
        run_id=RUN_ID,
        history=history(folder),
        engine=engine or FakeEngine(),
        deadline_seconds=deadline_seconds,
        wall_clock=wall_clock,
        deadline_poll_seconds=0.05,
    )


def measured_blocks(run: Run) -> list[tuple[str, int, str, str]]:
    blocks = {block.stem: block for block in run.blocks}
    return [_what(blocks[stem]) for stem in run.result.blocks]


def _what(block: results.BlockResult) -> tuple[str, int, str, str]:
    return block.load.label, block.round, block.prompt_class, block.variant


@pytest.fixture(scope="module")
def uninterrupted(healthy: StreamServer, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("uninterrupted")
    assert run_pod(runner(healthy.base_url, folder))
    return read_run(folder / RUN_ID)


def assert_as_uninterrupted(folder: Path, uninterrupted: Run) -> Run:
    run = read_run(folder / RUN_ID)
    assert run.result.status == "complete"
    assert measured_blocks(run) == measured_blocks(uninterrupted)
    # No block is listed twice in `run.json`, and none was measured twice.
    assert sorted(b.stem for b in run.blocks) == sorted(run.result.blocks)
    assert len({_what(b) for b in run.blocks}) == len(run.blocks)
    numbers = [b.block for b in run.blocks]
    assert numbers == sorted(set(numbers))
    ids = [r.request_id for b in run.blocks for r in b.requests]
    assert len(ids) == len(set(ids))
    account = run.result.time
    total_s = run.result.ended_at_unix_s - run.result.started_at_unix_s
    together_s = account.measuring_s + account.waiting_s + account.lost_s + account.idle_s
    assert together_s == pytest.approx(total_s, abs=0.05)
    return run


def test_the_design_stops_only_one_class_early(uninterrupted: Run) -> None:
    """So decisions of the run depend on its figures; without this, the other tests prove little."""
    last = {
        name: max(b.round for b in uninterrupted.blocks if b.prompt_class == name)
        for name in SPREAD
    }
    assert last == {"structured": 3, "open_ended": MAX_ROUNDS}
    assert uninterrupted.result.interruptions == ()


def test_a_run_killed_at_any_write_continues_unchanged(
    healthy: StreamServer, uninterrupted: Run, tmp_path: Path
) -> None:
    """It is killed at every seventh write, in a new run each time.

    A block takes five writes, so each kind of file is the last one of some killed pod, and so is
    the verdict.
    """
    for at in itertools.count(5, 7):
        folder = tmp_path / str(at)
        sink = DyingSink(folder, at=at)
        if run_pod(runner(healthy.base_url, folder, sink=sink)):
            break  # the run has fewer writes than `at`
        assert history(folder).result is None
        assert run_pod(runner(healthy.base_url, folder))
        assert_as_uninterrupted(folder, uninterrupted)
        last = sink.last
    assert at > len(uninterrupted.blocks) * 5
    assert last.endswith(VERDICT_FILE)


def test_short_lived_pods_complete_a_run_together(healthy: StreamServer, tmp_path: Path) -> None:
    """Each pod is killed after it wrote a block's transcript, before it writes the result file."""
    assert run_pod(runner(healthy.base_url, tmp_path / "whole", loads=LADDER))
    whole, folder, pods = read_run(tmp_path / "whole" / RUN_ID), tmp_path / "cut", 0
    while history(folder).result is None:
        run_pod(runner(healthy.base_url, folder, sink=DyingSink(folder, at=8), loads=LADDER))
        pods += 1
    run = assert_as_uninterrupted(folder, whole)

    assert pods >= len(whole.blocks)
    assert [i.kind for i in run.result.interruptions] == ["load generator"] * (pods - 1)
    assert {i.reason for i in run.result.interruptions} == {UNRECORDED_END}


def test_a_run_that_ends_within_any_block_continues(
    healthy: StreamServer, uninterrupted: Run, tmp_path: Path
) -> None:
    """A pod ends within every third block, in turn terminated (SIGTERM) and killed (SIGKILL)."""
    for at in range(1, len(uninterrupted.blocks) + 1, 3):
        is_killed = at % 2 == 0
        folder = tmp_path / str(at)
        sink = DyingSink(folder, at=10_000)
        engine = FakeEngine(sink.kill if is_killed else terminate, at=at)
        assert run_pod(runner(healthy.base_url, folder, sink=sink, engine=engine)) is None
        assert not (folder / RUN_ID / results.RUN_FILE).exists()
        second = FakeEngine()
        assert run_pod(runner(healthy.base_url, folder, engine=second))
        run = assert_as_uninterrupted(folder, uninterrupted)
        # The second pod measures every block that the first one has not, and no other.
        assert second.calls == len(uninterrupted.blocks) - (at - 1)
        # No file of the interrupted block was written, so even the blocks' numbers are the same.
        assert run.result.blocks == uninterrupted.result.blocks
        (interruption,) = run.result.interruptions
        assert interruption.reason == (UNRECORDED_END if is_killed else TERMINATED)


def test_the_next_pod_writes_a_blocks_derived_files(healthy: StreamServer, tmp_path: Path) -> None:
    sink = DyingSink(tmp_path, at=4)  # killed after the first block's result file
    assert run_pod(runner(healthy.base_url, tmp_path, sink=sink)) is None
    stem = tmp_path / RUN_ID / "blocks" / "0001-structured-case-c2-baseline-r1"
    derived = [stem.with_name(stem.name + end) for end in LLMPERF_SUFFIXES]
    assert not any(file.exists() for file in derived)

    run_pod(runner(healthy.base_url, tmp_path))

    assert all(file.exists() for file in derived)


def test_variants_loaded_together_are_loaded_together_again(
    healthy: StreamServer, tmp_path: Path
) -> None:
    """If only one of two blocks sent at the same time was written, both are sent again.

    So the other one is measured under the same load of the machine.
    """
    sink = DyingSink(tmp_path, at=6)  # killed after all four files of the first variant's block
    assert run_pod(runner(healthy.base_url, tmp_path, sink=sink, parallel=True)) is None
    assert [b.variant for b in history(tmp_path).blocks] == ["baseline"]

    engine = FakeEngine()
    assert run_pod(runner(healthy.base_url, tmp_path, engine=engine, parallel=True))
    run = read_run(tmp_path / RUN_ID)

    assert engine.calls == len(run.blocks)
    assert len({_what(b) for b in run.blocks}) == len(run.blocks)
    assert run.blocks[0].requests == history(tmp_path).blocks[0].requests


def test_a_terminated_pod_finishes_the_files_of_blocks(
    healthy: StreamServer, tmp_path: Path
) -> None:
    class SlowSink(FolderSink):
        def write(self, name: str, data: bytes) -> None:
            if "/blocks/" in name:
                uploading.set()
                time.sleep(0.05)
            super().write(name, data)

    uploading = threading.Event()
    made = runner(healthy.base_url, tmp_path, sink=SlowSink(tmp_path))

    async def end_during_the_upload() -> None:
        running = asyncio.ensure_future(made.run())
        await asyncio.to_thread(uploading.wait)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(end_during_the_upload())

    assert len(list((tmp_path / RUN_ID / "blocks").iterdir())) == 4
    assert not (tmp_path / RUN_ID / results.RUN_FILE).exists()
    assert len(history(tmp_path).blocks) == 1


def test_only_the_first_wait_is_below_the_deadline(tmp_path: Path) -> None:
    """After the first wait, a run may wait for servers until its deadline.

    The first wait itself: `test_first_wait.py`.
    """
    journal = Journal(
        entries=[],
        attempt=1,
        clock=time.time,
        write=lambda entry: FolderSink(tmp_path).write(
            f"{RUN_ID}/{entry.name}", dump_record(entry)
        ),
    )
    journal.note("started")
    journal.note("lost", blocks=("0001-a",), reason="gone")
    with stream_server(lambda _: plain("503 Service Unavailable", b"")) as loading:
        made = runner(
            loading.base_url,
            tmp_path,
            deadline_seconds=lambda: 1.0,
            start_allowance_seconds=0.3,
        )
        result = run_pod(made)

    assert result
    assert "deadline" in result.reason


def test_a_run_that_cannot_be_recorded_measures_nothing(
    healthy: StreamServer, tmp_path: Path
) -> None:
    class FullSink(FolderSink):
        def write(self, name: str, data: bytes) -> None:
            raise SinkError("no space")

    engine = FakeEngine()
    made = runner(healthy.base_url, tmp_path, sink=FullSink(tmp_path), engine=engine)
    with pytest.raises(SinkError, match="no space"):
        asyncio.run(made.run())
    assert engine.calls == 0


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG])
def test_full_storage_ends_measuring_and_leaves_run_open(
    healthy: StreamServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """The twelfth write, at which the storage becomes full, is of the second block."""
    writes = itertools.count(1)

    def filling(*arguments: Any, **named: Any) -> Path:
        if next(writes) >= 12:
            raise OSError(number, os.strerror(number))
        return write_file(*arguments, **named)

    engine = FakeEngine()
    monkeypatch.setattr("draftworth.measuring.result_files.write_file", filling)
    with pytest.raises(StorageFullError, match=os.strerror(number)):
        run_pod(runner(healthy.base_url, tmp_path, engine=engine))
    assert engine.calls == 2
    assert next(writes) == 13  # no failed write was tried again

    monkeypatch.undo()
    assert run_pod(runner(healthy.base_url, tmp_path))
    assert read_run(tmp_path / RUN_ID).result.status == "complete"


def test_a_folder_turned_link_leaves_the_run_open(healthy: StreamServer, tmp_path: Path) -> None:
    blocks, elsewhere = tmp_path / RUN_ID / "blocks", tmp_path / "elsewhere"

    async def linking() -> None:
        blocks.rename(elsewhere)
        blocks.symlink_to(elsewhere)

    engine = FakeEngine(linking, at=2)
    with pytest.raises(StorageFullError, match="is a link, allowed: a folder; next: remove the"):
        run_pod(runner(healthy.base_url, tmp_path, engine=engine))
    assert engine.calls == 2

    blocks.unlink()
    elsewhere.rename(blocks)
    assert run_pod(runner(healthy.base_url, tmp_path))
    assert read_run(tmp_path / RUN_ID).result.status == "complete"


def test_full_storage_fails_a_run_nobody_continues(healthy: StreamServer, tmp_path: Path) -> None:
    class FullSink(FolderSink):
        def write(self, name: str, data: bytes) -> None:
            if "/blocks/" in name:
                raise StorageFullError("no space")
            super().write(name, data)

    engine = FakeEngine()
    made = make_runner(spec(healthy.base_url), FullSink(tmp_path), run_id=RUN_ID, engine=engine)
    result = asyncio.run(made.run())
    assert engine.calls == 1
    assert (result.status, result.reason) == ("failed", "no space")


def test_the_deadline_counts_from_the_first_pod(healthy: StreamServer, tmp_path: Path) -> None:
    assert run_pod(runner(healthy.base_url, tmp_path, sink=DyingSink(tmp_path, at=20))) is None
    measured_before = len(history(tmp_path).blocks)
    started = unix_clock()
    late = runner(
        healthy.base_url,
        tmp_path,
        deadline_seconds=lambda: 600.0,
        wall_clock=lambda: started + 601.0,
    )
    result = run_pod(late)

    assert measured_before
    assert result
    assert result.status == "failed"
    assert result.reason.startswith("the deadline, 10 minutes from the run's start, passed")
    assert len(read_run(tmp_path / RUN_ID).blocks) == measured_before


@dataclass(kw_only=True)
class LongBlock:
    """A block that takes two hours by the run's clock.

    The run's deadline is one hour until the block begins, and `later_seconds` from then on.
    """

    later_seconds: float
    passed_seconds: float = 0.0
    is_seen: asyncio.Event = field(default_factory=asyncio.Event)

    def clock(self) -> float:
        return unix_clock() + self.passed_seconds

    def deadline_seconds(self) -> float:
        if not self.passed_seconds:
            return 3600.0
        self.is_seen.set()
        return self.later_seconds

    async def happen(self) -> None:
        self.passed_seconds = 2 * 3600.0
        await self.is_seen.wait()
        await asyncio.sleep(0.01)  # if the deadline has passed, the block is cancelled here


def test_a_deadline_may_move_during_the_run(healthy: StreamServer, tmp_path: Path) -> None:
    def result_with(later_seconds: float, folder: Path) -> results.RunResult | None:
        block = LongBlock(later_seconds=later_seconds)
        made = runner(
            healthy.base_url,
            folder,
            engine=FakeEngine(block.happen, at=1),
            deadline_seconds=block.deadline_seconds,
            wall_clock=block.clock,
        )
        return run_pod(made)

    extended = result_with(3 * 3600.0, tmp_path / "extended")
    kept = result_with(3600.0, tmp_path / "kept")

    assert extended
    assert extended.status == "complete"
    assert kept
    assert kept.status == "failed"
    assert "passed in block 1; 0 blocks are measured" in kept.reason
