"""Runs a load generator against the truth server, and compares its report with the server's log.

The load generator's memory and the CPU time of its descendants can be measured only on Linux.
"""

import json
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from draftworth.child_processes import ending_with_parent
from draftworth.errors import DraftworthError, UserInputError
from draftworth.truth import tool_reports
from draftworth.truth.request_log import RequestTruth, read_log
from draftworth.truth.token_timeline import TimelineSpec
from draftworth.untrusted import REASON_CHARACTERS, one_line

POLL_SECONDS = 0.1
STDOUT = "stdout"
"""A child process writes its standard output to the file of this name."""
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, kw_only=True)
class Finished:
    """The result of a child process that exited with 0.

    cpu_seconds: user and system time of the child and its descendants, including start-up. It is
        the larger of two figures: the time that wait4 reports, which lacks descendants that no
        process has waited for, and the sum over processes of the times polled while they ran.
    peak_mib: the largest resident memory of the child and its descendants together, as polled.
    seconds: the time from the child's start to its end.
    """

    cpu_seconds: float
    peak_mib: float
    seconds: float


def run_measured(
    command: Sequence[str | Path],
    *,
    folder: Path,
    timeout_seconds: float,
    environment: Mapping[str, str] | None = None,
) -> Finished:
    """Run a command in a process group of its own, and write its output to files in `folder`.

    UserInputError: the command cannot be started. DraftworthError: it failed, or was ended because
    it took longer than `timeout_seconds`.
    """
    started = time.monotonic()
    with (folder / STDOUT).open("wb") as out, (folder / "stderr").open("wb") as err:
        try:
            child = subprocess.Popen(  # noqa: S603 (what the user asked to run)
                [str(part) for part in command],
                env={**os.environ, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
                preexec_fn=ending_with_parent(),
            )
        except (OSError, ValueError) as error:
            raise UserInputError(
                f"COMMAND: given {one_line(str(command[0]))!r}, which cannot be started: {error}; "
                "allowed: a program on PATH, or the path of one"
            ) from error
        try:
            usage, peak_bytes, polled_seconds = _watch(child, started + timeout_seconds)
        finally:
            with suppress(ProcessLookupError):  # end descendants that still run
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    if child.returncode != 0:
        is_over = time.monotonic() > started + timeout_seconds
        # Before the time limit, a SIGKILL came from another process.
        late = is_over and child.returncode == -signal.SIGKILL
        how = f"no end within {timeout_seconds:g} s" if late else f"exit {child.returncode}"
        raise DraftworthError(f"{how}: {_end_of(folder / 'stderr')}")
    return Finished(
        cpu_seconds=max(usage, polled_seconds),
        peak_mib=peak_bytes / 2**20,
        seconds=time.monotonic() - started,
    )


def _end_of(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - REASON_CHARACTERS))
        return one_line(file.read().decode(errors="replace"))


def _watch(child: subprocess.Popen[bytes], deadline: float) -> tuple[float, int, float]:
    """Wait for the child; return (CPU seconds by wait4, peak memory in bytes, CPU seconds polled).

    deadline: when the child and its process group are killed, on the monotonic clock in seconds.
    """
    peak_bytes = 0
    seen: dict[int, float] = {}
    while True:
        pid, status, usage = os.wait4(child.pid, os.WNOHANG)
        if pid:
            child.returncode = os.waitstatus_to_exitcode(status)
            return usage.ru_utime + usage.ru_stime, peak_bytes, sum(seen.values())
        total = 0
        for member in family(child.pid):
            resident, cpu_seconds = _consumption(member)
            total += resident
            seen[member] = max(seen.get(member, 0.0), cpu_seconds)
        peak_bytes = max(peak_bytes, total)
        if time.monotonic() > deadline:
            os.killpg(child.pid, signal.SIGKILL)
            deadline = float("inf")
        time.sleep(POLL_SECONDS)


def family(pid: int) -> list[int]:
    """Return the ids of a process and its descendants, except any whose parent has ended."""
    children: list[str] = []
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                children += (thread / "children").read_text().split()
    return [pid, *(member for child in children for member in family(int(child)))]


