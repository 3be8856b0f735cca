"""The Job's program, run as the image runs it: from the files that the Dockerfile copies."""

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import boto3
import pytest

from charts.shipped import MEASURING_IMAGE
from draftworth.measuring import run_specification
from draftworth.measuring.journal import Entry, EntryKind
from draftworth.records.codec import dump_record, dump_text, load_record
from draftworth.records.findings import REPORT_FOLDER, REPORT_PAGE
from draftworth.records.load import LoadGenerator
from draftworth.records.prompts import Case, Prompt
from draftworth.records.reading import read_run
from draftworth.records.results import RUN_FILE, RunResult
from draftworth.records.servers import ServerState, server_state_key
from pods.measuring.program import main
from tests.conftest import ROOT
from tests.draftworth.measuring.specifications import endpoint, sampling, shape, specification
from tests.support.emulator import emulated_account
from tests.support.shipped import lay_out
from tests.support.stream_server import (
    Request,
    Step,
    StreamServer,
    completion,
    plain,
    stream_server,
)
from tests.support.waiting import HANGS_AFTER_SECONDS

DOCKERFILE = ROOT / "pods" / "measuring" / "Dockerfile"
# What the image does not have, or what the program must not need.
NOT_IN_THE_POD = ("pydantic", "yaml", "rich", "aws_cdk", "cdk8s", "moto", "ray", "llmperf")
# What the report takes, and measuring does not.
NOT_BEFORE_THE_REPORT = ("jinja2", "matplotlib")


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A folder with what goes into the image, and nothing else of the project."""
    root = tmp_path / "app"
    lay_out(MEASURING_IMAGE, root)
    return root


@pytest.fixture
def undrawn_image(image: Path) -> Path:
    """The image, with empty files for a report's plots: drawing takes most of its time."""
    writing = image / "draftworth" / "report" / "writing.py"
    drawn = "render(plot, theme) for"
    assert drawn in writing.read_text()
    writing.write_text(writing.read_text().replace(drawn, 'b"" for'))
    return image


def test_the_dockerfile_copies_what_the_build_context_holds() -> None:
    copied = re.findall(r"^COPY (\S+) (\S+)$", DOCKERFILE.read_text(), re.MULTILINE)
    folders = {name.split("/")[0] for name in MEASURING_IMAGE}
    assert {(folder, folder) for folder in folders} <= set(copied)


IN_A_JOB = {
    run_specification.JOB_NAME_VARIABLE: "llmperf-test-01234567",
    run_specification.JOB_UID_VARIABLE: "89abcdef-0000-0000-0000-000000000000",
}
RUN_OF_THE_JOB = "llmperf-test-01234567-89abcdef"


