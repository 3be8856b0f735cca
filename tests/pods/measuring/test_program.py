"""The measuring Job's program, also as the image runs it: from the files in the Dockerfile."""

import dataclasses
import hashlib
import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import boto3
import pytest

from charts.shipped import MEASURING_IMAGE
from draftworth.measuring import run_specification
from draftworth.measuring.journal import Entry, EntryKind, read_history
from draftworth.measuring.result_files import FolderSink
from draftworth.records.codec import dump_record, dump_text, load_record
from draftworth.records.findings import REPORT_FOLDER, REPORT_PAGE
from draftworth.records.results import RUN_FILE, RunResult
from draftworth.records.run_folder import read_run
from draftworth.records.servers import server_state_key
from tests.conftest import ROOT
from tests.lambdas.capacity_controller.plans import make_server_given_up
from tests.support.emulator import emulated_account
from tests.support.measuring_job import (
    IN_A_JOB,
    RUN_OF_THE_JOB,
    Program,
    healthy,
    result_of_the_job,
    spec_for,
    stalled,
)
from tests.support.shipped import lay_out
from tests.support.stream_server import Request, Step, stream_server
from tests.support.waiting import HANGS_AFTER_SECONDS

DOCKERFILE = ROOT / "pods" / "measuring" / "Dockerfile"
# Packages that the image lacks, or that the program must not need.
NOT_IN_THE_POD = ("pydantic", "yaml", "aws_cdk", "cdk8s", "moto", "ray", "llmperf")
# Packages that only the report needs, so that measuring must not import them.
NOT_BEFORE_THE_REPORT = ("jinja2", "matplotlib", "rich")


def test_the_dockerfile_copies_what_the_build_context_holds() -> None:
    copied = re.findall(r"^COPY (\S+) (\S+)$", DOCKERFILE.read_text(), re.MULTILINE)
    folders = {name.split("/")[0] for name in MEASURING_IMAGE}
    assert {(folder, folder) for folder in folders} <= set(copied)


def terminate(*_: object) -> None:
    """Send this process SIGTERM, as Kubernetes sends it to a pod."""
    os.kill(os.getpid(), signal.SIGTERM)


def drained(request: Request) -> Sequence[Step]:
    """Return a server's answer that never ends; a POST also sends SIGTERM to the program."""
    if request.method == "POST":
        terminate()
    return stalled(request)


NOWHERE = spec_for("http://127.0.0.1:9")
ON_RAY = spec_for("http://127.0.0.1:9", load_generator="llmperf")


def test_the_image_alone_measures_and_ends_with_zero(tmp_path: Path) -> None:
    """The program runs from the files that the image gets, and from nothing else of the project.

    It imports neither the packages that the image lacks nor Ray, even where Ray is installed.
    """
    image = tmp_path / "app"
    lay_out(MEASURING_IMAGE, image)
    for name in NOT_IN_THE_POD:
        (image / name).mkdir()
        (image / name / "__init__.py").write_text(f"raise ImportError('{name} is loaded')")
    with stream_server(healthy) as server:
        (tmp_path / "spec.json").write_text(dump_text(spec_for(server.base_url)))
        options = ("--run-spec", str(tmp_path / "spec.json"), "--results", str(tmp_path / "out"))
        done = subprocess.run(
            [sys.executable, "-m", "pods.measuring", *options],
            cwd=image,
            env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
            capture_output=True,
            text=True,
            timeout=HANGS_AFTER_SECONDS,
        )

    assert done.returncode == 0, done.stderr
    assert "load generator: asyncio" in done.stderr
    (folder,) = (tmp_path / "out").iterdir()
    assert len(read_run(folder).blocks[0].requests) == 2
    assert (folder / REPORT_FOLDER / REPORT_PAGE).exists()


