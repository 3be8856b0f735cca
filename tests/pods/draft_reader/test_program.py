"""The draft reader against an emulated S3, with stand-ins for drafts; once with a real one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from charts.shipped import MEASURING_IMAGE
from draftworth.errors import DraftworthError, UserInputError
from draftworth.records.codec import dump_record, load_record
from draftworth.records.readings import OUTPUTS_FILE, READINGS_FILE, DraftReadings, Output, Reading
from draftworth.records.results import RUN_FILE
from pods.draft_reader.program import END_OF_RUN, EXIT_FAILED, EXIT_OK, DraftReader
from pods.teacher_forcing.reader import Reader
from tests.conftest import ROOT
from tests.support.emulator import emulated_account
from tests.support.shipped import lay_out

pytestmark = pytest.mark.emulator

BUCKET, RUNS = "results", "runs/llmperf-x-0123abcd-"
RUN = f"{RUNS}11112222"
OUTPUT = Output(
    id="o",
    prompt_class="structured",
    case="count",
    prompt_id="p",
    asked={"messages": [{"role": "user", "content": "Count from 1 to 10."}]},
    text="1 2 3 4 5 6 7 8 9 10",
)
READING = Reading(
    id="o",
    prompt_class="structured",
    case="count",
    prompt_id="p",
    hits="1",
    log_likelihood=-1.0,
    entropy=1.0,
    variance=1.0,
)


def reads(_: Path, outputs: Sequence[Output]) -> Sequence[Reading]:
    assert [output.id for output in outputs] == ["o"]
    return [READING]


@pytest.fixture
def s3() -> Iterator[Any]:
    with mock_aws():
        client = boto3.client("s3", region_name="us-east-1")
        client.create_bucket(Bucket=BUCKET)
        yield client


def put(s3: Any, name: str, data: bytes = b"{}", run: str = RUN) -> None:
    s3.put_object(Bucket=BUCKET, Key=f"{run}/{name}", Body=data)


def found(s3: Any) -> DraftReadings:
    body = s3.get_object(Bucket=BUCKET, Key=f"{RUN}/{READINGS_FILE}")["Body"]
    return load_record(DraftReadings, body.read())


class Clock:
    """Seconds pass while somebody sleeps; in sleep number `at` something happens."""

    def __init__(self, happen: Callable[[], object] = lambda: None, *, at: int = 0) -> None:
        self.seconds, self.sleeps, self._happen, self._at = 0.0, 0, happen, at

    def __call__(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds
        self.sleeps += 1
        if self.sleeps == self._at:
            self._happen()


def reader(s3: Any, clock: Clock, drafts: Mapping[str, Path], **overrides: Any) -> DraftReader:
    fields: dict[str, Any] = {
        "client": s3,
        "bucket": BUCKET,
        "runs": RUNS,
        "drafts": drafts,
        "read_with": reads,
        "memory_gib": 8.0,
        "wait_seconds": 100.0,
        "poll_seconds": 10.0,
        "clock": clock,
        "sleep": clock.sleep,
    }
    return DraftReader(**{**fields, **overrides})


def test_the_end_of_a_run_is_called_as_the_load_generator_calls_it() -> None:
    assert END_OF_RUN == RUN_FILE


def test_outputs_are_waited_for_and_what_drafts_read_is_put_down(s3: Any, tmp_path: Path) -> None:
    clock = Clock(lambda: put(s3, OUTPUTS_FILE, dump_record(OUTPUT)), at=3)
    drafts = {"acme/a": tmp_path, "acme/b": tmp_path}
    assert reader(s3, clock, drafts).run() == EXIT_OK
    assert clock.sleeps == 3
    assert found(s3).run_id == RUN.removeprefix("runs/")
    assert found(s3).drafts == {"acme/a": (READING,), "acme/b": (READING,)}


def test_a_draft_that_cannot_read_leaves_the_others(s3: Any, tmp_path: Path) -> None:
    large, broken, well = (tmp_path / name for name in ("large", "broken", "well"))
    for folder in (large, broken, well):
        folder.mkdir()
    with (large / "model.safetensors").open("wb") as file:
        file.truncate(3 * 2**30)  # sparse

    def read_with(folder: Path, _: Sequence[Output]) -> Sequence[Reading]:
        if folder == broken:
            raise DraftworthError("no causal language model")
        return [READING]

    put(s3, OUTPUTS_FILE, dump_record(OUTPUT))
    said: list[str] = []
    drafts = {folder.name: folder for folder in (large, broken, well)}
    made = reader(s3, Clock(), drafts, read_with=read_with, log=said.append)
    assert made.run() == EXIT_OK
    assert [*found(s3).drafts] == ["well"]
    assert any("large does not read: 3.0 GiB of weights take 8.5 GiB" in line for line in said)
    assert any("broken does not read: no causal" in line for line in said)


def test_where_no_draft_can_read_nothing_is_put_down(s3: Any, tmp_path: Path) -> None:
    put(s3, OUTPUTS_FILE, dump_record(OUTPUT))
    made = reader(s3, Clock(), {"a": tmp_path}, memory_gib=3.0)
    assert made.run() == EXIT_FAILED
    with pytest.raises(s3.exceptions.NoSuchKey):
        found(s3)


@pytest.mark.parametrize("name", [RUN_FILE, READINGS_FILE])
def test_it_ends_when_nobody_needs_it_any_more(s3: Any, name: str) -> None:
    clock = Clock(lambda: put(s3, name), at=2)
    assert reader(s3, clock, {}).run() == EXIT_OK
    assert clock.sleeps == 2


def test_of_a_job_that_was_made_anew_the_run_that_goes_on_is_read(s3: Any, tmp_path: Path) -> None:
    other = f"{RUNS}00001111"
    put(s3, RUN_FILE, run=other)
    put(s3, OUTPUTS_FILE, b"of a run that is over", run=other)
    put(s3, OUTPUTS_FILE, dump_record(OUTPUT))
    assert reader(s3, Clock(), {"a": tmp_path}).run() == EXIT_OK
    assert found(s3).drafts == {"a": (READING,)}


def test_it_waits_no_longer_than_it_may(s3: Any) -> None:
    clock = Clock()
    assert reader(s3, clock, {}).run() == EXIT_FAILED
    assert clock.seconds == 100


def test_a_bucket_that_refuses_is_asked_again_and_told_once(s3: Any, tmp_path: Path) -> None:
    said: list[str] = []
    clock = Clock(lambda: s3.create_bucket(Bucket="late"), at=2)
    made = reader(s3, clock, {"a": tmp_path}, bucket="late", log=said.append)
    assert made.run() == EXIT_FAILED
    assert sum("NoSuchBucket" in line for line in said) == 1


@pytest.mark.parametrize("data", [b"[]", b'{"id": "o"}\n', b"\xff"])
def test_outputs_that_are_none_are_refused(s3: Any, data: bytes) -> None:
    put(s3, OUTPUTS_FILE, data)
    with pytest.raises(UserInputError, match="not a file of outputs"):
        reader(s3, Clock(), {}).run()


def test_readings_of_a_pod_before_it_stay(s3: Any, tmp_path: Path) -> None:
    def read_with(_: Path, __: Sequence[Output]) -> Sequence[Reading]:
        put(s3, READINGS_FILE, dump_record(DraftReadings(run_id="x", drafts={})))
        return [READING]

    put(s3, OUTPUTS_FILE, dump_record(OUTPUT))
    assert reader(s3, Clock(), {"a": tmp_path}, read_with=read_with).run() == EXIT_OK
    assert found(s3).run_id == "x"


def test_the_program_runs_from_what_travels_and_says_what_fails(tmp_path: Path) -> None:
    """No torch here: no draft can read, which ends with one."""
    endpoint = emulated_account()
    environment = {
        **{k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")
    client.create_bucket(Bucket=BUCKET)
    put(client, OUTPUTS_FILE, dump_record(OUTPUT))
    lay_out(MEASURING_IMAGE, tmp_path / "app")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pods.draft_reader", "--results", BUCKET, "--runs", RUNS),
            *("--target", str(tmp_path), "--scratch", str(tmp_path / "scratch")),
            *(f"--draft={tmp_path}=acme/a", "--memory-gib", "8", "--enable-thinking"),
        ],
        cwd=tmp_path / "app",
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == EXIT_FAILED, done.stderr
    assert "acme/a does not read: " in done.stderr


@pytest.mark.engine
def test_a_real_draft_reads(s3: Any, tmp_path: Path) -> None:
    python = os.environ.get("DRAFTWORTH_ENGINE_PYTHON")
    if python is None:
        pytest.skip("set DRAFTWORTH_ENGINE_PYTHON to the engine's interpreter (make test-engine)")
    pair = ROOT / "rehearsal" / "tiny_pair"
    put(s3, OUTPUTS_FILE, dump_record(OUTPUT))
    real = Reader(
        python=Path(python),
        target=pair / "target",
        folder=tmp_path / "scratch",
        enable_thinking=False,
    )
    made = reader(s3, Clock(), {"tiny": pair / "draft"}, read_with=real.readings)
    assert made.run() == EXIT_OK
    (reading,) = found(s3).drafts["tiny"]
    assert (reading.id, len(reading.hits)) == ("o", 19)
