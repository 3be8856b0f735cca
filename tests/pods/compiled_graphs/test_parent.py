"""The parent of vLLM: with real child processes, real signals and an emulated S3."""

import os
import signal
import subprocess
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from draftworth.records.codec import RecordError, dump_record, load_record
from draftworth.records.servers import LAST_LINES, ServerState, server_state_key
from pods.compiled_graphs.scratch import STARTS_NAME, Starts, begin, keep
from pods.compiled_graphs.server_process import LogTail
from tests.pods.compiled_graphs import pods
from tests.pods.compiled_graphs.conftest import PodFactory
from tests.pods.compiled_graphs.stand_in_trouble import FLOOD_LINES
from tests.pods.compiled_graphs.test_pod_starts import an_uploaded_graph, pod_with_a_graph
from tests.support.waiting import HANGS_AFTER_SECONDS

pytestmark = pytest.mark.emulator
TROUBLE = Path(__file__).with_name("stand_in_trouble.py")
NO_BUCKET = "http://127.0.0.1:9"


@pytest.fixture(autouse=True, scope="module")
def _graphs_before_the_account() -> None:
    """They are made once, in an account in this process, which empties every other one."""
    for flags in (pods.FOLDER_FLAGS, pods.CACHE_FLAGS):
        an_uploaded_graph(flags)


@pytest.fixture
def troubled(pod: PodFactory, s3: Any) -> pods.Pod:
    """A pod whose vLLM does what `TROUBLE` says; `s3` has its bucket."""
    return with_trouble(pod("troubled"))


def with_trouble(pod: pods.Pod) -> pods.Pod:
    program = pod.root / "bin" / "vllm"
    program.write_text(program.read_text().replace(str(pods.STAND_IN), str(TROUBLE)))
    return pod


def state(s3: Any) -> ServerState | None:
    try:
        body = s3.get_object(Bucket=pods.RESULTS, Key=server_state_key(pods.SERVER))["Body"]
    except s3.exceptions.NoSuchKey:
        return None
    return load_record(ServerState, body.read())


def phase(s3: Any, wanted: str) -> ServerState:
    """The state, once it has come to that."""
    found = pods.eventually(lambda: (now := state(s3)) and now.phase == wanted and now)
    assert isinstance(found, ServerState)
    return found


def is_at_start(s3: Any, number: int) -> bool:
    now = state(s3)
    return now is not None and now.start == number


def ends(pod: pods.Pod, trouble: str, *limits: str, **environment: str) -> int:
    """One container to its end; its exit code."""
    with pod.server(*limits, TROUBLE=trouble, **environment) as process:
        return process.wait(timeout=HANGS_AFTER_SECONDS)


def test_a_crash_is_reported_with_its_exit_code_and_last_lines(troubled: pods.Pod, s3: Any) -> None:
    assert ends(troubled, "crash") == 3
    found = phase(s3, "ended")
    assert (found.variant, found.pod, found.start, found.exit_code) == (
        pods.VARIANT,
        "troubled",
        1,
        3,
    )
    assert "RuntimeError: no" in found.last_lines
    assert found.reason == ""
    assert abs(found.since_unix_s - time.time()) < HANGS_AFTER_SECONDS


def test_the_third_start_without_health_is_given_up_and_the_container_stays(
    troubled: pods.Pod, s3: Any
) -> None:
    assert [ends(troubled, "crash"), ends(troubled, "crash")] == [3, 3]
    with troubled.server(TROUBLE="crash") as process:
        found = phase(s3, "given_up")
        assert found.start == 3
        assert "ended 3 times and was never healthy" in found.reason
        assert "next:" in found.reason
        assert "RuntimeError: no" in found.last_lines
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=HANGS_AFTER_SECONDS) == 128 + signal.SIGTERM
    # A container that is started in this pod all the same starts no server, and changes nothing.
    with troubled.server(TROUBLE="crash") as process:
        pods.eventually(lambda: "given up by an earlier container" in troubled.log.read_text())
        assert process.poll() is None
    assert state(s3) == found