def start(image: Path, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | variables
    return subprocess.Popen(
        [sys.executable, "-m", "pods.measuring", *arguments],
        cwd=image,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )


# Takes arguments and environment; gives the exit code and what was logged.
Program = Callable[..., tuple[int, str]]


@pytest.fixture
def program(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Program]:
    """The program in this process, where neither the image nor a signal matters."""
    monkeypatch.setattr("pods.measuring.engines.raise_scheduling_class", lambda: "ordinary")
    handler = signal.getsignal(signal.SIGTERM)

    def run(*arguments: str, **variables: str) -> tuple[int, str]:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        capsys.readouterr()
        return main(arguments), capsys.readouterr().err

    yield run
    signal.signal(signal.SIGTERM, handler)


CASE = Case(
    prompt_class="structured",
    name="count",
    prompts=(Prompt(id="p", messages=({"role": "user", "content": "x"},)),),
)


def spec_for(url: str, *, load_generator: LoadGenerator = "asyncio") -> run_specification.RunSpec:
    return specification(
        (endpoint("baseline", 0, base_url=url, server=""),),
        experiment="test",
        shape=shape(output_tokens=2),
        cases=(CASE,),
        load_generator=load_generator,
        sampling=sampling(requests_per_round=2, min_requests=2, max_requests=2),
        ready_deadline_seconds=60.0,
    )


def healthy(request: Request) -> Sequence[Step]:
    return plain("200 OK", b"") if request.method == "GET" else completion(1, 1)


def stalled(request: Request) -> Sequence[Step]:
    if request.method == "GET":
        return plain("200 OK", b"")
    return completion(1, 1, gap_seconds=4)


def test_the_image_measures_and_ends_with_zero(image: Path, tmp_path: Path) -> None:
    with stream_server(healthy) as server:
        (tmp_path / "spec.json").write_text(dump_text(spec_for(server.base_url)))
        process = start(
            image, "--run-spec", str(tmp_path / "spec.json"), "--results", str(tmp_path / "out")
        )
        log = process.communicate(timeout=HANGS_AFTER_SECONDS)[1]

    assert process.returncode == 0, log
    (folder,) = (tmp_path / "out").iterdir()
    assert len(read_run(folder).blocks[0].requests) == 2
    assert (folder / REPORT_FOLDER / REPORT_PAGE).exists()


def test_a_report_that_a_pod_could_not_finish_is_the_next_ones(
    undrawn_image: Path, tmp_path: Path
) -> None:
    """The run is over before it: nothing is measured again, and no node waits."""
    began = tmp_path / "report-began"
    writing = undrawn_image / "draftworth" / "report" / "writing.py"
    program = writing.read_text()
    writing.write_text(
        f"import pathlib, time\npathlib.Path({str(began)!r}).touch()\ntime.sleep(30)\n"
    )
    run = tmp_path / "out" / RUN_OF_THE_JOB
    with stream_server(healthy) as server:
        (tmp_path / "spec.json").write_text(dump_text(spec_for(server.base_url)))
        arguments = ["--run-spec", str(tmp_path / "spec.json"), "--results", str(tmp_path / "out")]
        drained = start(undrawn_image, *arguments, **IN_A_JOB)
        deadline = time.monotonic() + HANGS_AFTER_SECONDS
        while not began.exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        was_over = (run / RUN_FILE).exists()
        drained.send_signal(signal.SIGTERM)
        first_log = drained.communicate(timeout=HANGS_AFTER_SECONDS)[1]
        asked = len(server.requests)
        writing.write_text(program)
        second = start(undrawn_image, *arguments, **IN_A_JOB)
        second_log = second.communicate(timeout=HANGS_AFTER_SECONDS)[1]

    assert was_over
    assert drained.returncode == run_specification.EXIT_INTERRUPTED, first_log
    assert second.returncode == 0, second_log
    assert len(server.requests) == asked
    assert (run / REPORT_FOLDER / REPORT_PAGE).exists()


def test_a_signal_ends_the_run_and_run_json_says_so(image: Path, tmp_path: Path) -> None:
    with stream_server(stalled) as server:
        (tmp_path / "spec.json").write_text(dump_text(spec_for(server.base_url)))
        process = start(
            image, "--run-spec", str(tmp_path / "spec.json"), "--results", str(tmp_path / "out")
        )
        deadline = time.monotonic() + HANGS_AFTER_SECONDS
        while len(server.requests) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        log = process.communicate(timeout=HANGS_AFTER_SECONDS)[1]

    assert process.returncode == 1, log
    (folder,) = (tmp_path / "out").iterdir()
    assert read_run(folder).result.status == "failed"


def await_request(server: StreamServer, process: subprocess.Popen[str], *, count: int = 1) -> None:
    deadline = time.monotonic() + HANGS_AFTER_SECONDS
    while sum(r.method == "POST" for r in server.requests) < count:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_pod_that_is_terminated_leaves_the_run_to_the_next_one(
    undrawn_image: Path, tmp_path: Path
) -> None:
    """Drained in the second block; the next pod measures that one, and a third one nothing."""
    slow = {"after": 2}

    def script(request: Request) -> Sequence[Step]:
        if request.method == "POST":
            slow["after"] -= 1
        return stalled(request) if slow["after"] < 0 else healthy(request)

    with stream_server(script) as server:
        once = spec_for(server.base_url)
        twice = dataclasses.replace(once, cases=(*once.cases, dataclasses.replace(CASE, name="b")))
        (tmp_path / "spec.json").write_text(dump_text(twice))
        arguments = ["--run-spec", str(tmp_path / "spec.json"), "--results", str(tmp_path / "out")]
        drained = start(undrawn_image, *arguments, **IN_A_JOB)
        await_request(server, drained, count=3)
        drained.send_signal(signal.SIGTERM)
        first_log = drained.communicate(timeout=HANGS_AFTER_SECONDS)[1]
        ended_without = not (tmp_path / "out" / RUN_OF_THE_JOB / "run.json").exists()
        slow["after"] = 100
        second = start(undrawn_image, *arguments, **IN_A_JOB)
        second_log = second.communicate(timeout=HANGS_AFTER_SECONDS)[1]
        asked = len(server.requests)
        third = start(undrawn_image, *arguments, **IN_A_JOB)
        third_log = third.communicate(timeout=HANGS_AFTER_SECONDS)[1]

    assert drained.returncode == run_specification.EXIT_INTERRUPTED, first_log
    assert ended_without
    assert second.returncode == 0, second_log
    assert "continuing after one block that is measured already" in second_log
    run = read_run(tmp_path / "out" / RUN_OF_THE_JOB)
    assert [b.case for b in run.blocks] == ["count", "b"]
    assert [i.kind for i in run.result.interruptions] == ["load generator"]
    assert third.returncode == 0, third_log
    assert "is over already" in third_log
    assert len(server.requests) == asked


def test_a_signal_while_ray_starts_ends_the_process(image: Path, tmp_path: Path) -> None:
    """As the first process of a container it would be ignored without a handler."""
    started = tmp_path / "ray-starts"
    for name in ("ray", "llmperf"):
        (image / name).mkdir()
        (image / name / "__init__.py").write_text("")
    (image / "llmperf" / "requests_launcher.py").write_text("")
    (image / "ray" / "__init__.py").write_text(
        f"import pathlib, time\npathlib.Path({str(started)!r}).touch()\ntime.sleep(30)\n"
    )
    (tmp_path / "spec.json").write_text(
        dump_text(spec_for("http://127.0.0.1:9", load_generator="llmperf"))
    )
    arguments = ("--run-spec", str(tmp_path / "spec.json"), "--results", str(tmp_path / "out"))
    process = start(image, *arguments, **IN_A_JOB)
    deadline = time.monotonic() + HANGS_AFTER_SECONDS
    while not started.exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    log = process.communicate(timeout=HANGS_AFTER_SECONDS)[1]

    assert process.returncode == run_specification.EXIT_INTERRUPTED, log
    assert "goes on in the next pod" in log


def test_a_run_whose_engine_cannot_start_is_over_and_says_so(
    program: Program, tmp_path: Path
) -> None:
    (tmp_path / "spec.json").write_text(
        dump_text(spec_for("http://127.0.0.1:9", load_generator="llmperf"))
    )
    arguments = ("--run-spec", str(tmp_path / "spec.json"), "--results", str(tmp_path / "out"))
    code, log = program(*arguments, **IN_A_JOB)

    assert code == 1, log
    result = read_run(tmp_path / "out" / RUN_OF_THE_JOB).result
    assert result.status == "failed"
    assert "load_generator llmperf: not installed" in result.reason
    assert result.load_generator == "llmperf"


@pytest.mark.parametrize("broken", ["spec.json", "deadline", "history"])
def test_a_run_that_cannot_even_begin_is_over_and_says_so(
    program: Program, tmp_path: Path, broken: str
) -> None:
    """Its servers' nodes are paid for until a file says that it is over."""
    (tmp_path / "spec.json").write_text(dump_text(spec_for("http://127.0.0.1:9")))
    (tmp_path / "deadline").write_text("1")
    run = tmp_path / "out" / RUN_OF_THE_JOB
    (run / "journal").mkdir(parents=True)
    path = run / "journal" / "0001-0000-started.json" if broken == "history" else tmp_path / broken
    path.write_text("nonsense")
    arguments = ["--run-spec", str(tmp_path / "spec.json"), "--results", str(tmp_path / "out")]
    arguments += ["--deadline-minutes-file", str(tmp_path / "deadline")]
    code, log = program(*arguments, **IN_A_JOB)

    assert code == (1 if broken == "history" else 2), log
    assert "Traceback" not in log
    result = load_record(RunResult, (run / RUN_FILE).read_bytes())
    assert (result.status, result.run_id) == ("failed", RUN_OF_THE_JOB)
    assert result.reason in log


def test_a_defect_before_the_run_begins_is_recorded_and_shown(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def defective(*_: object) -> None:
        raise KeyError(7)

    monkeypatch.setattr("pods.measuring.program.open_engine", defective)
    (tmp_path / "spec.json").write_text(dump_text(spec_for("http://127.0.0.1:9")))
    arguments = ("--run-spec", str(tmp_path / "spec.json"), "--results", str(tmp_path / "out"))
    with pytest.raises(KeyError):
        program(*arguments, **IN_A_JOB)
    result = load_record(RunResult, (tmp_path / "out" / RUN_OF_THE_JOB / RUN_FILE).read_bytes())
    assert result.reason.endswith("KeyError: 7")


@pytest.mark.parametrize("told", [True, False])
def test_the_last_pod_of_a_job_records_what_ended_the_others(
    program: Program, tmp_path: Path, told: bool
) -> None:
    """Pods that were terminated do not count: the next one continues."""
    (tmp_path / "spec.json").write_text(dump_text(spec_for("http://127.0.0.1:9")))
    run = tmp_path / "out" / RUN_OF_THE_JOB
    for attempt in range(1, run_specification.MAX_UNRECORDED_ENDS + 1):
        for number, kind in enumerate(("started", "ended") if told else ("started",)):
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
    arguments = ["--run-spec", str(tmp_path / "spec.json"), "--results", str(tmp_path / "out")]
    arguments += ["--deadline-minutes-file", str(tmp_path / "deadline")]
    code, log = program(*arguments, **IN_A_JOB)

    assert code == 1, log
    reason = load_record(RunResult, (run / RUN_FILE).read_bytes()).reason
    assert ("3 pods ended and recorded no reason" in reason) is not told


def test_results_that_cannot_be_written_are_another_pods_to_try(
    program: Program, tmp_path: Path
) -> None:
    (tmp_path / "spec.json").write_text(dump_text(spec_for("http://127.0.0.1:9")))
    (tmp_path / "out").write_text("a file where the folder should be")
    arguments = ("--run-spec", str(tmp_path / "spec.json"), "--results", str(tmp_path / "out"))
    code, log = program(*arguments, **IN_A_JOB)

    assert code == run_specification.EXIT_NOT_RECORDED, log
    assert "Traceback" not in log


@pytest.mark.parametrize("text", ["soon", None])
def test_a_deadline_that_is_no_number_is_refused(
    program: Program, tmp_path: Path, text: str | None
) -> None:
    (tmp_path / "spec.json").write_text(dump_text(spec_for("http://127.0.0.1:9")))
    if text:
        (tmp_path / "deadline").write_text(text)
    arguments = ("--run-spec", str(tmp_path / "spec.json"), "--results", str(tmp_path / "out"))
    code, log = program(*arguments, "--deadline-minutes-file", str(tmp_path / "deadline"))

    assert code == 2, log
    assert "no number of minutes" in log


def test_a_run_ends_at_its_deadline_and_says_so(program: Program, tmp_path: Path) -> None:
    with stream_server(stalled) as server:
        spec = dataclasses.replace(spec_for(server.base_url), ready_deadline_seconds=None)
        (tmp_path / "spec.json").write_text(dump_text(spec))
        (tmp_path / "deadline").write_text("0.05\n")
        arguments = ["--run-spec", str(tmp_path / "spec.json"), "--results", str(tmp_path / "out")]
        arguments += ["--deadline-minutes-file", str(tmp_path / "deadline")]
        code, log = program(*arguments, **IN_A_JOB)

    assert code == 1, log
    result = read_run(tmp_path / "out" / RUN_OF_THE_JOB).result
    assert "the deadline, 0.05 minutes from the run's start, passed in block 1" in result.reason


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "run specification"),
        ("nonsense", "run specification"),
        (json.dumps({"schema": "draftworth.runspec/0"}), "schema: given 'draftworth.runspec/0'"),
    ],
)
def test_a_wrong_specification_exits_with_two_and_no_traceback(
    program: Program, tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "spec.json").write_text(text)
    code, log = program("--run-spec", str(tmp_path / "spec.json"), "--results", "out")

    assert code == 2
    assert message in log
    assert "Traceback" not in log


