"""The measuring Job's program with llmperf on Ray, which `make test-llmperf` provides."""

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from draftworth.measuring.run_specification import EXIT_INTERRUPTED, RunSpec
from draftworth.records.codec import dump_text
from draftworth.records.run_folder import read_run
from tests.conftest import ROOT
from tests.pods.compiled_graphs.pods import eventually
from tests.support.measuring_job import IN_A_JOB, healthy, spec_for, stalled
from tests.support.stream_server import stream_server
from tests.support.waiting import HANGS_AFTER_SECONDS

PYTHON = os.environ.get("DRAFTWORTH_LLMPERF_PYTHON", "")

pytestmark = [
    pytest.mark.llmperf,
    pytest.mark.skipif(not PYTHON, reason="DRAFTWORTH_LLMPERF_PYTHON names no interpreter"),
]

# The longest time until the process has ended its actors and Ray.
END_SECONDS = 30


def start(folder: Path, spec: RunSpec, **variables: str) -> subprocess.Popen[str]:
    """Start the program in its own session, with a folder for Ray's files."""
    (folder / "spec.json").write_text(dump_text(spec))
    arguments = ["--run-spec", str(folder / "spec.json"), "--results", str(folder / "out")]
    return subprocess.Popen(
        [PYTHON, "-m", "pods.measuring", *arguments],
        cwd=ROOT,
        env={**os.environ, **variables},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def processes_of(session: int) -> Sequence[str]:
    lines = subprocess.run(["ps", "-eo", "sid,args"], capture_output=True, text=True).stdout
    return [line for line in lines.splitlines() if line.split()[0] == str(session)]


def test_a_run_on_ray_leaves_no_process(tmp_path: Path) -> None:
    with stream_server(healthy) as server:
        process = start(tmp_path, spec_for(server.base_url, load_generator="llmperf"))
        log = process.communicate(timeout=HANGS_AFTER_SECONDS)[1]

    assert process.returncode == 0, log
    assert "load generator: llmperf on Ray, in this pod, 1 actors" in log
    (folder,) = (tmp_path / "out").iterdir()
    assert [r.failed for r in read_run(folder).blocks[0].requests] == [False, False]
    assert processes_of(process.pid) == []


@pytest.mark.parametrize("moment", ["gcs_server", "raylet", "request"])
def test_a_terminated_pod_leaves_no_process_or_result(tmp_path: Path, moment: str) -> None:
    """moment: when the pod is terminated: while Ray starts its processes, or during measuring."""
    with stream_server(stalled) as server:
        process = start(tmp_path, spec_for(server.base_url, load_generator="llmperf"), **IN_A_JOB)

        def has_come() -> bool:
            # If Ray's start is too quick to be seen, the moment of the first request will do.
            if process.poll() is not None or any(r.method == "POST" for r in server.requests):
                return True
            lines = () if moment == "request" else processes_of(process.pid)
            return any(moment in line for line in lines)

        eventually(has_come, every_seconds=0.02)
        process.send_signal(signal.SIGTERM)
        log = process.communicate(timeout=END_SECONDS)[1]

    assert process.returncode == EXIT_INTERRUPTED, log
    assert list((tmp_path / "out").glob("*/run.json")) == []
    # Processes that Ray had just started end a little later; in a pod they end with the container.
    eventually(lambda: all("<defunct>" in line for line in processes_of(process.pid)))
