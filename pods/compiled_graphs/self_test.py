"""Tests what a server needs on its node, in the server's own container, before the server starts.

Driver, devices, runtime and the mounted checkpoint are tested in that order. If a test fails, the
server does not start, and the measuring run ends (docs/troubleshooting.md has the failures). A
value that cannot be read is left out of the record, and is no failure.

This takes seconds if all is well. The time limits are longer than a driver or a mount may need to
recover: Neuron's driver waits up to 480 seconds for a Trainium2 device that resets, and the S3
client of the mount gives up a dead connection after 30 seconds and reads again.
"""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from draftworth.child_processes import ending_with_parent
from draftworth.records.checkpoints import READY_MARKER, ReadyModel
from draftworth.records.codec import RecordError, load_record
from draftworth.records.servers import LOAD_LIMIT_MINUTES, SelfTest, last_lines
from draftworth.untrusted import MIB, TooLargeError, one_line, open_file, read_file
from pods.compiled_graphs.neuron_runtime import RuntimeState

# How long `nrt_init`, and the reading of a checkpoint's file, may take. A process or a mount that
# hangs in the kernel cannot be ended, so GRACE_SECONDS later the self-test fails without waiting
# for that step. All steps together take at most `SELF_TEST_LIMIT_MINUTES`.
INIT_SECONDS = 500.0
READ_SECONDS = 60.0
MOST_READ_BYTES = 4 * 1024 * MIB
GRACE_SECONDS = 30.0
_PIECE_BYTES = 8 * MIB
# The test reads one file, but a server may read several at once. So a mount is too slow only if
# this many reads, each as fast as the test's, would not load the checkpoint in time.
READS_AT_ONCE = 4
_GIB = 1024 * MIB
_PROGRAMS = str(Path(__file__).parents[2])  # the root of this project, or its zip file


class FailedError(Exception):
    """The server must not start, for the reason that this error says."""


@dataclass(kw_only=True)
class SelfTester:
    """Tests once what the server of one pod needs.

    devices: how many Neuron devices the pod claims. checkpoint: the target model's mount.
    scratch: a folder on the node's disk. root: the folder that has `dev`, `proc` and `sys`.
    say: writes a line to the log.
    """

    devices: int
    checkpoint: Path
    scratch: Path
    root: Path
    say: Callable[[str], None]
    _facts: dict[str, Any] = field(default_factory=dict)

    def run(self) -> SelfTest:
        began, failed = time.monotonic(), ""
        steps = (
            (self._look, 0.0),
            (self._start_runtime, INIT_SECONDS),
            (self._read_checkpoint, READ_SECONDS),
        )
        for step, seconds in steps:
            try:
                _within(seconds + GRACE_SECONDS, step)
            except FailedError as error:
                failed = one_line(str(error))
                break
            except Exception as error:  # noqa: BLE001 (an unknown value is no failure)
                self.say(f"self-test: something is not known: {type(error).__name__}: {error}")
        test = SelfTest(**self._facts, seconds=time.monotonic() - began, failed=failed)
        for line in lines_of(test):
            self.say(f"self-test: {line}")
        return test

    def _look(self) -> None:
        with contextlib.suppress(OSError):
            self._facts["disk_gib"] = shutil.disk_usage(self.scratch).free / _GIB
        if (memory := _free_memory_bytes(self.root)) is not None:
            self._facts["memory_gib"] = memory / _GIB
        with contextlib.suppress(OSError, ValueError):
            driver = (self.root / "sys/module/neuron/version").read_text(encoding="utf-8")
            self._facts["driver"] = one_line(driver, characters=50)
        names = os.listdir(self.root / "dev")
        numbers = sorted(int(f[1]) for f in map(re.compile(r"neuron(\d+)").fullmatch, names) if f)
        self._facts["devices"] = tuple(numbers)
        if len(numbers) == self.devices:
            return
        version = self._facts.get("driver", "")
        raise FailedError(
            f"the container has {_named(numbers)}, and its claim is for {self.devices}; "
            + (f"the node has driver {version}" if version else "the node has no Neuron driver")
        )

    def _start_runtime(self) -> None:
        answer, driver = self.scratch / "runtime.json", self._facts.get("driver", "")
        answer.unlink(missing_ok=True)
        process = subprocess.Popen(  # noqa: S603 (our own program)
            [sys.executable, "-m", "pods.compiled_graphs", "runtime", str(answer), driver],
            env={**os.environ, "PYTHONPATH": _PROGRAMS},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            preexec_fn=ending_with_parent(),
        )
        hangs = False
        try:
            log, _ = process.communicate(timeout=INIT_SECONDS)
        except subprocess.TimeoutExpired:
            hangs = True
            process.kill()
            log, _ = process.communicate()
        for line in last_lines(tuple(log.decode("utf-8", "replace").splitlines())):
            self.say(f"self-test: runtime: {line}")
        ended = f"ended its process with exit code {process.returncode}"
        runtime = (
            load_record(RuntimeState, read_file(answer))
            if answer.exists()
            else RuntimeState(missing=ended)
        )
        self._facts |= {"runtime": one_line(runtime.version, characters=50)}
        self._facts |= {"init_s": runtime.init_s, "logical_cores": runtime.logical_cores}
        if hangs and runtime.status is None:
            raise FailedError(f"nrt_init did not return within {INIT_SECONDS:g} s")
        if runtime.missing:
            self.say(f"self-test: the runtime's library is not found: {runtime.missing}")
        if runtime.unfit:
            raise FailedError(runtime.unfit)
        if runtime.status:
            raise FailedError(
                f"nrt_init returned {runtime.status}, where 0 is success; what the runtime wrote "
                "into the log may say why"
            )
        if runtime.has_begun and runtime.status is None:
            raise FailedError(f"nrt_init {ended}")

    def _read_checkpoint(self) -> None:
        try:
            sizes = _file_sizes(self.checkpoint)
            path = max(sizes, key=lambda path: sizes[path])
            with open_file(path) as file:
                began, size = time.monotonic(), 0
                while piece := os.read(file.fileno(), _PIECE_BYTES):
                    size, seconds = size + len(piece), time.monotonic() - began
                    if size >= MOST_READ_BYTES or seconds >= READ_SECONDS:
                        break
        except OSError as error:
            raise FailedError(f"{self.checkpoint}: cannot be read: {error}") from error
        mib_per_s = size / MIB / max(time.monotonic() - began, 1e-6)
        self._facts["read_mib_per_s"] = mib_per_s
        whole_mib = sum(sizes.values()) / MIB
        minutes = whole_mib / max(mib_per_s, 1e-9) / READS_AT_ONCE / 60
        if minutes > LOAD_LIMIT_MINUTES:
            raise FailedError(
                f"{path}: read at {mib_per_s:.3g} MiB/s: even {READS_AT_ONCE} reads at once need "
                f"{minutes:.0f} minutes for the checkpoint of {whole_mib / 1024:.1f} GiB; allowed: "
                f"{LOAD_LIMIT_MINUTES}"
            )