def test_a_results_address_that_is_none_is_refused(program: Program, tmp_path: Path) -> None:
    (tmp_path / "spec.json").write_text(dump_text(spec_for("http://127.0.0.1:9")))
    code, log = program("--run-spec", str(tmp_path / "spec.json"), "--results", "s3:///runs")

    assert code == 2
    assert "allowed: s3://BUCKET/PREFIX" in log


def test_the_program_needs_nothing_that_the_image_lacks(image: Path) -> None:
    code = (
        "import sys, pods.measuring.program; "
        f"print([n for n in {NOT_IN_THE_POD + NOT_BEFORE_THE_REPORT!r} if n in sys.modules])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], cwd=image, capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "[]"


def test_a_run_with_asyncio_does_not_load_ray(undrawn_image: Path, tmp_path: Path) -> None:
    """Even where it is installed: a run on asyncio pays nothing for it."""
    for name in ("ray", "llmperf"):
        (undrawn_image / name).mkdir()
        (undrawn_image / name / "__init__.py").write_text("raise RuntimeError('loaded')")
    with stream_server(healthy) as server:
        (tmp_path / "spec.json").write_text(dump_text(spec_for(server.base_url)))
        arguments = ["--run-spec", str(tmp_path / "spec.json"), "--results", str(tmp_path / "out")]
        process = start(undrawn_image, *arguments)
        log = process.communicate(timeout=HANGS_AFTER_SECONDS)[1]

    assert process.returncode == 0, log
    assert "load generator: asyncio" in log


def test_llmperf_that_is_not_installed_is_refused(program: Program, tmp_path: Path) -> None:
    (tmp_path / "spec.json").write_text(
        dump_text(spec_for("http://127.0.0.1:9", load_generator="llmperf"))
    )
    code, log = program("--run-spec", str(tmp_path / "spec.json"), "--results", "out")

    assert code == 2
    assert "load_generator llmperf: not installed: " in log
    assert "load_generator asyncio needs no Ray" in log
    assert "Traceback" not in log


REQUIREMENTS = DOCKERFILE.parent / "requirements.txt"


def what_may_change_in_the_image(dockerfile: str, requirements: str) -> list[str]:
    """What another build from the same sources could take for something else."""
    commands = dockerfile.replace("\\\n", " ")
    bases = re.findall(r"^(?:FROM|ARG BASE=) *(\S+)", commands, re.MULTILINE)
    found = [f"base {b}" for b in bases if not re.search(r"@sha256:[0-9a-f]{64}$|^\$", b)]
    installs = re.findall(r"pip install [^&\n]*", commands)
    for install in installs:
        fetched = "-r requirements.txt" in install and "--require-hashes" in install
        built = "${LLMPERF_COMMIT}.tar.gz" in install and "--no-build-isolation" in install
        if "--no-deps" not in install or not (fetched or built):
            found.append(install)
    if not bases or not installs or not re.search("LLMPERF_COMMIT=[0-9a-f]{40}\n", commands):
        found.append("no base, no packages, or no commit of llmperf")
    lines = [line for line in requirements.splitlines() if line and not line.startswith("#")]
    whole = re.compile(r"[\w.-]+==[\w.]+ --hash=sha256:[0-9a-f]{64}")
    return found + [line for line in lines or ["no packages"] if not whole.fullmatch(line)]


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
        r" --hash=sha256:\w+",
    ],
)
def test_what_is_not_pinned_is_found(missing: str) -> None:
    texts = (re.sub(missing, "", file.read_text()) for file in (DOCKERFILE, REQUIREMENTS))
    assert what_may_change_in_the_image(*texts)


