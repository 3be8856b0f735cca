"""No child process is left when the program that started it is killed; with real processes."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from draftworth.child_processes import ending_with_parent
from tests.conftest import ROOT
from tests.support.waiting import HANGS_AFTER_SECONDS

# This program takes the place of a server or an engine, or of the interpreter that runs one. It
# holds a FIFO open as long as it runs. With the argument "ignores SIGTERM" it also starts a worker,
# as vLLM starts its engine core, which holds the FIFO open too.
CHILD = """#!{python} -IS
import os, signal, subprocess, sys, time
kept = os.open({fifo!r}, os.O_WRONLY)
os.write(kept, b"%d\\n" % os.getpid())
if "ignores SIGTERM" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    worker = subprocess.Popen(["sleep", "100000"], pass_fds=[kept])
    os.write(kept, b"%d\\n" % worker.pid)
os.write(kept, b"all run\\n")
time.sleep(100_000)
"""
SYSTEM = "import sys; from pathlib import Path; child, folder = sys.argv[1], Path(sys.argv[2])\n"
AS_INTERPRETER = SYSTEM + "sys.executable = child\n"
# Source of programs that start a child process as this project does, by what they start.
PARENTS = {
    "vLLM in a pod": SYSTEM
    + """
import os
from pods.compiled_graphs.server_process import LogTail, ServerProcess
ServerProcess([child], os.environ, LogTail()).wait()
""",
    "the runtime's self-test": AS_INTERPRETER
    + """
from pods.compiled_graphs.self_test import SelfTester
SelfTester(devices=1, checkpoint=folder, scratch=folder, root=folder, say=print)._start_runtime()
""",
    "teacher forcing": SYSTEM
    + """
from draftworth.estimate.run_teacher_forcing import Reader
Reader(python=Path(child), target=folder, folder=folder, enable_thinking=False).readings(folder, [])
""",
    "a truth server": AS_INTERPRETER
    + """
from draftworth.truth.token_timeline import TimelineSpec
from draftworth.truth.trial import truth_server
truth_server(TimelineSpec(), folder / "log").__enter__()
""",
    "a load generator": SYSTEM
    + """
from draftworth.truth.trial import run_measured
run_measured([child], folder=folder, timeout_seconds=100_000)
""",
    "a program that scores": SYSTEM
    + """
from draftworth.cli.report_scores import limits_of, output_of
output_of(str(child), b"", limits_of(1))
""",
    "the install of the engine": SYSTEM
    + """
from rehearsal.install import StepRunner
StepRunner(log_path=folder / "log", progress=print).step("installing", [child])
""",
    "the guard of a rehearsal's engine": SYSTEM
    + """
import sys
from rehearsal import process_guard
process_guard.main(["0.1", child, "ignores SIGTERM"])
""",
}


def can_be_read(fifo: int) -> bool:
    """Wait until the FIFO has bytes or all its writers have ended; False: neither happens."""
    return bool(select.select([fifo], [], [], HANGS_AFTER_SECONDS)[0])


@pytest.fixture
def children(tmp_path: Path) -> Iterator["Children"]:
    made = Children(tmp_path)
    yield made
    for pid in made.ids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


class Children:
    """A program that takes the place of a child, its FIFO, and the ids of its processes."""

    def __init__(self, folder: Path) -> None:
        self.fifo, self.program, self.ids = folder / "fifo", folder / "child", list[int]()
        os.mkfifo(self.fifo)
        self.program.write_text(CHILD.format(python=sys.executable, fifo=str(self.fifo)))
        self.program.chmod(0o755)

    def wait_until_they_run(self) -> int:
        """Wait until all processes of the program run; return the descriptor of their FIFO.

        The FIFO can be read to its end when the last of the processes has ended.
        """
        fifo = os.open(self.fifo, os.O_RDONLY | os.O_NONBLOCK)
        lines = b""
        while not lines.endswith(b"all run\n"):
            assert can_be_read(fifo), "the child does not start"
            lines += os.read(fifo, 1)
        self.ids += map(int, lines.split()[:-2])
        return fifo


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's signal is Linux's")
@pytest.mark.parametrize("source", PARENTS.values(), ids=PARENTS)
def test_a_killed_parent_leaves_no_child(source: str, children: Children, tmp_path: Path) -> None:
    command = [sys.executable, "-c", source, str(children.program), str(tmp_path)]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, start_new_session=True
    ) as parent:
        try:
            fifo = children.wait_until_they_run()
        finally:
            parent.kill()
            parent.wait()
        # The parent's standard input is still open here: a process guard ends its engine when that
        # ends, which this test must not depend on.
        assert can_be_read(fifo), "the child goes on"
    assert children.ids
    assert os.read(fifo, 1) == b""
    os.close(fifo)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's signal is Linux's")
def test_a_child_ends_although_its_parent_ended_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: -1)
        begun = ending_with_parent(signal.SIGTERM)
    child = subprocess.Popen(["sleep", "100000"], preexec_fn=begun)
    assert child.wait() == -signal.SIGKILL


def test_another_system_starts_the_child_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "platform", "darwin")
        assert ending_with_parent() is None