def lines_of(test: SelfTest) -> Iterator[str]:
    """Yield the test's results as lines for the container's log."""
    unknown = "not known"
    yield f"driver {test.driver or unknown}, runtime {test.runtime or unknown}"
    yield _named(test.devices)
    if test.init_s is not None:
        yield f"nrt_init took {test.init_s:.1f} s; logical cores: {test.logical_cores or unknown}"
    if test.read_mib_per_s is not None:
        yield f"the checkpoint is read at {test.read_mib_per_s:.3g} MiB/s"
    free = {"memory": test.memory_gib, "disk": test.disk_gib}
    yield ", ".join(
        f"free {name}: {unknown if gib is None else f'{gib:.0f} GiB'}" for name, gib in free.items()
    )
    yield f"{'FAILED' if test.failed else 'passed'} after {test.seconds:.1f} s"


def _named(devices: Any) -> str:
    if not devices:
        return "no Neuron device"
    return f"{len(devices)} Neuron device(s), /dev/neuron{{{','.join(map(str, devices))}}}"


def _within(seconds: float, step: Callable[[], None]) -> None:
    """Run the step in a thread; raise the step's error, or FailedError if `seconds` pass first."""
    ended: Future[None] = Future()

    def work() -> None:
        try:
            step()
            ended.set_result(None)
        except Exception as error:  # noqa: BLE001 (it is raised below)
            ended.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    if not wait([ended], seconds).done:
        what = step.__name__.strip("_").replace("_", " ")
        raise FailedError(f"it hangs: `{what}` has not ended after {seconds:g} s")
    ended.result()


def _file_sizes(checkpoint: Path) -> dict[Path, int]:
    """Return the sizes of a checkpoint's files, in bytes; raise OSError if it has no files."""
    try:
        ready = load_record(ReadyModel, read_file(checkpoint / READY_MARKER))
        return {checkpoint / file.path: file.size_bytes for file in ready.files}
    except (FileNotFoundError, RecordError, TooLargeError):
        sizes = {path: path.stat().st_size for path in checkpoint.glob("*.safetensors")}
    if not sizes:
        raise FileNotFoundError(f"it has no {READY_MARKER} and no file *.safetensors")
    return sizes


def _free_memory_bytes(root: Path) -> int | None:
    """Return the free memory of node or container, whichever is less; None if both are unknown."""
    free = []
    with contextlib.suppress(OSError, ValueError, IndexError):
        text = (root / "proc/meminfo").read_text(encoding="utf-8")
        free.append(int(text.split("MemAvailable:")[1].split()[0]) * 1024)
    with contextlib.suppress(OSError, ValueError):
        limit, used = (root / f"sys/fs/cgroup/memory.{name}" for name in ("max", "current"))
        free.append(int(limit.read_text()) - int(used.read_text()))
    return min(free, default=None)
