"""Lets a load generator measure the truth server, and compares what it says with the truth."""

import json
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from draftworth.errors import DraftworthError
from draftworth.truth import reports
from draftworth.truth.log import RequestTruth, read_log
from draftworth.truth.processes import Finished, run_measured
from draftworth.truth.timeline import TimelineSpec

_ROOT = Path(__file__).resolve().parents[2]
# A client that falls into a trap is wrong by a quarter or more; a busy machine adds less.
TOLERANCE_PERCENT = 10.0


def filled(text: str, **values: object) -> str:
    """Replace each `{name}` in `text` by the value of that name; other braces stay."""
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", str(value))
    return text


@dataclass(frozen=True, kw_only=True)
class Trial:
    """The server's record of the requests, the tool's report of them, and what the tool used up."""

    truths: Sequence[RequestTruth]
    rows: Sequence[reports.Row]
    finished: Finished

    def true(self, figure: str) -> list[float]:
        found = (getattr(truth, figure) for truth in self.truths)
        return [value for value in found if value is not None]

    def told(self, figure: str) -> list[float]:
        found = (row.get(figure) for row in self.rows)
        return [float(value) for value in found if isinstance(value, int | float)]


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

    command: {url} and {folder} in it are replaced. form: its report's format (`reports.FORMS`).
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
    return Trial(truths=truths, rows=reports.read(form, folder), finished=finished)


@contextmanager
def truth_server(spec: TimelineSpec, log: Path, most_seconds: float = 600.0) -> Iterator[str]:
    """Run `draftworth truth-server` in its own process; yield its URL, then end the process."""
    command = [sys.executable, "-m", "draftworth", "truth-server", "--log", str(log.resolve())]
    command += ["--timeline", json.dumps(asdict(spec)), "--seconds", str(most_seconds)]
    with subprocess.Popen(  # noqa: S603 (our own command)
        command, cwd=_ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
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
class Judgement:
    """A figure's true median, the median that the tool `told`, and whether that is right."""

    figure: str
    truth: float
    told: float
    right: bool

    @property
    def error_percent(self) -> float:
        return (self.told / self.truth - 1) * 100


def judged(trial: Trial, tolerance_percent: float = TOLERANCE_PERCENT) -> list[Judgement]:
    """Judge each figure that the tool gives; a number of tokens must be exact. DraftworthError: the
    tool gives no figure."""
    found = []
    for figure in reports.FIGURES:
        if said := trial.told(figure):
            truth, told = statistics.median(trial.true(figure)), statistics.median(said)
            most = 0.0 if figure == "output_tokens" else tolerance_percent / 100 * truth
            right = abs(told - truth) <= most
            found.append(Judgement(figure=figure, truth=truth, told=told, right=right))
    if not found:
        raise DraftworthError(f"it says none of {', '.join(reports.FIGURES)}")
    return found
