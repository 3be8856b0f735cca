"""The Job's program, run as the image runs it: from the files that the Dockerfile copies."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from draftbench.measuring.runspec import (
    Endpoint,
    RequestShape,
    RunSpec,
    Sampling,
    dump_run_spec,
)
from draftbench.prompts import Case, Prompt
from draftbench.reading import read_run
from draftbench.results import Load
from tests.conftest import ROOT
from tests.support.stream_server import Request, Step, completion, plain, stream_server

DOCKERFILE = ROOT / "workloads" / "llmperf" / "Dockerfile"
# What the image does not have, or what the program must not need.
NOT_IN_THE_POD = ("pydantic", "yaml", "rich", "aws_cdk", "cdk8s", "moto", "ray", "llmperf")


def copied_files() -> list[tuple[str, str]]:
    """Source and destination of every COPY of the Dockerfile."""
    copies: list[tuple[str, str]] = []
    for line in re.findall(r"^COPY (.+)$", DOCKERFILE.read_text(), re.MULTILINE):
        *sources, destination = line.split()
        copies += [(source, destination) for source in sources]
    return copies


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A folder with what the Dockerfile copies, and nothing else of the project."""
    root = tmp_path / "app"
    for source, destination in copied_files():
        target = root / destination
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, target, ignore=shutil.ignore_patterns("__pycache__"))
            continue
        target = target / Path(source).name if destination.endswith("/") else target
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / source, target)
    return root


def start(image: Path, *arguments: str) -> subprocess.Popen[str]:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    return subprocess.Popen(
        [sys.executable, "-m", "workloads.llmperf", *arguments],
        cwd=image,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )


def spec_for(url: str) -> RunSpec:
    return RunSpec(
        experiment="test",
        endpoints=(
            Endpoint(variant="baseline", base_url=url, max_tokens_per_step=1, is_baseline=True),
        ),
        shape=RequestShape(
            model="tiny",
            output_tokens=2,
            fixed_output_length=True,
            temperature=0.0,
            seed=0,
            enable_thinking=False,
            timeout_seconds=5.0,
        ),
        cases=(
            Case(
                prompt_class="structured",
                name="count",
                prompts=(Prompt(id="p", messages=({"role": "user", "content": "x"},)),),
            ),
        ),
        loads=(Load(kind="concurrency", concurrency=1, requests_per_second=None),),
        sampling=Sampling(
            requests_per_round=2,
            min_requests=2,
            max_requests=2,
            target_interval_width=0.1,
            warmup_requests=0,
        ),
        parallel=False,
        class_weights={"structured": 1.0},
        price=None,
        ready_deadline_seconds=10.0,
    )


def healthy(request: Request) -> Sequence[Step]:
    return plain("200 OK", b"") if request.method == "GET" else completion(1, 1)


def stalled(request: Request) -> Sequence[Step]:
    if request.method == "GET":
        return plain("200 OK", b"")
    return completion(1, 1, gap_seconds=4)


def test_the_image_measures_and_ends_with_zero(image: Path, tmp_path: Path) -> None:
    with stream_server(healthy) as server:
        (tmp_path / "spec.json").write_text(dump_run_spec(spec_for(server.base_url)))
        process = start(
            image, "--run-spec", str(tmp_path / "spec.json"), "--results", str(tmp_path / "out")
        )
        log = process.communicate(timeout=30)[1]

    assert process.returncode == 0, log
    (folder,) = (tmp_path / "out").iterdir()
    assert len(read_run(folder).blocks[0].requests) == 2


def test_a_signal_ends_the_run_and_run_json_says_so(image: Path, tmp_path: Path) -> None:
    with stream_server(stalled) as server:
        (tmp_path / "spec.json").write_text(dump_run_spec(spec_for(server.base_url)))
        process = start(
            image, "--run-spec", str(tmp_path / "spec.json"), "--results", str(tmp_path / "out")
        )
        deadline = time.monotonic() + 15
        while len(server.requests) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        log = process.communicate(timeout=20)[1]

    assert process.returncode == 1, log
    (folder,) = (tmp_path / "out").iterdir()
    assert read_run(folder).result.status == "failed"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "run specification"),
        ("nonsense", "run specification"),
        (json.dumps({"schema": "draftbench.runspec/9"}), "schema is not draftbench.runspec/2"),
    ],
)
def test_a_wrong_specification_exits_with_two_and_no_traceback(
    image: Path, tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "spec.json").write_text(text)

    process = start(image, "--run-spec", str(tmp_path / "spec.json"), "--results", "out")
    log = process.communicate(timeout=20)[1]

    assert process.returncode == 2
    assert message in log
    assert "Traceback" not in log


def test_a_results_address_that_is_none_is_refused(image: Path, tmp_path: Path) -> None:
    (tmp_path / "spec.json").write_text(dump_run_spec(spec_for("http://127.0.0.1:9")))

    process = start(image, "--run-spec", str(tmp_path / "spec.json"), "--results", "s3:///runs")
    log = process.communicate(timeout=20)[1]

    assert process.returncode == 2
    assert "allowed: s3://BUCKET/PREFIX" in log


def test_the_program_needs_nothing_that_the_image_lacks(image: Path) -> None:
    code = (
        "import sys, workloads.llmperf.program; "
        f"print([n for n in {NOT_IN_THE_POD!r} if n in sys.modules])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], cwd=image, capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "[]"


def test_a_run_with_asyncio_does_not_load_ray(image: Path, tmp_path: Path) -> None:
    """Even where it is installed: a run on asyncio pays nothing for it."""
    for name in ("ray", "llmperf"):
        (image / name).mkdir()
        (image / name / "__init__.py").write_text("raise RuntimeError('loaded')")
    with stream_server(healthy) as server:
        (tmp_path / "spec.json").write_text(dump_run_spec(spec_for(server.base_url)))
        arguments = ["--run-spec", str(tmp_path / "spec.json"), "--results", str(tmp_path / "out")]
        process = start(image, *arguments, "--engine", "asyncio")
        log = process.communicate(timeout=30)[1]

    assert process.returncode == 0, log
    assert "engine: asyncio (asked for)" in log


def test_ray_that_is_not_installed_is_refused(image: Path, tmp_path: Path) -> None:
    (tmp_path / "spec.json").write_text(dump_run_spec(spec_for("http://127.0.0.1:9")))
    (image / "llmperf.py").write_text("")  # a module of that name that is not the library

    process = start(
        image, "--run-spec", str(tmp_path / "spec.json"), "--results", "out", "--engine", "ray"
    )
    log = process.communicate(timeout=20)[1]

    assert process.returncode == 2
    assert "--engine ray: not installed: " in log
    assert "--engine asyncio" in log
    assert "Traceback" not in log


def test_the_image_is_pinned() -> None:
    text = DOCKERFILE.read_text()
    requirements = (DOCKERFILE.parent / "requirements.txt").read_text().splitlines()
    packages = [line for line in requirements if line and not line.startswith("#")]
    assert re.search(r"^FROM \S+:\d+\.\d+\.\d+-slim-bookworm$", text, re.MULTILINE)
    assert "f1d6bed47e4501b0e371082b41601b59ab55269f" in text
    assert packages
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in packages)