def test_the_next_pod_finishes_a_report(
    program: Program, tmp_path: Path, undrawn: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`run.json` exists before the report, so no node waits and nothing is measured again."""
    run = tmp_path / "out" / RUN_OF_THE_JOB

    def cut_off(*_: object) -> None:
        assert (run / RUN_FILE).exists()
        terminate()

    with stream_server(healthy) as server:
        with monkeypatch.context() as patched:
            patched.setattr("draftworth.report.writing.write_report", cut_off)
            first, log = program(spec_for(server.base_url), **IN_A_JOB)
        assert first == run_specification.EXIT_INTERRUPTED, log
        requests_before = len(server.requests)
        second, log = program(spec_for(server.base_url), **IN_A_JOB)

    assert second == 0, log
    assert len(server.requests) == requests_before
    assert (run / REPORT_FOLDER / REPORT_PAGE).exists()


def test_a_signal_ends_the_run_and_is_recorded(program: Program, tmp_path: Path) -> None:
    with stream_server(drained) as server:
        code, log = program(spec_for(server.base_url))

    assert code == 1, log
    (folder,) = (tmp_path / "out").iterdir()
    assert read_run(folder).result.status == "failed"


def test_a_terminated_pod_leaves_its_run_to_another(
    program: Program, tmp_path: Path, undrawn: None
) -> None:
    """A pod ends in its second block; the next one measures that block, and a third one nothing."""
    # One answer for each POST request: the check before the run, the first block's warm-up and
    # measured request, and the second block's first request, during which the pod ends.
    answers = itertools.chain([healthy] * 3, [drained], itertools.repeat(healthy))

    def script(request: Request) -> Sequence[Step]:
        return next(answers)(request) if request.method == "POST" else healthy(request)

    with stream_server(script) as server:
        once = spec_for(server.base_url)
        (case,) = once.cases
        twice = dataclasses.replace(once, cases=(case, dataclasses.replace(case, name="b")))
        first, first_log = program(twice, **IN_A_JOB)
        ended_without = not (tmp_path / "out" / RUN_OF_THE_JOB / RUN_FILE).exists()
        second, second_log = program(twice, **IN_A_JOB)
        requests_before = len(server.requests)
        third, third_log = program(twice, **IN_A_JOB)

    assert first == run_specification.EXIT_INTERRUPTED, first_log
    assert ended_without
    assert second == 0, second_log
    assert "continuing after one block that is measured already" in second_log
    run = read_run(tmp_path / "out" / RUN_OF_THE_JOB)
    assert [b.case for b in run.blocks] == ["count", "b"]
    assert [i.kind for i in run.result.interruptions] == ["load generator"]
    assert third == 0, third_log
    assert "is over already" in third_log
    assert len(server.requests) == requests_before


@dataclasses.dataclass(frozen=True, kw_only=True)
class EndedPod:
    """A process of the program that has ended.

    results: its folder of results. log: its standard error, with a line for each imported module.
    """

    exit_code: int
    log: str
    results: Path


@pytest.fixture(scope="module")
def signalled_pod(tmp_path_factory: pytest.TempPathFactory) -> EndedPod:
    """The program as a process, with its own signal handlers, threads and exit, got SIGTERM."""
    folder = tmp_path_factory.mktemp("signalled")
    pods: list[subprocess.Popen[str]] = []

    def signalled(request: Request) -> Sequence[Step]:
        if request.method == "POST":
            pods[0].send_signal(signal.SIGTERM)
        return stalled(request)

    with stream_server(signalled) as server:
        (folder / "spec.json").write_text(dump_text(spec_for(server.base_url)))
        options = ("--run-spec", str(folder / "spec.json"), "--results", str(folder / "out"))
        command = [sys.executable, "-X", "importtime", "-m", "pods.measuring", *options]
        env = {**os.environ, **IN_A_JOB}
        pods.append(subprocess.Popen(command, cwd=ROOT, env=env, stderr=subprocess.PIPE, text=True))
        _, log = pods[0].communicate(timeout=HANGS_AFTER_SECONDS)
    return EndedPod(exit_code=pods[0].returncode, log=log, results=folder / "out")


def test_a_signalled_process_leaves_a_readable_run(signalled_pod: EndedPod) -> None:
    assert signalled_pod.exit_code == run_specification.EXIT_INTERRUPTED, signalled_pod.log
    history = read_history(FolderSink(signalled_pod.results), RUN_OF_THE_JOB)
    assert history.result is None
    assert [entry.kind for entry in history.entries] == ["started", "waited", "ended"]


def test_measuring_loads_nothing_of_the_report(signalled_pod: EndedPod) -> None:
    imported = {
        line.rpartition("|")[2].strip()
        for line in signalled_pod.log.splitlines()
        if line.startswith("import time:")
    }
    assert {"pods.measuring.program", "draftworth.measuring.runner"} <= imported
    assert not imported & {*NOT_BEFORE_THE_REPORT}


def test_a_signal_while_ray_starts_ends_the_process(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a handler, Linux ignores the signal if the process is a container's first one."""
    monkeypatch.setattr("pods.measuring.engine_choice.why_not_llmperf", lambda *_: "")
    ray_actors = SimpleNamespace(ray_engine=terminate)
    monkeypatch.setitem(sys.modules, "pods.measuring.ray_actors", ray_actors)
    code, log = program(ON_RAY, **IN_A_JOB)

    assert code == run_specification.EXIT_INTERRUPTED, log
    assert "goes on in the next pod" in log


def test_a_run_without_its_engine_ends_with_reason(program: Program, tmp_path: Path) -> None:
    code, log = program(ON_RAY, **IN_A_JOB)

    assert code == 1, log
    result = result_of_the_job(tmp_path)
    assert result.status == "failed"
    assert "load_generator llmperf: not installed" in result.reason
    assert result.load_generator == "llmperf"


@pytest.mark.parametrize("broken", ["spec.json", "deadline", "history"])
def test_a_run_that_cannot_begin_ends_with_reason(
    program: Program, tmp_path: Path, broken: str
) -> None:
    """The servers' nodes cost money until `run.json` says that the run is over."""
    (tmp_path / "deadline").write_text("nonsense" if broken == "deadline" else "1")
    if broken == "history":
        journal = tmp_path / "out" / RUN_OF_THE_JOB / "journal"
        journal.mkdir(parents=True)
        (journal / "0001-0000-started.json").write_text("nonsense")
    spec = "nonsense" if broken == "spec.json" else NOWHERE
    deadline = ("--deadline-minutes-file", str(tmp_path / "deadline"))
    code, log = program(spec, *deadline, **IN_A_JOB)

    assert code == (1 if broken == "history" else 2), log
    assert "Traceback" not in log
    result = result_of_the_job(tmp_path)
    assert (result.status, result.run_id) == ("failed", RUN_OF_THE_JOB)
    assert result.reason in log


def test_an_early_defect_is_recorded_and_shown(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def defective(*_: object) -> None:
        raise KeyError(7)

    monkeypatch.setattr("pods.measuring.program.open_engine", defective)
    with pytest.raises(KeyError):
        program(NOWHERE, **IN_A_JOB)
    assert result_of_the_job(tmp_path).reason.endswith("KeyError: 7")


@pytest.mark.parametrize("was_terminated", [True, False])
def test_the_last_pod_records_earlier_ends(
    program: Program, tmp_path: Path, was_terminated: bool
) -> None:
    """Pods that were terminated do not count as failures, because the next pod continues."""
    run = tmp_path / "out" / RUN_OF_THE_JOB
    for attempt in range(1, run_specification.MAX_UNRECORDED_ENDS + 1):
        for number, kind in enumerate(("started", "ended") if was_terminated else ("started",)):
            entry = Entry(
                attempt=attempt,
                number=number,
                kind=cast(EntryKind, kind),
                started_at_unix_s=attempt * 1e3,
                ended_at_unix_s=attempt * 1e3,
            )
            (run / entry.name).parent.mkdir(parents=True, exist_ok=True)
            (run / entry.name).write_bytes(dump_record(entry))
    (tmp_path / "deadline").write_text("0")
    deadline = ("--deadline-minutes-file", str(tmp_path / "deadline"))
    code, log = program(NOWHERE, *deadline, **IN_A_JOB)

    assert code == 1, log
    reason = result_of_the_job(tmp_path).reason
    assert ("3 pods ended and recorded no reason" in reason) is not was_terminated


def test_unwritable_results_are_left_to_another_pod(program: Program, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file where the folder should be")
    code, log = program(NOWHERE, **IN_A_JOB)

    assert code == run_specification.EXIT_NOT_RECORDED, log
    assert "Traceback" not in log


def test_a_run_ends_at_its_deadline_with_reason(program: Program, tmp_path: Path) -> None:
    with stream_server(stalled) as server:
        spec = dataclasses.replace(spec_for(server.base_url), ready_deadline_seconds=None)
        (tmp_path / "deadline").write_text("0.05\n")
        deadline = ("--deadline-minutes-file", str(tmp_path / "deadline"))
        code, log = program(spec, *deadline, **IN_A_JOB)

    assert code == 1, log
    reason = result_of_the_job(tmp_path).reason
    assert (
        "the deadline, 0.05 minutes from the run's start, passed while a server answered" in reason
    )


@pytest.mark.parametrize(
    ("spec", "arguments", "message"),
    [
        ("{}", (), "run specification"),
        ('{"schema": "draftworth.runspec/0"}', (), "schema: given 'draftworth.runspec/0'"),
        (NOWHERE, ("--results", "s3:///runs"), "allowed: s3://BUCKET/PREFIX"),
        (NOWHERE, ("--deadline-minutes-file", "/nothing"), "no number of minutes"),
        (ON_RAY, (), "load_generator llmperf: not installed: "),
    ],
)
def test_a_wrong_input_exits_with_two(
    program: Program,
    spec: run_specification.RunSpec | str,
    arguments: tuple[str, ...],
    message: str,
) -> None:
    code, log = program(spec, *arguments)

    assert code == run_specification.EXIT_WRONG_INPUT
    assert message in log
    assert "Traceback" not in log


REQUIREMENTS = DOCKERFILE.parent / "requirements.txt"


def check_of_llmperf(commands: str) -> str:
    """Return the command of the build that fails if the files of llmperf are others."""
    check = re.search(r'test "\$\(.*?\)"\s+= "\$\{LLMPERF_FILES\}  -"', commands)
    return check[0] if check else ""


def what_may_change_in_the_image(dockerfile: str, requirements: str) -> list[str]:
    """Return the lines of both files from which a later build could install something else."""
    commands = dockerfile.replace("\\\n", " ")
    bases = re.findall(r"^(?:FROM|ARG BASE=) *(\S+)", commands, re.MULTILINE)
    unpinned = [f"base {b}" for b in bases if not re.search(r"@sha256:[0-9a-f]{64}$|^\$", b)]
    installs = re.findall(r"pip install [^&\n]*", commands)
    for install in installs:
        fetched = "-r requirements.txt" in install and "--require-hashes" in install
        built = install.rstrip().endswith("/llmperf") and "--no-build-isolation" in install
        if "--no-deps" not in install or not (fetched or built):
            unpinned.append(install)
    if not bases or not installs or not re.search("LLMPERF_COMMIT=[0-9a-f]{40}\n", commands):
        unpinned.append("no base, no packages, or no commit of llmperf")
    if not re.search("LLMPERF_FILES=[0-9a-f]{64}\n", commands) or not check_of_llmperf(commands):
        unpinned.append("the files of llmperf are not checked")
    lines = [line for line in requirements.splitlines() if line and not line.startswith("#")]
    whole = re.compile(r"[\w.-]+==[\w.]+ --hash=sha256:[0-9a-f]{64}")
    return unpinned + [line for line in lines or ["no packages"] if not whole.fullmatch(line)]


def test_the_image_is_pinned_to_its_bytes() -> None:
    assert what_may_change_in_the_image(DOCKERFILE.read_text(), REQUIREMENTS.read_text()) == []


@pytest.mark.parametrize(
    "missing",
    [
        r"@sha256:\w+",
        "--require-hashes ",
        "--no-build-isolation ",
        "--no-deps ",
        "f1d6bed47e4501b0e371082b41601b59ab55269f",
        "1422ea37f188ca623fc372a60951d7364fd698b9d6e970f374c901f06d34257e",
        r'&& test "[^"]*" \\\n',
        r" --hash=sha256:\w+",
    ],
)
def test_an_unpinned_source_is_reported(missing: str) -> None:
    texts = (re.sub(missing, "", file.read_text()) for file in (DOCKERFILE, REQUIREMENTS))
    assert what_may_change_in_the_image(*texts)


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="the image's tools are GNU's")
@pytest.mark.parametrize("change", [None, "content", "name", "another file"])
def test_other_files_of_llmperf_fail_the_build(tmp_path: Path, change: str | None) -> None:
    files = {"a": "1", "src/b c": "2"}
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    lines = [f"{hashlib.sha256(c.encode()).hexdigest()}  ./{n}\n" for n, c in files.items()]
    expected = hashlib.sha256("".join(lines).encode()).hexdigest()
    match change:
        case "content":
            (tmp_path / "a").write_text("2")
        case "name":
            (tmp_path / "a").rename(tmp_path / "A")
        case "another file":
            (tmp_path / "src" / "d").touch()
    command = check_of_llmperf(DOCKERFILE.read_text().replace("\\\n", " "))
    done = subprocess.run(  # noqa: S602 - the Dockerfile's own command, as a build runs it
        command.replace("/tmp/llmperf", str(tmp_path)),  # noqa: S108 - a folder of the image
        shell=True,
        env={"LLMPERF_FILES": expected, "PATH": os.environ["PATH"]},
        check=False,
    )
    assert (done.returncode == 0) is (change is None)


def test_a_given_up_server_ends_the_run(
    program: Program,
) -> None:
    """The program reads the server's state from the results bucket."""
    endpoint = emulated_account()
    s3: Any = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-2")
    where = {"LocationConstraint": "us-east-2"}
    s3.create_bucket(Bucket="results", CreateBucketConfiguration=where)
    state = make_server_given_up(since_unix_s=time.time() + 3600)
    s3.put_object(Bucket="results", Key=server_state_key(state.server), Body=dump_record(state))
    spec = dataclasses.replace(spec_for("http://127.0.0.1:9"), ready_deadline_seconds=None)
    first, *later = spec.endpoints
    first = dataclasses.replace(first, server=state.server)
    spec = dataclasses.replace(spec, endpoints=(first, *later))
    code, log = program(
        spec, "--results", "s3://results/runs/", AWS_ENDPOINT_URL=endpoint, **IN_A_JOB
    )

    assert code == 1, log
    key = f"runs/{RUN_OF_THE_JOB}/{RUN_FILE}"
    result = load_record(RunResult, s3.get_object(Bucket="results", Key=key)["Body"].read())
    assert f"baseline was given up at its start 3: {state.reason}" in result.reason
    assert "RuntimeError: no devices" in result.reason