def test_a_compiler_that_failed_by_itself_is_given_up_sooner_where_the_chart_says_so(
    troubled: pods.Pod, s3: Any
) -> None:
    assert ends(troubled, "compiler", "--starts-with-compiler-failure=2") == 1
    with troubled.server("--starts-with-compiler-failure=2", TROUBLE="compiler"):
        assert "exit code 70" in phase(s3, "given_up").reason


def test_another_failure_is_not_taken_for_the_compilers(troubled: pods.Pod) -> None:
    assert ends(troubled, "crash", "--starts-with-compiler-failure=1") == 3


def test_a_start_that_was_killed_without_a_word_counts(troubled: pods.Pod, s3: Any) -> None:
    for number in (1, 2, 3):
        with troubled.server(TROUBLE="hang"):
            pods.eventually(partial(is_at_start, s3, number))
    with troubled.server(TROUBLE="hang"):
        assert "no memory left" in phase(s3, "given_up").reason


def test_a_server_that_hangs_is_ended_and_given_up_after_its_time(
    troubled: pods.Pod, s3: Any
) -> None:
    with troubled.server("--compile-minutes=0.01", TROUBLE="hang") as process:
        found = phase(s3, "given_up")
        assert process.poll() is None
    assert "was not healthy 0.01 minutes after its first start" in found.reason


def test_the_time_of_all_starts_counts_together(troubled: pods.Pod, s3: Any) -> None:
    keep(troubled.scratch, Starts(number=1, without_health=1, first_at_seconds=0.0))
    with troubled.server("--compile-minutes=0.001", TROUBLE="crash"):
        assert phase(s3, "given_up").start == 2
    assert "RuntimeError" not in troubled.log.read_text(), "it was started all the same"


def test_graphs_of_the_bucket_have_the_shorter_time(pod: PodFactory, s3: Any) -> None:
    second = with_trouble(pod_with_a_graph(pod))
    with second.server("--load-minutes=0.01", TROUBLE="hang"):
        assert "not healthy 0.01 minutes" in phase(s3, "given_up").reason


def test_a_server_that_was_healthy_is_started_again_as_if_it_were_new(
    troubled: pods.Pod, s3: Any
) -> None:
    keep(troubled.scratch, Starts(number=2, without_health=2, first_at_seconds=0.0))
    with troubled.server("--compile-minutes=1e9", TROUBLE="healthy_once") as process:
        assert phase(s3, "healthy").start == 3
        os.kill(vllm_of(process), signal.SIGKILL)
        assert process.wait(timeout=HANGS_AFTER_SECONDS) == 128 + signal.SIGKILL
    assert phase(s3, "ended").exit_code == 137
    assert [ends(troubled, "crash"), ends(troubled, "crash")] == [3, 3]
    with troubled.server(TROUBLE="crash"):
        assert phase(s3, "given_up").start == 6


def vllm_of(process: subprocess.Popen[str]) -> int:
    """The one child."""
    (child,) = children(process)
    return child


def children(process: subprocess.Popen[str]) -> list[int]:
    """Also those that have ended and that nobody waited for."""
    text = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    return [int(pid) for pid in text.split()]


def test_graphs_that_are_refused_are_given_up_at_once(pod: PodFactory, s3: Any) -> None:
    second = with_trouble(pod_with_a_graph(pod))
    next(second.mounted.rglob("model.pt")).unlink()
    with second.server(TROUBLE="serve"):
        found = phase(s3, "given_up")
    assert found.start == 1
    assert "REFUSED" in found.reason
    assert "draftworth artifacts EXPERIMENT --run" in found.reason


def test_a_restored_cache_that_is_not_hit_is_followed_by_the_ordinary_start(
    pod: PodFactory, s3: Any
) -> None:
    second = with_trouble(pod_with_a_graph(pod, pods.CACHE_FLAGS))
    with second.server(TROUBLE="unhit"):
        found = phase(s3, "healthy")
        assert found.start == 1
        assert "a graph is not in the cache" in found.last_lines
        assert any("the restored graphs were not hit (exit code 6)" in x for x in found.last_lines)
        second.said.unlink()
    # And is not tried again in this pod.
    with second.server(TROUBLE="unhit"):
        pods.eventually(second.said.exists)
    assert second.log.read_text().count("a graph is not in the cache") == 1


