"""The parent of vLLM decides whether a server is restarted; test_pod_starts has real processes."""

import signal
import threading
from argparse import Namespace
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from draftworth.records.codec import RecordError, dump_record, load_record
from draftworth.records.servers import LAST_LINES, SelfTest, ServerState
from pods.compiled_graphs import vllm_parent
from pods.compiled_graphs.prepare_graphs import Order
from pods.compiled_graphs.scratch_records import STARTS_NAME, Starts, begin, keep, read_record
from pods.compiled_graphs.server_process import LogTail, ServerProcess
from pods.compiled_graphs.server_reports import Reports
from tests.lambdas.capacity_controller.plans import make_server
from tests.pods.compiled_graphs import pods
from tests.support.waiting import HANGS_AFTER_SECONDS

LIMITS = {
    "load_minutes": 1e9,
    "compile_minutes": 1e9,
    "starts_with_compiler_failure": 3,
    "health_period_seconds": 0.001,
}
EACH = ["starting", "ended"]
PROOF = "MISSES_ARE_FATAL"
COMPILER = b"RuntimeError: neuronx-cc compilation failed with 70. Check compiler logs.\n"
MISS = b"RuntimeError: VLLM_NEURON_DISABLE_WARMUP_COMPILE: local compile cache miss for key 0f.\n"
# Failures that do not concern a graph: the log's last line and the exit code.
FAULTS = {
    "driver": (b"RuntimeError: nrt_init failed: NRT_FAILURE (driver 2.29 refuses runtime)", 1),
    "mount": (b"OSError: [Errno 107] Transport endpoint is not connected: '/artifacts'", 1),
    "memory": (b"", 137),
    "device memory": (b"RuntimeError: Failed to allocate: NRT_RESOURCE", 1),
    "EFA": (b"FileNotFoundError: '/sys/bus/pci/devices/0000:c9:00.0/infiniband'", 1),
    "variable": (b"WARNING: Unknown variable detected: VLLM_NEURON_DISABLE_WARMUP_COMPILE", 1),
}


class Life:
    """One run of a container from start to end, whose server is a stand-in in this process.

    The command says what the server does before it ends: `crash`; `compiler`: the compiler fails;
    `hang` until it gets a signal; `serve` until it was healthy and is killed; `unhit`: graphs are
    not found; or one of `FAULTS`.
    """

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self.tests = [SelfTest(seconds=1.0)]
        self.phases: list[str] = []
        self.started: list[Mapping[str, str]] = []
        self.serves = False
        self.ended = threading.Event()
        self.was_reported = threading.Event()
        self.reports = Reports(server="a", variant="a", pod="a", put=lambda _: None)
        self.reports.report = self._report  # type: ignore[method-assign]

    def run(self, does: str, order: Order, **limits: Any) -> int | str:
        """Run the container; return its exit code, or why the server was given up."""
        self.parent = vllm_parent.Parent(
            command=[does],
            self_test=lambda: self.tests.pop(),
            arguments=Namespace(scratch=self.scratch, health_url="", **{**LIMITS, **limits}),
            reports=self.reports,
        )
        try:
            return self.parent.run(order)
        except vllm_parent.GivenUpError as error:
            return str(error)

    def start(self, command: list[str], environment: Mapping[str, str], tail: LogTail) -> "Life":
        """Start the stand-in instead of a `ServerProcess`."""
        self.does, self.environment, self.tail = command[0], environment, tail
        self.started.append(environment)
        self.ended.clear()
        return self

    def wait(self) -> int:
        if self.does in FAULTS:
            line, code = FAULTS[self.does]
            self.tail.feed(line + b"\n")
        else:
            code = getattr(self, f"_{self.does}")()
        self.serves = False
        self.ended.set()
        return int(code)

    def end(self) -> None:
        self.was_reported.set()

    def signal(self, number: int) -> None:
        self.was_reported.set()

    def _report(self, phase: str, starts: Starts, **_: object) -> None:
        self.phases.append(phase)
        if phase == "healthy":
            self.was_reported.set()

    def _crash(self) -> int:
        return 3

    def _compiler(self) -> int:
        self.tail.feed(COMPILER)
        return 1

    def _hang(self) -> int:
        assert self.was_reported.wait(HANGS_AFTER_SECONDS)
        return 143

    def _serve(self) -> int:
        self.serves = True
        assert self.was_reported.wait(HANGS_AFTER_SECONDS)
        return 137

    def _unhit(self) -> int:
        if PROOF not in self.environment:
            return self._serve()
        self.tail.feed(MISS)
        return 6


LiveOnce = Callable[..., int | str]


