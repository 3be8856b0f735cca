"""The compile Job's program with an engine that has a CPU mode: its server as a real process."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from pods.graph_compiler.cpu_mode import WORKER_VARIABLES
from tests.pods.compiled_graphs.pods import CACHE_FLAGS, KEY, free_port
from tests.pods.graph_compiler.jobs import CompilePod, report, unproven

pytestmark = pytest.mark.emulator
STAND_IN = Path(__file__).with_name("stand_in_cpu_mode.py")
MODE = {"VLLM_NEURON_CPU_COMPILE": "1"}
GRAPHS = ["decode/graph.neff", "prefill/graph.neff"]


@pytest.fixture
def pod(tmp_path: Path, endpoint: str, s3: Any) -> CompilePod:
    program = tmp_path / "bin" / "vllm"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -P {STAND_IN} "$@"\n')
    program.chmod(0o755)
    return CompilePod(
        root=tmp_path / "one",
        endpoint=endpoint,
        flags=(*CACHE_FLAGS, "--health-period-seconds=0.1"),
    )


def run(pod: CompilePod, trouble: str = "", *more: str, **given: Any) -> int:
    folder = pod.root.parent
    serve = ("vllm", "serve", "/models/target", f"--port={free_port()}", *more)
    path = {"PATH": f"{folder / 'bin'}:/usr/bin:/bin", "SAID": str(folder / "said")}
    return pod.run(trouble, serve=serve, **{**MODE, **path, **given})


@pytest.mark.parametrize("trouble", ["", "ends"])
def test_its_cache_is_what_was_made_once_it_is_healthy_or_ends(
    pod: CompilePod, s3: Any, trouble: str
) -> None:
    assert run(pod, trouble) == 0, pod.log.read_text()
    stored = unproven(s3)
    assert stored is not None
    assert [file.path for file in stored.graphs.files] == GRAPHS
    found = s3.list_objects_v2(Bucket="artifacts", Prefix=stored.graphs.folder)["Contents"]
    assert [e["Key"].removeprefix(f"{stored.graphs.folder}/") for e in found] == GRAPHS
    said = report(s3)
    assert said is not None
    assert said.outcome == "compiled"


@pytest.mark.parametrize(("failures", "workers"), [(0, "4"), (1, "2")])
def test_it_is_told_of_its_cache_and_of_its_workers(
    pod: CompilePod, failures: int, workers: str
) -> None:
    assert run(pod, failures=failures) == 0
    told = json.loads((pod.root.parent / "said").read_text())
    assert told["VLLM_CACHE_ROOT"] == str(pod.scratch / "graphs" / KEY)
    assert {told[name] for name in WORKER_VARIABLES} == {workers}
    assert told["working folder"] == str(pod.scratch / "work")


@pytest.mark.parametrize(
    ("trouble", "code", "words"),
    [
        ("nothing", 2, "is empty"),
        ("fails", 2, "exit code 1"),
        ("killed", 137, "SIGKILL"),
    ],
)
def test_what_goes_wrong_there(
    pod: CompilePod, s3: Any, trouble: str, code: int, words: str
) -> None:
    assert run(pod, trouble) == code
    assert words in pod.log.read_text()
    assert unproven(s3) is None
    # Nobody is told that none will come while another pod will try.
    assert (report(s3) is None) == (code == 137)


def test_a_server_that_is_not_in_the_mode_fails_for_good(pod: CompilePod, s3: Any) -> None:
    assert run(pod, VLLM_NEURON_CPU_COMPILE="0") == 2
    said = report(s3)
    assert said is not None
    assert said.outcome == "failed"
    assert "no Neuron device" in said.last_lines


def test_speculation_fails_for_good(pod: CompilePod) -> None:
    assert run(pod, "", "--speculative-config={}") == 2
    assert "not supported" in pod.log.read_text()