def _consumption(pid: int) -> tuple[int, float]:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (OSError, IndexError):
        return 0, 0.0
    return pages * _PAGE_BYTES, (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND


_ROOT = Path(__file__).resolve().parents[2]
# A load generator that makes a trap's mistake is wrong by 25% or more. A busy machine makes a right
# one wrong by less than this.
TOLERANCE_PERCENT = 10.0


def filled(text: str, **values: object) -> str:
    """Replace each `{name}` in `text` by the value of that name; other braces stay."""
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", str(value))
    return text


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A load generator's run: its requests as the server logged and as the tool reported them.

    truths: the server's record of each request. rows: the figures of each request by the tool's
        report. finished: the time and memory that the tool took.
    """

    truths: Sequence[RequestTruth]
    rows: Sequence[tool_reports.Row]
    finished: Finished

    def true(self, figure: str) -> list[float]:
        values = (getattr(truth, figure) for truth in self.truths)
        return [value for value in values if value is not None]

    def reported(self, figure: str) -> list[float]:
        values = (row.get(figure) for row in self.rows)
        return [float(value) for value in values if isinstance(value, int | float)]


def attempt(
    command: Sequence[str],
    spec: TimelineSpec,
    folder: Path,
    *,
    form: str,
    timeout_seconds: float,
    requests: int = 0,
) -> Trial:
    """Run a load generator against a truth server of its own, with all files in `folder`.

    command: the load generator's command, in which {url} and {folder} are replaced.
    spec: which chunks the server sends, and when.
    form: the format of the tool's report, a key of `tool_reports.FORMS`.
    requests: how many of the last completed requests count (a tool may send probes first); 0: all.
    DraftworthError: the tool failed, took too long, completed too few requests, or wrote no report
    that can be read.
    """
    log = folder / "truth.log"
    with truth_server(spec, log, most_seconds=timeout_seconds + 60) as url:
        parts = [filled(part, url=url, folder=folder) for part in command]
        finished = run_measured(parts, folder=folder, timeout_seconds=timeout_seconds)
    truths = read_log(log)[-requests:]
    if len(truths) < max(1, requests):
        raise DraftworthError(f"it completed {len(truths)} of {requests or 'its'} requests")
    return Trial(truths=truths, rows=tool_reports.read(form, folder), finished=finished)


@contextmanager
def truth_server(spec: TimelineSpec, log: Path, most_seconds: float = 600.0) -> Iterator[str]:
    """Run `draftworth truth-server` in its own process; yield its URL, then end the process.

    spec: which chunks the server sends, and when. log: the file that gets what it sent.
    most_seconds: after this time the server ends by itself.
    DraftworthError: the server did not start.
    """
    command = [sys.executable, "-m", "draftworth", "truth-server", "--log", str(log.resolve())]
    command += ["--timeline", json.dumps(asdict(spec)), "--seconds", str(most_seconds)]
    with subprocess.Popen(  # noqa: S603 (our own command)
        command,
        cwd=_ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=ending_with_parent(),
    ) as process:
        try:
            assert process.stdout is not None  # noqa: S101 (it is a pipe)
            url = process.stdout.readline().strip()
            if not url:
                raise DraftworthError(f"the truth server did not start: {process.communicate()[1]}")
            yield url
        finally:
            process.terminate()


@dataclass(frozen=True, kw_only=True)
class JudgedFigure:
    """A figure's median by the server's log and by the load generator's report.

    figure: one of `tool_reports.FIGURES`. right: whether the reported median is near enough to the
        true one (see `judged`).
    """

    figure: str
    truth: float
    reported: float
    right: bool

    @property
    def error_percent(self) -> float:
        return (self.reported / self.truth - 1) * 100


def judged(trial: Trial, tolerance_percent: float = TOLERANCE_PERCENT) -> list[JudgedFigure]:
    """Judge each figure that the tool reports: its median over requests against the true median.

    tolerance_percent: how far a latency may be from the true one. Numbers of tokens must be exact.
    DraftworthError: the tool reports no figure.
    """
    figures = []
    for figure in tool_reports.FIGURES:
        if reported_values := trial.reported(figure):
            truth = statistics.median(trial.true(figure))
            reported = statistics.median(reported_values)
            most = 0.0 if figure == "output_tokens" else tolerance_percent / 100 * truth
            right = abs(reported - truth) <= most
            figures.append(JudgedFigure(figure=figure, truth=truth, reported=reported, right=right))
    if not figures:
        raise DraftworthError(f"it says none of {', '.join(tool_reports.FIGURES)}")
    return figures