def test_a_restored_cache_that_is_hit_serves_with_what_proved_it(pod: PodFactory, s3: Any) -> None:
    second = with_trouble(pod_with_a_graph(pod, pods.CACHE_FLAGS))
    with second.server(TROUBLE="serve"):
        assert phase(s3, "healthy").last_lines[-1:] != ("a graph is not in the cache",)
    assert "not hit" not in second.log.read_text()


def test_a_flood_of_lines_is_passed_on_and_its_end_kept(troubled: pods.Pod, s3: Any) -> None:
    assert ends(troubled, "flood") == 4
    found = phase(s3, "ended")
    wanted = tuple(f"line {n}" for n in range(FLOOD_LINES - LAST_LINES, FLOOD_LINES))
    assert found.last_lines == wanted
    passed_on = [x for x in troubled.log.read_text().splitlines() if x.startswith("line ")]
    assert len(passed_on) == FLOOD_LINES


def test_a_daemon_that_holds_the_log_is_ended_with_its_family(troubled: pods.Pod, s3: Any) -> None:
    assert ends(troubled, "daemon") == 5
    assert not Path(f"/proc/{int(troubled.said.read_text())}").exists()


def test_orphans_are_reaped_while_the_server_runs(troubled: pods.Pod, s3: Any) -> None:
    with troubled.server(TROUBLE="orphans") as process:
        phase(s3, "healthy")
        pods.eventually(lambda: len(children(process)) == 1)


def test_a_server_that_ignores_sigterm_is_made_to_end(troubled: pods.Pod, s3: Any) -> None:
    with troubled.server(
        "--compile-minutes=0.01", "--grace-seconds=0.1", TROUBLE="deaf"
    ) as process:
        pods.eventually(lambda: "deaf" in troubled.log.read_text())
        child = vllm_of(process)
        phase(s3, "given_up")
        assert not Path(f"/proc/{child}").exists()


def test_sigterm_reaches_vllm_and_is_no_failure(troubled: pods.Pod, s3: Any) -> None:
    keep(troubled.scratch, Starts(number=2, without_health=2, first_at_seconds=time.monotonic()))
    with troubled.server(TROUBLE="hang") as process:
        phase(s3, "starting")
        pods.eventually(lambda: vllm_of(process))
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=HANGS_AFTER_SECONDS) == 128 + signal.SIGTERM
    assert phase(s3, "ended").exit_code == 143


def test_a_results_bucket_that_cannot_be_reached_stops_no_server(troubled: pods.Pod) -> None:
    with troubled.server(TROUBLE="serve", AWS_ENDPOINT_URL=NO_BUCKET):
        pods.eventually(troubled.healthy)
        pods.eventually(lambda: "its state cannot be reported" in troubled.log.read_text())
    assert troubled.log.read_text().count("cannot be reported") == 1


def test_a_program_that_is_not_there_ends_with_127(troubled: pods.Pod, s3: Any) -> None:
    (troubled.root / "bin" / "vllm").unlink()
    assert ends(troubled, "serve", PATH="/nowhere") == 127
    assert any("cannot be started" in line for line in phase(s3, "ended").last_lines)


# The count


def test_a_count_that_cannot_be_read_begins_anew(tmp_path: Path) -> None:
    for text in ("", "{", "[]", '{"number": 1}', dump_record(_starts(0, 3)).decode()):
        (tmp_path / STARTS_NAME).write_text(text)
        assert begin(tmp_path).number == 1


def _starts(number: int, without_health: int) -> Starts:
    return Starts(number=number, without_health=without_health, first_at_seconds=5.0)


def test_a_node_that_was_booted_again_gives_the_full_time(tmp_path: Path) -> None:
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
def test_a_compiler_that_failed_by_itself_is_seen_wherever_the_log_is_cut(line: str) -> None:
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
    given = ServerState(
        server="vllm-a",
        variant="a",
        pod="b",
        start=1,
        phase="ended",
        since_unix_s=1.0,
        last_lines=tail.lines(),
    )
    assert load_record(ServerState, dump_record(given)) == given
    with pytest.raises(RecordError):
        load_record(ServerState, b"{}")
