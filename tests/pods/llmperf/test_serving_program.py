"""The measuring Job's program from its run to the end of its winner, as the image has it: a pod
that is terminated while the winner serves, and the next one."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from charts.shipped import MEASURING_IMAGE
from draftworth.measuring.job import EXIT_INTERRUPTED, JOB_NAME_VARIABLE, JOB_UID_VARIABLE
from draftworth.measuring.keeping import kept_winner
from draftworth.measuring.run_specification import RunSpec
from draftworth.measuring.sink import FolderSink
from draftworth.records.codec import dump_record, dump_text, load_record
from draftworth.records.live import KEPT_FILE, LiveProbe
from draftworth.records.results import RUN_FILE
from draftworth.records.serving_limits import ServingLimits
from draftworth.records.step_costs import STEP_COSTS_FILE
from draftworth.records.verdict import REPORT_FOLDER, REPORT_PAGE, VERDICT_FILE
from tests.conftest import ROOT
from tests.draftworth.measuring.test_resume import RUN_ID
from tests.draftworth.measuring.test_runner_keeps import Servers, runner
from tests.pods.llmperf.stand_in_kubernetes import StandInKubernetes, stand_in_kubernetes
from tests.support.shipped import lay_out
from tests.support.stream_server import Request, Step, completion, plain, stream_server
from tests.support.waiting import HANGS_AFTER_SECONDS

PROGRAM = ROOT / "tests/end_to_end/llmperf_with_kubernetes.py"
# Whose run is RUN_ID.
IN_A_JOB = {
    JOB_NAME_VARIABLE: "llmperf-x-00000000",
    JOB_UID_VARIABLE: "01234567-0000-0000-0000-000000000000",
}


@pytest.fixture
def image(tmp_path: Path) -> Path:
    root = tmp_path / "app"
    lay_out(MEASURING_IMAGE, root)
    shutil.copy(PROGRAM, root)
    return root


def served(request: Request) -> Iterable[Step]:
    if request.method == "GET":
        return plain("200 OK" if request.path == "/health" else "404 Not Found", b"")
    return completion(1, 3)


def measured(folder: Path, url: str) -> RunSpec:
    """Have an earlier pod measure everything, and end before it could say so; what it measured."""
    pod = runner(url, folder, Servers())
    asyncio.run(pod.run())
    for name in (KEPT_FILE, RUN_FILE, VERDICT_FILE, STEP_COSTS_FILE):
        (folder / RUN_ID / name).unlink()
    endpoints = tuple(dataclasses.replace(e, base_url=url) for e in pod.spec.endpoints)
    return dataclasses.replace(pod.spec, endpoints=endpoints)


def limits(budget_usd: float) -> bytes:
    usd = {"baseline": 1.0, "k7": 1.0}
    return dump_record(
        ServingLimits(
            serve_until_unix_s=None, budget_usd=budget_usd, usd_per_hour=usd, probe_seconds=0.5
        )
    )


@dataclasses.dataclass
class Job:
    """The measuring Job. folder: of all its files."""

    folder: Path
    image: Path
    kubernetes: StandInKubernetes

    @property
    def results(self) -> Path:
        return self.folder / "out"

    def set_limits(self, budget_usd: float) -> None:
        (self.folder / "limits.json").write_bytes(limits(budget_usd))

    def pod(self) -> subprocess.Popen[str]:
        """One of its pods."""
        host, _, port = self.kubernetes.url.removeprefix("https://").partition(":")
        environment = {
            **os.environ,
            **IN_A_JOB,
            "POD_FOLDER": str(self.kubernetes.folder),
            "KUBERNETES_SERVICE_HOST": host,
            "KUBERNETES_SERVICE_PORT": port,
        }
        arguments = [
            *("--run-spec", str(self.folder / "spec.json"), "--results", str(self.results)),
            *("--serving-limits-file", str(self.folder / "limits.json")),
        ]
        return subprocess.Popen(
            [sys.executable, str(self.image / PROGRAM.name), *arguments],
            cwd=self.image,
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )

    def looks(self) -> list[LiveProbe]:
        files = sorted(self.results.glob(f"live/{RUN_ID}/[0-9]*.json"))
        return [load_record(LiveProbe, file.read_bytes()) for file in files]

    def await_looks(self, process: subprocess.Popen[str], count: int) -> None:
        deadline = time.monotonic() + HANGS_AFTER_SECONDS
        while len(self.looks()) < count:
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.fixture
def job(tmp_path: Path, image: Path) -> Iterator[Job]:
    made = StandInKubernetes(
        replicas={"vllm-baseline": 1, "vllm-k7": 1},
        # Of the winner of an earlier Job: it must not get requests while this one measures.
        selectors={"winner": {"app.kubernetes.io/instance": "vllm-baseline"}},
    )
    folder = tmp_path / "kubernetes"
    folder.mkdir()
    with stand_in_kubernetes(folder, made), stream_server(served) as server:
        spec = measured(tmp_path / "out", server.base_url)
        (tmp_path / "spec.json").write_text(dump_text(spec))
        yield Job(tmp_path, image, made)


def instance_of(kubernetes: StandInKubernetes) -> str:
    """The server that clients are led to. Without a selector the endpoints would stay."""
    selector = kubernetes.selectors["winner"]
    assert selector
    return str(selector["app.kubernetes.io/instance"])


def test_a_winner_serves_over_two_pods_until_its_budget_is_spent(job: Job) -> None:
    job.set_limits(budget_usd=1e6)
    first = job.pod()
    job.await_looks(first, 2)
    run = job.results / RUN_ID
    assert (run / RUN_FILE).exists()
    assert (run / REPORT_FOLDER / REPORT_PAGE).exists(), "the report does not wait for the end"
    assert job.kubernetes.replicas == {"vllm-baseline": 0, "vllm-k7": 1}
    assert instance_of(job.kubernetes) == "vllm-k7"
    first.send_signal(signal.SIGTERM)
    log = first.communicate(timeout=HANGS_AFTER_SECONDS)[1]
    assert first.returncode == EXIT_INTERRUPTED, log
    assert f"{RUN_ID} goes on in the next pod" in log
    seen = len(job.looks())

    second = job.pod()
    job.await_looks(second, seen + 1)
    job.set_limits(budget_usd=1e-6)
    log = second.communicate(timeout=HANGS_AFTER_SECONDS)[1]
    assert second.returncode == 0, log
    assert "is over already" in log
    assert "k7 goes: the budget of serving is spent" in log
    assert instance_of(job.kubernetes) == "none"
    assert job.kubernetes.replicas == {"vllm-baseline": 1, "vllm-k7": 1}
    found = job.looks()
    assert [probe.number for probe in found] == [*range(1, len(found) + 1)]
    assert {probe.tokens_per_step for probe in found} == {3.0}

    asked = len(job.kubernetes.asked)
    third = job.pod()
    log = third.communicate(timeout=HANGS_AFTER_SECONDS)[1]
    assert third.returncode == 0, log
    assert job.looks() == found
    assert len(job.kubernetes.asked) >= asked


def test_clients_of_an_earlier_winner_are_led_nowhere_before_anything_is_measured(
    job: Job,
) -> None:
    job.set_limits(budget_usd=1e-9)
    process = job.pod()
    log = process.communicate(timeout=HANGS_AFTER_SECONDS)[1]
    assert process.returncode == 0, log
    assert kept_winner(FolderSink(job.results), RUN_ID)
    assert instance_of(job.kubernetes) == "none"


def test_without_limits_nothing_is_measured(job: Job) -> None:
    process = job.pod()
    log = process.communicate(timeout=HANGS_AFTER_SECONDS)[1]
    assert process.returncode == 2
    assert "no limits of serving" in log
    assert "Traceback" not in log