def test_a_server_that_was_given_up_ends_the_run_of_the_job_with_its_reason(
    program: Program, tmp_path: Path
) -> None:
    """The program reads its state from the bucket that the results go to."""
    endpoint = emulated_account()
    s3: Any = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-2")
    where = {"LocationConstraint": "us-east-2"}
    s3.create_bucket(Bucket="results", CreateBucketConfiguration=where)
    state = ServerState(
        server="vllm-baseline",
        variant="baseline",
        pod="vllm-baseline-1",
        start=3,
        phase="given_up",
        since_unix_s=time.time() + 3600,
        last_lines=("RuntimeError: no",),
        reason="its server ended 3 times",
    )
    s3.put_object(Bucket="results", Key=server_state_key(state.server), Body=dump_record(state))
    spec = dataclasses.replace(spec_for("http://127.0.0.1:9"), ready_deadline_seconds=None)
    first, *others = spec.endpoints
    first = dataclasses.replace(first, server=state.server)
    spec = dataclasses.replace(spec, endpoints=(first, *others))
    (tmp_path / "spec.json").write_text(dump_text(spec))
    arguments = ["--run-spec", str(tmp_path / "spec.json"), "--results", "s3://results/runs/"]
    code, log = program(*arguments, AWS_ENDPOINT_URL=endpoint, **IN_A_JOB)

    assert code == 1, log
    key = f"runs/{RUN_OF_THE_JOB}/{RUN_FILE}"
    result = load_record(RunResult, s3.get_object(Bucket="results", Key=key)["Body"].read())
    assert "baseline was given up at its start 3: its server ended 3 times" in result.reason
    assert "RuntimeError: no" in result.reason