@pytest.fixture
def order(tmp_path: Path) -> Order:
    (tmp_path / "mounted").mkdir()
    return pods.make_order(tmp_path)


@pytest.fixture
def lives() -> list[Life]:
    """All runs of the pod's container, the newest last."""
    return []


@pytest.fixture
def live(order: Order, lives: list[Life], monkeypatch: pytest.MonkeyPatch) -> LiveOnce:
    def once(does: str, order: Order = order, **limits: float) -> int | str:
        life = Life(order.scratch)
        lives.append(life)
        monkeypatch.setattr(vllm_parent, "ServerProcess", life.start)
        monkeypatch.setattr(vllm_parent, "is_healthy", lambda _: life.serves)
        return life.run(does, order, **limits)

    return once


def test_the_third_start_without_health_is_given_up(live: LiveOnce, lives: list[Life]) -> None:
    assert [live("crash"), live("crash")] == [3, 3]
    assert [life.phases for life in lives] == [["testing", "testing", *EACH], EACH]
    reason = str(live("crash"))
    assert "ended 3 times and was never healthy, the last time with exit code 3; next:" in reason


def test_a_failed_compiler_is_given_up_sooner(
    live: LiveOnce,
) -> None:
    assert live("crash", starts_with_compiler_failure=1) == 3
    assert "the compiler failed by itself (exit code 70)" in str(
        live("compiler", starts_with_compiler_failure=2)
    )


def test_a_start_that_was_killed_counts(live: LiveOnce, lives: list[Life], order: Order) -> None:
    for _ in range(3):
        begin(order.scratch)
    assert "no memory left" in str(live("hang"))
    assert lives[0].started == []


def test_a_hanging_server_is_given_up_in_time(live: LiveOnce) -> None:
    reason = str(live("hang", compile_minutes=0.01))
    assert "was not healthy 0.01 minutes after its first start; next:" in reason


def test_the_time_of_all_starts_counts_together(
    live: LiveOnce, lives: list[Life], order: Order
) -> None:
    tested = SelfTest(seconds=1.0)
    earlier = Starts(number=1, without_health=1, first_at_seconds=0.0, self_test=tested)
    keep(order.scratch, earlier)
    assert "not healthy 0.001 minutes" in str(live("crash", compile_minutes=0.001))
    assert lives[0].started == []


def test_a_server_that_was_healthy_restarts_as_new(
    live: LiveOnce, lives: list[Life], order: Order
) -> None:
    keep(order.scratch, Starts(number=2, without_health=2, first_at_seconds=0.0))
    assert live("serve") == 137
    assert lives[0].phases == ["testing", "testing", "starting", "healthy", "ended"]
    assert [live("crash"), live("crash")] == [3, 3]
    assert "never healthy" in str(live("crash"))
    assert begin(order.scratch).number == 7


def test_refused_graphs_are_given_up_at_once(live: LiveOnce, order: Order) -> None:
    manifest = pods.put_graphs(order.artifacts, {"model.pt": b"graph"})
    (order.artifacts / manifest.folder / "model.pt").unlink()
    reason = str(live("serve"))
    assert reason.startswith("REFUSED: ")
    assert "draftworth artifacts EXPERIMENT --run" in reason


def test_an_unreadable_mount_gets_another_start(live: LiveOnce, order: Order) -> None:
    (order.artifacts / pods.KEY).mkdir()
    (order.artifacts / pods.KEY / "_ARTIFACTS.json").mkdir()
    assert live("serve") == vllm_parent.EXIT_NOT_PREPARED


def cached(order: Order) -> Order:
    pods.put_graphs(order.artifacts, {"model.pt": b"graph"})
    return replace(order, cache="cache", proof=PROOF)


def test_an_unused_restored_cache_leads_to_compiling(
    live: LiveOnce, lives: list[Life], order: Order
) -> None:
    order = cached(order)
    assert live("unhit", order) == 137
    assert [PROOF in environment for environment in lives[0].started] == [True, False]
    assert "the restored graphs were not hit (exit code 6)" in lives[0].reports.tail.lines()[1]
    record = read_record(order.scratch)
    assert record
    assert record.origin == "compiled", "once healthy, its graphs are this pod's to keep"
    # The cache from the bucket is not tried again in this pod.
    assert live("unhit", order) == 137
    assert [PROOF in environment for environment in lives[1].started] == [False]


@pytest.mark.parametrize("cache", [True, False], ids=["copied", "mounted"])
@pytest.mark.parametrize("fault", [*FAULTS, "hang"])
def test_other_faults_do_not_blame_the_graphs(
    live: LiveOnce, lives: list[Life], order: Order, fault: str, cache: bool
) -> None:
    """The next start loads the same graphs, from the bucket or in the pod."""
    order = cached(order) if cache else replace(cached(order), cache=None, proof=None)
    stored = contents(order.artifacts)
    if fault == "hang":
        assert "was not healthy" in str(live(fault, order, load_minutes=0.001))
    else:
        code = FAULTS[fault][1]
        assert [live(fault, order), live(fault, order)] == [code, code]
        assert f"never healthy, the last time with exit code {code}" in str(live(fault, order))
    assert [PROOF in life.environment for life in lives] == [cache] * len(lives)
    assert [len(life.started) for life in lives] == [1] * len(lives)
    assert contents(order.artifacts) == stored
    record = read_record(order.scratch)
    assert record
    assert record.origin == "bucket"
    assert not lives[-1].parent.starts.cache_missed


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_used_restored_cache_serves(live: LiveOnce, lives: list[Life], order: Order) -> None:
    assert live("serve", cached(order)) == 137
    assert [PROOF in environment for environment in lives[0].started] == [True]


def test_a_missing_program_ends_with_127(tmp_path: Path, order: Order) -> None:
    life = Life(tmp_path)
    assert life.run("/nowhere/vllm", order) == 127
    assert "cannot be started" in life.reports.tail.lines()[0]


def test_a_server_that_ignores_sigterm_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    script = "trap '' TERM; echo deaf; while :; do sleep 60 & wait; done"
    process = ServerProcess(["sh", "-c", script], {"PATH": "/usr/bin:/bin"}, tail := LogTail())
    pods.eventually(lambda: tail.lines() == ("deaf",))
    process.end(grace_seconds=0.05)
    assert process._process.wait(HANGS_AFTER_SECONDS) == -signal.SIGKILL


# The count


def test_a_count_that_cannot_be_read_begins_anew(tmp_path: Path) -> None:
    for text in ("", "{", "[]", '{"number": 1}', dump_record(_starts(0, 3)).decode()):
        (tmp_path / STARTS_NAME).write_text(text)
        assert begin(tmp_path).number == 1


def _starts(number: int, without_health: int) -> Starts:
    return Starts(number=number, without_health=without_health, first_at_seconds=5.0)


def test_a_rebooted_node_gives_the_full_time(tmp_path: Path) -> None:
    keep(tmp_path, _starts(1, 1))
    assert begin(tmp_path, clock=lambda: 3.0).first_at_seconds == 3.0
    assert begin(tmp_path, clock=lambda: 9.0).first_at_seconds == 3.0


def test_after_health_the_time_begins_anew(tmp_path: Path) -> None:
    keep(tmp_path, _starts(1, 0))
    assert begin(tmp_path, clock=lambda: 9.0).first_at_seconds == 9.0


def test_a_count_that_cannot_be_written_ends_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert begin(tmp_path / "file" / "scratch").number == 1


# The log's end


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: neuronx-cc compilation failed with 70. Check compiler logs.",
        "Command '['neuronx-cc', 'compile', '-O1']' returned non-zero exit status 70.",
        "ERROR neuronx-cc failed with exit code 70",
    ],
)
def test_a_compiler_failure_is_recognized_across_pieces(line: str) -> None:
    data = f"before\n{line}\nafter\n".encode()
    for cut in range(len(data)):
        tail = LogTail()
        tail.feed(data[:cut])
        tail.feed(data[cut:])
        assert tail.compiler_failed, cut


@pytest.mark.parametrize(
    "line", ["neuronx-cc compiled 70 graphs", "neuronx-cc failed with 1", "exited with code 70"]
)
def test_other_lines_are_no_failure_of_the_compiler(line: str) -> None:
    tail = LogTail()
    tail.feed(f"{line}\n".encode())
    assert not tail.compiler_failed


def test_the_log_s_end_is_printable_and_bounded() -> None:
    tail = LogTail()
    tail.feed(b"\x1b[31m" + b"\xff" * 10_000_000)
    tail.feed(b"\n" + b"10%\r50%\r100%\r\n" * 100)
    lines = tail.lines()
    assert len(lines) == LAST_LINES
    assert set(lines) == {"100%"}
    tail.feed(b"\x1b[31m" + b"x" * 10_000)
    assert all(line.isprintable() for line in tail.lines())
    assert max(map(len, tail.lines())) <= 500


def test_what_a_log_says_can_be_a_record() -> None:
    tail = LogTail()
    tail.feed("\ud800".encode("utf-8", "surrogatepass") + b"\x00\n" * 60)
    state = make_server(last_lines=tail.lines())
    assert load_record(ServerState, dump_record(state)) == state
    with pytest.raises(RecordError):
        load_record(ServerState, b"{}")
